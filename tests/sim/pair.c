/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life of a connection: regions, QPs, the way to RTS; trouble on purpose; drains; and the end:
 * both QPs in the error state until all is flushed, reset or destroyed, and when no packet is under
 * way any more, perhaps another life.
 */
#include <stdio.h>
#include <string.h>

#include "sim.h"
#include "wire/mtu.h"

enum {
	WINDOW_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_FLUSH_GLOBAL |
			IBV_ACCESS_FLUSH_PERSISTENT,
	QP_ACCESS = WINDOW_ACCESS & ~IBV_ACCESS_LOCAL_WRITE,
};

static struct rng *dice(struct endpoint *end)
{
	return &end->world->program;
}

void endpoint_create_qp(struct endpoint *end)
{
	struct ibv_qp_init_attr_ex attr = {
	    .send_cq = &end->send_cq->cq->ibv,
	    .recv_cq = &end->recv_cq->cq->ibv,
	    .srq = end->srq ? &end->srq->srq->ibv : NULL,
	    .cap =
		{
		    .max_send_wr = end->max_send_wr,
		    .max_recv_wr = end->srq ? 0 : end->max_recv_wr,
		    .max_send_sge = end->max_sge,
		    .max_recv_sge = end->max_sge,
		    .max_inline_data = end->max_inline,
		},
	    .qp_type = end->type,
	    .sq_sig_all = end->sq_sig_all,
	    .comp_mask = IBV_QP_INIT_ATTR_PD,
	    .pd = &end->node->pd->ibv,
	};
	int error = transport_create_qp(end->node->pd, &attr, &end->qp);

	sim_check(end->world, !error, "transport_create_qp: %s", strerror(error));
	sim_check(end->world,
		  attr.cap.max_send_wr >= end->max_send_wr &&
		      attr.cap.max_inline_data >= end->max_inline,
		  "less than was asked for");
	node_seat(end->node, end->qp);
	end->is_reset = true;
}

void endpoint_destroy_qp(struct endpoint *end)
{
	struct qp *qp = end->qp;
	int error = qp_unlist(qp);

	sim_check(end->world, !error, "qp_unlist: %s", strerror(error));
	if (qp->is_published)
		near_withdraw_qp(qp->adapter, qp);
	seat_leave(qp);
	end->qp = NULL;
	transport_free_qp(qp);
	trace(end->world, "     end %d: QP destroyed", end->index);
}

static void modify(struct endpoint *end, struct ibv_qp_attr *attr, int mask)
{
	int error = transport_modify_qp(end->qp, attr, mask, end->world->now);

	sim_check(end->world, !error, "end %d: modify to state %d: %s", end->index, attr->qp_state,
		  strerror(error));
	node_wake(end->node, 0);
}

void endpoint_modify(struct endpoint *end, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state, .en_sqd_async_notify = 1};
	int mask = IBV_QP_STATE | (state == IBV_QPS_SQD ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0);

	trace(end->world, "     end %d: modify to %s", end->index,
	      state == IBV_QPS_ERR     ? "ERR"
	      : state == IBV_QPS_SQD   ? "SQD"
	      : state == IBV_QPS_RTS   ? "RTS"
	      : state == IBV_QPS_RESET ? "RESET"
				       : "?");
	if (state == IBV_QPS_ERR || state == IBV_QPS_RESET) {
		model_check_cause(end);
		end->may_flush = true;
		if (end->peer)
			end->peer->peer_gone = true;
	}
	modify(end, &attr, mask);
}

static void fresh_model(struct endpoint *end)
{
	end->message_head = end->messages.count;
	end->is_flushing = end->is_recv_dead = end->may_flush = end->peer_gone = false;
	end->has_flushed = false;
	end->is_drain_awaited = end->is_drained = end->is_reset = false;
	end->unsignaled_run = end->idle = 0;
	end->events = end->disturbances = end->read_count = 0;
	end->is_selective = false;
	memset(end->answered, 0, sizeof(end->answered));
	end->rnr_naks = end->most_rnr_naks = end->rnr_tries = 0;
	end->frozen = NULL;
	end->sq_psn = rng_chance(dice(end), 5000) ? 0xffffff - rng_below(dice(end), 40)
						  : rng_below(dice(end), 1 << 24);
	end->acked = (end->sq_psn - 1) & 0xffffff;
}

static void to_init(struct endpoint *end)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_INIT,
	    .port_num = 1,
	    .qkey = end->qkey,
	    .qp_access_flags = end->type == IBV_QPT_UC ? IBV_ACCESS_REMOTE_WRITE : QP_ACCESS,
	};

	modify(end, &attr,
	       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		   (end->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static void to_rtr(struct endpoint *end)
{
	struct endpoint *peer = end->peer;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	int mask = IBV_QP_STATE;

	if (peer) {
		attr.path_mtu = mtu_code(end->mtu);
		attr.dest_qp_num = peer->qp->number;
		attr.rq_psn = peer->sq_psn;
		attr.max_dest_rd_atomic = end->max_dest_rd;
		attr.min_rnr_timer = end->min_rnr_timer;
		attr.ah_attr.is_global = 1;
		attr.ah_attr.port_num = 1;
		attr.ah_attr.grh.dgid = peer->node->gid;
		attr.ah_attr.grh.hop_limit = 64;
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
		if (end->type == IBV_QPT_RC)
			mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	}
	modify(end, &attr, mask);
}

static void to_rts(struct endpoint *end)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_RTS,
	    .sq_psn = end->sq_psn,
	    .timeout = end->timeout,
	    .retry_cnt = end->retry_cnt,
	    .rnr_retry = end->rnr_retry,
	    .max_rd_atomic = end->max_rd,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (end->type == IBV_QPT_RC)
		mask |=
		    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	modify(end, &attr, mask);
	trace(end->world, "     end %d: QP %06x is in RTS, PSN %06x, MTU %u", end->index,
	      end->qp->number, end->sq_psn, end->mtu);
}

/* A UD QP alone, or the last step of pair_connect(). */
void endpoint_connect(struct endpoint *end)
{
	if (!end->qp)
		endpoint_create_qp(end);
	fresh_model(end);
	to_init(end);
	to_rtr(end);
	to_rts(end);
}

void make_window(struct endpoint *end)
{
	struct world *world = end->world;
	char *place = (char *)end->node->arena.memory + end->window_at;
	uint64_t iova = (uintptr_t)place;

	if (rng_chance(dice(end), 3000))
		iova = rng_next(dice(end)) >> 8 & ~7ull;
	if (!end->window) {
		int access = WINDOW_ACCESS, error;

		if (rng_chance(dice(end), 3000)) /* lets nobody in but through a memory window */
			access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
		error =
		    mr_create(end->node->pd, place, end->window_length, iova, access, &end->window);
		sim_check(world, !error, "mr_create: %s", strerror(error));
		end->window_va = iova;
	}
	if (!end->read_only) {
		int error =
		    mr_create(end->node->pd, place, end->window_length, iova,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, &end->read_only);

		sim_check(world, !error, "mr_create: %s", strerror(error));
	}
	memcpy(end->final, end->node->arena.shadow + end->window_at, end->window_length);
}

static void make_lent(struct endpoint *end)
{
	uint32_t at = end->node->pool_at[POOL_SEND_LONG];
	char *place = (char *)end->node->arena.memory + at;
	int error;

	if (end->pair->trouble != TROUBLE_DEREG_SOURCE || end->pair->trouble_of != end)
		return;
	error = mr_create(end->node->pd, place, end->node->pool[POOL_SEND_LONG]->length,
			  (uintptr_t)place, 0, &end->lent);
	sim_check(end->world, !error, "mr_create: %s", strerror(error));
}

/* The region goes while it is offered. What is posted may still come to its peer, or fail, but
 * nothing more is read there: the program has it for itself. */
static void end_lent(struct endpoint *end)
{
	const struct mr *lent = end->lent;
	uint16_t *readers = end->node->arena.readers;
	int error = mr_destroy(end->lent);

	trace(end->world, "     end %d: deregisters what its SENDs lie in", end->index);
	sim_check(end->world, !error, "mr_destroy: %s", strerror(error));
	end->lent = NULL;
	for (uint32_t i = end->send_head; i < end->sends.count; i++) {
		const struct send *send = send_at(end, i);

		for (uint32_t k = 0; send->is_lent && k < send->span_count; k++) {
			const struct span *span = &send->spans[k];

			if (span->mr != lent)
				continue;
			arena_mark(readers, span->at, span->length, -1);
			spans_spoil(end->node, span, 1);
			arena_mark(readers, span->at, span->length, 1);
		}
	}
}

static void end_mws(struct endpoint *end)
{
	if (end->mw)
		mw_destroy(end->mw);
	if (end->spare)
		mw_destroy(end->spare);
	if (end->guest)
		mw_destroy(end->guest);
	end->mw = end->spare = end->guest = NULL;
	end->is_guest_offered = false;
	end->is_spare_bound = false;
}

void offer_guest(struct endpoint *end)
{
	struct mr *mr = end->node->pool[POOL_SEND];
	struct mw_bind bind = {.index = end->guest->index,
			       .rkey = ibv_inc_rkey(end->guest_rkey),
			       .lkey = mr->lkey,
			       .addr = mr->iova,
			       .length = 1};

	sim_check(end->world, mw_bind(end->qp, &bind) == REASON_NONE, "mw_bind of a guest");
	end->guest_rkey = bind.rkey;
	end->is_guest_offered = true;
}

/* Those of type 2 are of one QP, in one of its lives. */
static void make_mws(struct endpoint *end)
{
	struct pd *pd = end->node->pd;
	struct mw_bind bind;

	end_mws(end);
	end->window_rkey = end->window->rkey;
	sim_check(end->world, !mw_create(pd, IBV_MW_TYPE_2, &end->spare), "mw_create");
	end->spare_rkey = end->spare->ibv.rkey;
	if (end->node->pool[POOL_SEND]) { /* not in a rig */
		sim_check(end->world, !mw_create(pd, IBV_MW_TYPE_2, &end->guest), "mw_create");
		end->guest_rkey = end->guest->ibv.rkey;
		offer_guest(end);
	}
	if (!(end->window->access & IBV_ACCESS_MW_BIND))
		return;
	sim_check(
	    end->world,
	    !mw_create(pd, rng_chance(dice(end), 5000) ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2, &end->mw),
	    "mw_create");
	bind = (struct mw_bind){
	    .index = end->mw->index,
	    .rkey = ibv_inc_rkey(end->mw->ibv.rkey),
	    .lkey = end->window->lkey,
	    .access = WINDOW_ACCESS,
	    .addr = end->window_va,
	    .length = end->window_length,
	};
	sim_check(end->world, mw_bind(end->qp, &bind) == REASON_NONE, "mw_bind");
	end->window_rkey = bind.rkey;
}

void pair_connect(struct pair *pair)
{
	int ends = pair->ends[0] == pair->ends[1] ? 1 : 2;

	for (int i = 0; i < ends; i++) {
		struct endpoint *end = pair->ends[i];

		make_window(end);
		make_lent(end);
		if (!end->qp)
			endpoint_create_qp(end);
		fresh_model(end);
		to_init(end);
	}
	for (int i = 0; i < ends; i++)
		to_rtr(pair->ends[i]);
	for (int i = 0; i < ends; i++) {
		to_rts(pair->ends[i]);
		make_mws(pair->ends[i]);
	}
	pair->state = PAIR_RUNNING;
}

/* Told by the model: something failed or was flushed. */
void pair_failed(struct pair *pair)
{
	if (pair->state != PAIR_RUNNING)
		return;
	pair->state = PAIR_DYING;
	pair->dying_since = pair->world->now;
}

static void forget_queues(struct endpoint *end)
{
	model_forget_sends(end);
	while (end->recv_head < end->recvs.count)
		model_forget_recv(end, end->recvs.items[end->recv_head++]);
}

static void make_trouble(struct pair *pair)
{
	struct endpoint *end = pair->trouble_of;
	int error;

	pair->is_troubled = true;
	switch (pair->trouble) {
	case TROUBLE_DEREG:
		trace(pair->world, "     end %d: deregisters its window", end->index);
		if (end->mw)
			mw_destroy(end->mw);
		end->mw = NULL;
		error = mr_destroy(end->window);
		sim_check(pair->world, !error, "mr_destroy: %s", strerror(error));
		end->window = NULL;
		end->frozen = world_alloc(pair->world, end->window_length);
		memcpy(end->frozen, end->node->arena.memory + end->window_at, end->window_length);
		break;
	case TROUBLE_DEREG_SOURCE:
		end_lent(end);
		break;
	case TROUBLE_TO_ERR:
		endpoint_modify(end, IBV_QPS_ERR);
		break;
	case TROUBLE_TO_RESET:
		model_poll_all(end->node);
		endpoint_modify(end, IBV_QPS_RESET);
		end->is_reset = true;
		forget_queues(end);
		pair_failed(pair);
		break;
	default:
		model_poll_all(end->node);
		end->peer->peer_gone = true;
		end->may_flush = true;
		endpoint_destroy_qp(end);
		forget_queues(end);
		pair_failed(pair);
	}
}

static bool is_done(const struct endpoint *end)
{
	return !end->to_send && !sends_outstanding(end) &&
	       (end->type != IBV_QPT_RC || end->message_head == end->messages.count ||
		end->world->weather.is_hostile);
}

static void drain_sometimes(struct endpoint *end)
{
	if (end->type != IBV_QPT_RC || !end->qp)
		return;
	if (!end->is_drain_awaited) {
		if (end->qp->state == IBV_QPS_RTS && rng_chance(dice(end), 100)) {
			end->is_drain_awaited = true;
			endpoint_modify(end, IBV_QPS_SQD);
		}
		return;
	}
	if (end->is_drained && end->qp->state == IBV_QPS_SQD && rng_chance(dice(end), 3000)) {
		end->is_drained = end->is_drain_awaited = false;
		endpoint_modify(end, IBV_QPS_RTS);
	}
}

static void step_running(struct pair *pair)
{
	struct endpoint *a = pair->ends[0], *b = pair->ends[1];

	if (pair->trouble >= TROUBLE_DEREG && !pair->is_troubled &&
	    pair->trouble_of->posted >= pair->trouble_at) {
		make_trouble(pair);
		return;
	}
	drain_sometimes(a);
	if (b != a)
		drain_sometimes(b);
	if (!is_done(a) || !is_done(b))
		return;
	model_check_calm(a);
	model_check_calm(b);
	pair_failed(pair); /* so to speak */
}

/* Flushes what is left, then resets or destroys. */
static void step_dying(struct pair *pair)
{
	bool is_empty = true;

	for (int i = 0; i < 2; i++) {
		struct endpoint *end = pair->ends[i];

		model_check_cause(end);
		if (end->qp && !end->is_reset && end->qp->state != IBV_QPS_ERR &&
		    rng_chance(dice(end), 3000))
			endpoint_modify(end, IBV_QPS_ERR);
		if (end->qp && !end->is_reset && end->qp->state != IBV_QPS_ERR)
			is_empty = false;
		if (sends_outstanding(end) || end->recv_head < end->recvs.count)
			is_empty = false;
	}
	if (!is_empty)
		return;
	pair->state = PAIR_RESETTING;
	for (int i = 0; i < 2; i++) {
		struct endpoint *end = pair->ends[i];

		if (!end->qp || end->is_reset)
			continue;
		model_poll_all(end->node);
		if (rng_chance(dice(end), 5000)) {
			endpoint_modify(end, IBV_QPS_RESET);
			end->is_reset = true;
		} else {
			endpoint_destroy_qp(end);
		}
	}
}

static void end_window(struct endpoint *end)
{
	end_mws(end);
	if (end->window)
		sim_check(end->world, !mr_destroy(end->window), "mr_destroy");
	if (end->read_only)
		sim_check(end->world, !mr_destroy(end->read_only), "mr_destroy");
	if (end->lent)
		sim_check(end->world, !mr_destroy(end->lent), "mr_destroy");
	end->window = end->read_only = end->lent = NULL;
}

/* Once the link is empty of the old connection's packets the next one may begin. */
static void step_resetting(struct pair *pair)
{
	struct endpoint *a = pair->ends[0], *b = pair->ends[1];

	if (a->inbound || b->inbound)
		return;
	model_release_limbo(a);
	model_release_limbo(b);
	if (pair->lives && (a->to_send || b->to_send)) {
		pair->lives--;
		pair->trouble = TROUBLE_NONE;
		pair_connect(pair);
		return;
	}
	for (int i = 0; i < 2; i++) {
		struct endpoint *end = pair->ends[i];

		end->to_send = 0;
		if (end->qp)
			endpoint_destroy_qp(end);
		end_window(end);
	}
	pair->state = PAIR_DONE;
}

void pair_step(void *subject, uint64_t value)
{
	struct pair *pair = subject;
	struct world *world = pair->world;
	uint64_t delay = 20 * US + rng_below(&world->program, 800 * US);

	switch (pair->state) {
	case PAIR_RUNNING:
		step_running(pair);
		break;
	case PAIR_DYING:
		step_dying(pair);
		break;
	case PAIR_RESETTING:
		step_resetting(pair);
		break;
	case PAIR_DONE:
		return;
	}
	world_at(world, world->now + delay, pair_step, pair, 0);
}
