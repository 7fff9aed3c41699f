# SPDX-License-Identifier: BSD-2-Clause
# The ACK for a duplicate covers answers still to come: the peer takes them to be lost, over and over.
# file: src/transport/responder.c
s/resource_covered\(qp, wire->bth\.psn\)/psn_add(qp->responder->psn, 7)/
