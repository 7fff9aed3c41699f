# SPDX-License-Identifier: BSD-2-Clause
# ACK coverage: an ACK completes the request behind it as well.
# file: src/transport/completer.c
s/acknowledge_before\(qp, psn_next\(wire->bth\.psn\), now\)/acknowledge_before(qp, wire->bth.psn == psn_add(qp->requester->end, -1) ? qp->requester->end : psn_add(wire->bth.psn, 2), now)/
