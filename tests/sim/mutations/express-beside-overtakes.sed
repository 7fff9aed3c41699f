# SPDX-License-Identifier: BSD-2-Clause
# A plain message leaves in front of what waits in the send queue.
# file: src/transport/express_beside.c
# with: --express --seeds 1..300
s/ && qp->requester->current == qp->sq\.next &&/ \&\&/
