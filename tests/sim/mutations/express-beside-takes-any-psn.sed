# SPDX-License-Identifier: BSD-2-Clause
# A plain message is taken whatever its PSN.
# file: src/transport/express_beside.c
# with: --express --seeds 1..300
s/responder_awaits\(qp->responder, express->psn\)/responder_awaits(qp->responder, qp->responder->psn)/
