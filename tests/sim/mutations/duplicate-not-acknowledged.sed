# SPDX-License-Identifier: BSD-2-Clause
# A SEND or WRITE seen before is not acknowledged again, so a lost ACK is never repaired.
# file: src/transport/responder.c
s/^\t\towe_ack_again\(qp->responder, resource_covered\(qp, wire->bth\.psn\)\);$/\t\treturn;/
