# SPDX-License-Identifier: BSD-2-Clause
# Short SENDs of one batch: of those that come together each completes the receive of the first.
# file: src/transport/shorts_take.c
s/recv_queue_at\(\&qp->rq, index\)/recv_queue_at(\&qp->rq, 0)/
