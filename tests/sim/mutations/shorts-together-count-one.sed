# SPDX-License-Identifier: BSD-2-Clause
# Short SENDs of one batch: those that come together count as one.
# file: src/transport/shorts_take.c
s/psn_add\(responder->psn, \(int32_t\)count\)/psn_add(responder->psn, 1)/
