# SPDX-License-Identifier: BSD-2-Clause
# What a QP has offered may still be fetched when it has failed, and its program uses that memory again.
# file: src/transport/reach.c
# with: --offers --seeds 1..300
s/if \(qp->is_published\)$/if (qp->is_published \&\& atomic_load(\&qp->state) == IBV_QPS_RESET)/
s/qp->is_published = false;/qp->is_published \&= atomic_load(\&qp->state) != IBV_QPS_RESET;/
s/qp->is_published = access/qp->is_published |= access/
