/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posts by the steps of express_beside.c, as the engine does, over any outbox that takes records:
 * what of a list is plain. The first that is not, or NULL.
 */
#ifndef POST_PLAIN_H
#define POST_PLAIN_H

#include "device/qp.h"
#include "transport/express.h"
#include "transport/packet.h"

static inline struct ibv_send_wr *post_plain(struct qp *qp, struct ibv_send_wr *wr,
					     struct outbox *outbox)
{
	if (!outbox->reserve_express || !express_may_leave(qp) || !express_begin_plain(qp))
		return wr;
	for (; wr; wr = wr->next) {
		size_t size = express_plain_size(qp, wr);
		struct express *record =
		    size ? outbox->reserve_express(outbox, &qp->av, qp->dest_qpn, size) : NULL;

		if (!record || !express_write_plain(qp, wr, record))
			break;
		outbox->commit_express(outbox, size);
		express_keep_plain(qp, wr);
	}
	sq_commit(qp);
	return wr;
}

#endif
