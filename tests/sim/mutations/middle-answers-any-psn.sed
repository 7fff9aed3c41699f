# SPDX-License-Identifier: BSD-2-Clause
# The short way of the middle of READ responses: what comes after a gap is taken for what is awaited.
# file: src/transport/middle.c
s/requester->una == bth_psn\(packet->bth\)/requester->una <= bth_psn(packet->bth)/
