/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Nodes as processes of one host: what is offered may be fetched from the other's memory, as long
 * as its QP and the region are published, or refused for no reason, half done, or asked for again.
 * WRITEs and READs are always refused here.
 */
#include <string.h>

#include "sim.h"
#include "transport/reach.h"

enum { REFUSED = 300, HALF_DONE = 200, LATER = 1500 }; /* chances, of ten thousand */

bool near_publish_mr(struct adapter *adapter, const struct mr *mr)
{
	struct node *node = adapter->host_data;

	sim_check(node->world, node->shown_mr_count < SHOWN_MAX, "too many regions");
	node->shown_mrs[node->shown_mr_count++] = mr;
	return true;
}

void near_withdraw_mr(struct adapter *adapter, const struct mr *mr)
{
	struct node *node = adapter->host_data;

	for (uint32_t i = 0; i < node->shown_mr_count; i++)
		if (node->shown_mrs[i] == mr)
			node->shown_mrs[i--] = node->shown_mrs[--node->shown_mr_count];
}

bool near_publish_qp(struct adapter *adapter, const struct qp *qp, unsigned int access)
{
	struct node *node = adapter->host_data;

	if (!(access & REACH_SENDS))
		return false;
	sim_check(node->world, node->shown_qp_count < SHOWN_MAX, "too many QPs");
	node->shown_qps[node->shown_qp_count++] = qp;
	return true;
}

void near_withdraw_qp(struct adapter *adapter, const struct qp *qp)
{
	struct node *node = adapter->host_data;

	for (uint32_t i = 0; i < node->shown_qp_count; i++)
		if (node->shown_qps[i] == qp)
			node->shown_qps[i--] = node->shown_qps[--node->shown_qp_count];
}

bool near_is_reached(const struct qp *qp)
{
	return true;
}

uint64_t near_time(const struct adapter *adapter)
{
	const struct node *node = adapter->host_data;

	return node->world->now;
}

static const struct qp *peer_of(const struct node *to, const struct qp *qp)
{
	for (uint32_t i = 0; i < to->shown_qp_count; i++)
		if (to->shown_qps[i]->number == qp->attr.dest_qp_num &&
		    to->shown_qps[i]->attr.dest_qp_num == qp->number)
			return to->shown_qps[i];
	return NULL;
}

/* Where that lies; NULL if it may not be fetched. */
static const char *find_place(const struct node *from, const struct qp *peer,
			      const struct reach_op *op)
{
	for (uint32_t i = 0; i < from->shown_mr_count; i++) {
		const struct mr *mr = from->shown_mrs[i];

		if (mr->rkey == op->rkey && mr->protection == peer->pd->protection &&
		    mr_holds(mr, op->remote_addr, op->length))
			return mr->base + (op->remote_addr - mr->iova);
	}
	return NULL;
}

static void copy(const struct reach_op *op, const char *from, uint64_t bytes)
{
	for (uint32_t i = 0; i < op->count && bytes; i++) {
		uint64_t length = op->pieces[i].iov_len < bytes ? op->pieces[i].iov_len : bytes;

		memcpy(op->pieces[i].iov_base, from, length);
		from += length;
		bytes -= length;
	}
}

enum reach_result near_reach(struct qp *qp, const struct reach_op *op)
{
	struct world *world = ((struct node *)qp->adapter->host_data)->world;
	const struct node *to = node_of_gid(world, &qp->av.dgid);
	const struct qp *peer = to ? peer_of(to, qp) : NULL;
	const char *place = peer ? find_place(to, peer, op) : NULL;

	if (!op->is_fetch)
		return REACH_REFUSED;
	sim_check(world, op->is_read && !op->offset && op->bytes == op->length, "a fetch in part");
	world->stats.vanished += peer && !place;
	world->stats.orphaned += !peer;
	if (!place || rng_chance(&world->host, REFUSED)) {
		world->stats.unfetched++;
		return REACH_REFUSED;
	}
	if (rng_chance(&world->host, LATER))
		return REACH_LATER;
	if (rng_chance(&world->host, HALF_DONE)) {
		copy(op, place, rng_below(&world->host, (uint32_t)op->bytes));
		world->stats.unfetched++;
		return REACH_REFUSED;
	}
	copy(op, place, op->bytes);
	world->stats.fetched++;
	return REACH_DONE;
}
