# SPDX-License-Identifier: BSD-2-Clause
# Short SENDs of one batch: receives that are done are used once more.
# file: src/transport/shorts_take.c
s/recv_queue_pass\(\&qp->rq, count\)/recv_queue_pass(\&qp->rq, 1)/
