# SPDX-License-Identifier: BSD-2-Clause
# The short way of the middle of a message: those that come together count as one.
# file: src/transport/middle.c
s/responder->psn = psn_add\(responder->psn, count\)/responder->psn = psn_add(responder->psn, 1)/
