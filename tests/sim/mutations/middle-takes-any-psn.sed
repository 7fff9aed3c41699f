# SPDX-License-Identifier: BSD-2-Clause
# The short way of the middle of a message: what comes after a gap is taken for what is expected.
# file: src/transport/middle.c
s/responder->psn == bth_psn\(packet->bth\)/responder->psn <= bth_psn(packet->bth)/
