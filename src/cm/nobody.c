/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a host answers to a message whose process is gone, or to a request that nobody listens for:
 * so the peer need not wait for its timeouts.
 */
#include "cm/cm.h"

bool cm_answer_for_nobody(const struct cm_mad *to, struct cm_mad *mad)
{
	*mad = (struct cm_mad){
	    .attribute = CM_REJ,
	    .transaction = to->transaction,
	    .local_id = to->remote_id,
	    .remote_id = to->local_id,
	};
	switch (to->attribute) {
	case CM_REQ:
		mad->rej.reason = CM_REJ_INVALID_SERVICE_ID;
		return true;
	case CM_REP:
	case CM_RTU:
	case CM_LAP:
		mad->rej.message = to->attribute == CM_REP ? CM_REJECTED_REP : CM_REJECTED_OTHER;
		mad->rej.reason = CM_REJ_INVALID_COMM_ID;
		return true;
	case CM_DREQ:
		mad->attribute = CM_DREP;
		return true;
	case CM_SIDR_REQ:
		mad->attribute = CM_SIDR_REP;
		mad->local_id = to->local_id;
		mad->sidr_rep.status = CM_SIDR_UNSUPPORTED;
		mad->sidr_rep.service_id = to->sidr_req.service_id;
		return true;
	default:
		return false;
	}
}
