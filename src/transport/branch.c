/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Branches of XRC_RECV QPs: what a QP of another process is here, where SRQs of its domain are.
 */
#include <stdlib.h>

#include "device/adapter.h"
#include "transport/completion.h"
#include "transport/ledger.h"
#include "transport/requester.h"
#include "transport/transport.h"
#include "wire/mtu.h"

struct qp *transport_create_branch(struct adapter *adapter, struct xrc_domain *domain,
				   uint32_t number, struct ledger *ledger)
{
	struct depot *depot = &adapter->depot;
	struct requester *requester = depot_take(depot, sizeof(*requester));
	struct responder *responder = depot_take(depot, sizeof(*responder));
	struct qp *qp = requester && responder ? qp_create_branch(adapter, domain, number) : NULL;

	if (!qp) {
		depot_give(depot, requester, sizeof(*requester));
		depot_give(depot, responder, sizeof(*responder));
		return NULL;
	}
	qp->requester = requester;
	qp->responder = responder;
	qp->ledger = ledger;
	requester_reset(qp);
	responder_reset(qp);
	return qp;
}

void transport_get_terms(const struct qp *qp, struct qp_terms *terms)
{
	*terms = (struct qp_terms){
	    .state = atomic_load_explicit(&qp->state, memory_order_relaxed),
	    .attr = qp->attr,
	    .av = qp->av,
	    .mtu = qp->mtu,
	    .pkey = qp->pkey,
	};
}

static bool is_serving(enum ibv_qp_state state)
{
	return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD ||
	       state == IBV_QPS_SQE;
}

static void copy(struct qp *qp, const struct qp_terms *terms)
{
	qp->attr = terms->attr;
	qp->dest_qpn = terms->attr.dest_qp_num;
	qp->av = terms->av;
	qp->mtu = terms->mtu;
	qp->pkey = terms->pkey;
}

static bool set(struct qp *qp, const struct qp_terms *terms)
{
	if (terms->mtu < mtu_bytes(IBV_MTU_256) || terms->mtu > mtu_bytes(IBV_MTU_4096) ||
	    terms->attr.max_dest_rd_atomic > MAX_RD_ATOMIC ||
	    resource_reserve(qp, terms->attr.max_dest_rd_atomic))
		return false;
	copy(qp, terms);
	return true;
}

bool transport_take_terms(struct qp *qp, const struct qp_terms *terms)
{
	enum ibv_qp_state state = terms->state;

	if (state > IBV_QPS_ERR)
		return false;
	if (!is_serving(state))
		copy(qp, terms);
	else if (!set(qp, terms))
		return false;
	if (atomic_load_explicit(&qp->state, memory_order_relaxed) != IBV_QPS_ERR)
		atomic_store_explicit(&qp->state, state, memory_order_release);
	return true;
}

bool transport_set_terms(struct qp *branch, const struct qp_terms *terms)
{
	if (!is_serving(terms->state) || !set(branch, terms))
		return false;
	if (atomic_load_explicit(&branch->state, memory_order_relaxed) != IBV_QPS_ERR)
		atomic_store_explicit(&branch->state, terms->state, memory_order_release);
	return true;
}

void transport_fail(struct qp *qp, uint64_t now)
{
	qp_enter_error(qp, now);
}
