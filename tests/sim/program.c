/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a seed means: the weather on the link, nodes, connections and datagram endpoints with their
 * attributes, the memory that they need, and who does something when.
 */
#include <stdio.h>
#include <string.h>

#include "sim.h"

static struct rng *dice(struct world *world)
{
	return &world->program;
}

/* ---- weather ---- */

static void choose_weather(struct world *world)
{
	struct rng *rng = &world->link;
	struct weather *weather = &world->weather;
	static const uint32_t worst_loss[] = {0, 0, 100, 500, 2000};
	uint32_t kind = rng_below(rng, 5), most = worst_loss[kind];

	weather->loss = rng_below(rng, most + 1);
	if (most) {
		weather->duplicate = rng_chance(rng, 5000) ? rng_below(rng, most / 2 + 1) : 0;
		weather->reorder = rng_chance(rng, 5000) ? rng_below(rng, most / 2 + 1) : 0;
		weather->corrupt = rng_chance(rng, 3000) ? rng_below(rng, most / 4 + 1) : 0;
	}
	weather->delay = rng_between(rng, 500, 20 * US);
	weather->jitter = kind ? rng_below(rng, 10 * US) : 0;
	weather->span = rng_between(rng, 1 * US, 200 * US);
	weather->ps_per_byte = rng_chance(rng, 5000) ? 0 : rng_between(rng, 20, 2000);
	weather->rx_limit = rng_chance(rng, 5000) ? 1 << 20 : rng_between(rng, 8, 256);
	if (kind == 0)
		weather->rx_limit = 1 << 20;
	weather->refusal = rng_chance(rng, 5000) ? 0 : rng_below(rng, 3000);
	weather->batch = rng_between(rng, 1, 32);
	weather->step_delay = rng_between(rng, 0, weather->batch < 4 ? 1 * US : 5 * US);
	if (weather->has_express) /* as within a host */
		weather->delay = rng_below(rng, 2 * US);
}

/* ---- endpoints ---- */

static struct endpoint *new_endpoint(struct world *world, int node, enum ibv_qp_type type)
{
	struct endpoint *end = world_alloc(world, sizeof(*end));
	struct rng *rng = dice(world);

	end->world = world;
	end->node = &world->nodes[node];
	end->index = world->endpoint_count;
	end->type = type;
	world->endpoints[world->endpoint_count++] = end;
	end->max_send_wr = rng_between(rng, 2, 64);
	end->max_recv_wr = rng_between(rng, 1, 32);
	end->max_sge = rng_chance(rng, 7000) ? rng_between(rng, 1, 4) : rng_between(rng, 1, 32);
	end->max_inline = rng_chance(rng, 4000) ? rng_below(rng, 400) : 0;
	end->sq_sig_all = rng_chance(rng, 2500);
	end->qkey = rng_next(rng) & 0x7fffffff;
	end->timeout = rng_between(rng, 14, 15); /* far above any round trip here */
	end->retry_cnt = 7;
	end->rnr_retry = 7;
	end->min_rnr_timer = rng_between(rng, 1, 12);
	end->max_dest_rd = rng_between(rng, 1, 16);
	end->think = rng_between(rng, 1 * US, 60 * US);
	end->slow_recv = rng_chance(rng, 5000) ? 10000 : rng_between(rng, 300, 5000);
	end->to_send = rng_between(rng, 5, 80);
	if (is_brief(&world->weather) && type == IBV_QPT_RC && rng_chance(rng, 8000)) {
		end->slow_recv = 10000; /* most messages find a receive */
		end->max_recv_wr = 32;
		end->think = rng_between(rng, 1 * US, 10 * US);
	}
	return end;
}

static void choose_pair_size(struct world *world, struct endpoint *a, struct endpoint *b)
{
	struct rng *rng = dice(world);
	uint32_t mtu = 256u << rng_below(rng, 5), most, few = 80;

	switch (rng_below(rng, 8)) {
	case 0:
	case 1:
		most = rng_between(rng, 0, 64);
		break;
	case 2:
	case 3:
		most = mtu + 8;
		break;
	case 4:
	case 5:
	case 6:
		most = mtu * rng_between(rng, 2, 5);
		break;
	default:
		most = rng_between(rng, 20000, 90000);
		few = 12;
	}
	if (world->weather.has_offers && a->type == IBV_QPT_RC && rng_chance(rng, 6000)) {
		most = rng_between(rng, OFFERED_FROM, 3 * OFFERED_FROM);
		few = 40;
	}
	for (int i = 0; i < 2; i++) {
		struct endpoint *end = i ? b : a;

		end->mtu = mtu;
		end->max_message = end->recv_size = most;
		if (end->to_send > few)
			end->to_send = few;
		if (most > 8192 && end->max_recv_wr > 2)
			end->max_recv_wr = 2;
		end->window_length =
		    (most + rng_between(rng, 16, rng_chance(rng, 5000) ? 64 : 4096)) & ~7u;
	}
	a->max_rd = rng_between(rng, 1, b->max_dest_rd);
	b->max_rd = rng_between(rng, 1, a->max_dest_rd);
}

static void choose_trouble(struct pair *pair)
{
	struct rng *rng = dice(pair->world);
	struct endpoint *end = pair->ends[0];

	pair->lives = rng_below(rng, 3);
	if (pair->world->weather.is_hostile) {
		pair->lives = 6;
		return;
	}
	if (pair->ends[0]->type == IBV_QPT_RC && rng_chance(rng, 3000)) {
		pair->trouble = rng_between(rng, 1, TROUBLE_COUNT - 1);
		end = pair->trouble_of = pair->ends[rng_below(rng, 2)];
		pair->trouble_at = rng_below(rng, end->to_send);
	}
	/*
	 * One connected to itself would have to expect its own failures on the other side. An SRQ's
	 * receives are not this QP's alone: a bad one would hit others, one lost by a reset is
	 * gone.
	 */
	if (pair->ends[0] == pair->ends[1] ||
	    (pair->trouble && end->srq &&
	     (pair->trouble == TROUBLE_RECV_LKEY || pair->trouble >= TROUBLE_TO_RESET)))
		pair->trouble = TROUBLE_NONE;
	if (pair->trouble == TROUBLE_RECV_LKEY)
		pair->trouble_at = 0;
}

/* Where SENDs are offered, their region or their QP goes meanwhile. */
static void choose_withdrawal(struct pair *pair)
{
	struct rng *rng = dice(pair->world);
	struct endpoint *end = pair->ends[0];

	if (!pair->world->weather.has_offers || end->type != IBV_QPT_RC || end == pair->ends[1] ||
	    end->max_message < OFFERED_FROM || !rng_chance(rng, 6000))
		return;
	end = pair->trouble_of = pair->ends[rng_below(rng, 2)];
	pair->trouble = rng_chance(rng, 5000) ? TROUBLE_DEREG_SOURCE : TROUBLE_TO_ERR;
	pair->trouble_at = rng_below(rng, end->to_send);
}

static void choose_finite(struct pair *pair)
{
	struct rng *rng = dice(pair->world);

	for (int i = 0; i < 2; i++) {
		struct endpoint *end = pair->ends[i];

		if (rng_chance(rng, 1500))
			end->rnr_retry = rng_below(rng, 7);
		if (!pair->world->weather.loss && rng_chance(rng, 2000))
			end->retry_cnt = rng_between(rng, 1, 6);
	}
	if (pair->ends[0]->rnr_retry < 7 || pair->ends[1]->rnr_retry < 7)
		pair->lives += 6;
}

static void new_pair(struct world *world)
{
	struct rng *rng = dice(world);
	struct pair *pair = &world->pairs[world->pair_count++];
	enum ibv_qp_type type = rng_chance(rng, 8000) ? IBV_QPT_RC : IBV_QPT_UC;
	int near = rng_below(rng, world->node_count), far = near;
	struct endpoint *a, *b;

	if (!rng_chance(rng, 1000))
		far = (near + rng_between(rng, 1, world->node_count - 1)) % world->node_count;
	a = new_endpoint(world, near, type);
	b = far == near && rng_chance(rng, 5000) ? a : new_endpoint(world, far, type);
	a->peer = b;
	b->peer = a;
	a->pair = b->pair = pair;
	pair->world = world;
	pair->ends[0] = a;
	pair->ends[1] = b;
	choose_pair_size(world, a, b);
	for (int i = 0; i < 2; i++)
		if (pair->ends[i]->recv_size <= 4096 && rng_chance(rng, 2000))
			pair->ends[i]->srq = &pair->ends[i]->node->srq;
	choose_trouble(pair);
	choose_withdrawal(pair);
	choose_finite(pair);
}

static void new_datagram_endpoint(struct world *world)
{
	struct rng *rng = dice(world);
	struct endpoint *end = new_endpoint(world, rng_below(rng, world->node_count), IBV_QPT_UD);

	end->mtu = 4096;
	end->max_message = rng_chance(rng, 5000) ? rng_between(rng, 0, 200) : 4096;
	end->recv_size = 4096;
	if (end->max_recv_wr > 12)
		end->max_recv_wr = 12;
}

/* ---- memory ---- */

static uint32_t at_least(uint32_t value, uint32_t least)
{
	return value > least ? value : least;
}

static uint32_t at_most(uint32_t value, uint32_t most)
{
	return value < most ? value : most;
}

/*
 * Room for what may be posted at once. For receives with room to spare, as one scattered badly must
 * not keep the last one out for ever: twice all of them for the long, which are never split finely.
 */
static void size_pools(struct world *world, const struct node *node, uint32_t pool[POOL_MRS])
{
	uint32_t send = 0, recv = 0, longest = 0;

	for (int i = 0; i < world->endpoint_count; i++) {
		const struct endpoint *end = world->endpoints[i];

		if (end->node != node)
			continue;
		send += end->max_send_wr * end->max_message / 4;
		recv += ((end->srq ? MAX_SRQ_DEPTH : end->max_recv_wr) + 1) *
			(end->recv_size + GRH_SIZE);
		longest = at_least(end->max_message + 800, longest);
	}
	pool[POOL_SEND] = at_least(at_most(send, 256 << 10), 8192 + 3 * longest);
	pool[POOL_SEND_LONG] = pool[POOL_SEND];
	pool[POOL_RECV] = 2 * recv + 8192 + 3 * longest;
	pool[POOL_RECV_LONG] = 2 * recv + 3 * longest;
}

static void lay_out(struct world *world, struct node *node, bool is_ipv6)
{
	uint32_t at = GUARD, pool[POOL_MRS];

	for (int i = 0; i < world->endpoint_count; i++) {
		struct endpoint *end = world->endpoints[i];

		if (end->node != node || !end->peer)
			continue;
		end->window_at = at;
		end->final = world_alloc(world, end->window_length);
		at += end->window_length + GUARD + 8 * rng_below(dice(world), 8);
	}
	size_pools(world, node, pool);
	node->counter_at = at;
	at += 8 + GUARD;
	node->locked_at = at;
	at += 64 + GUARD;
	for (int i = 0; i < POOL_MRS; i++) {
		node->pool_at[i] = at;
		at += pool[i] + rng_below(dice(world), 100) + GUARD;
	}
	node_make(world, at, is_ipv6);
	for (int i = 0; i < POOL_MRS; i++)
		sim_check(world,
			  !mr_create(node->pd, node->arena.memory + node->pool_at[i], pool[i],
				     i ? (uintptr_t)node->arena.memory + node->pool_at[i]
				       : 0x1000000 + rng_below(dice(world), 1 << 20),
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, &node->pool[i]),
			  "mr_create");
}

static void make_regions(struct node *node)
{
	struct world *world = node->world;
	uint8_t *memory = node->arena.memory;

	sim_check(world,
		  !mr_create(node->pd, memory + node->locked_at, 64,
			     (uintptr_t)memory + node->locked_at, 0, &node->locked),
		  "mr_create");
	sim_check(world,
		  !mr_create(node->pd, memory + node->counter_at, 8,
			     (uintptr_t)memory + node->counter_at,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC, &node->counter_mr),
		  "mr_create");
	arena_mark(node->arena.flux, node->counter_at, 8, 1);
	for (int i = 0; world->weather.is_hostile && i < world->endpoint_count; i++)
		if (world->endpoints[i]->node == node && world->endpoints[i]->peer)
			arena_mark(node->arena.flux, world->endpoints[i]->window_at,
				   world->endpoints[i]->window_length, 1);
	node->counter_start = rng_below(dice(world), 1 << 30);
	memcpy(memory + node->counter_at, &node->counter_start, 8);
}

/* ---- queues ---- */

static void make_srq(struct node *node)
{
	struct world *world = node->world;
	struct simsrq *simsrq = &node->srq;
	struct ibv_srq_init_attr attr = {.attr = {.max_sge = 4}};

	simsrq->node = node;
	for (int i = 0; i < world->endpoint_count; i++) {
		struct endpoint *end = world->endpoints[i];

		if (end->srq != simsrq)
			continue;
		if (simsrq->recv_size < end->recv_size)
			simsrq->recv_size = end->recv_size;
		simsrq->depth = rng_between(dice(world), 2, MAX_SRQ_DEPTH);
	}
	if (!simsrq->depth)
		return;
	/* messages too long must be too long for the SRQ */
	for (int i = 0; i < world->endpoint_count; i++)
		if (world->endpoints[i]->srq == simsrq)
			world->endpoints[i]->recv_size = simsrq->recv_size;
	attr.attr.max_wr = simsrq->depth;
	sim_check(world, !srq_create(node->pd, &attr, &simsrq->srq), "srq_create");
}

static void make_cqs(struct node *node)
{
	struct world *world = node->world;
	struct rng *rng = dice(world);
	uint32_t room[NODE_CQS] = {0};

	node->cq_count = rng_between(rng, 1, NODE_CQS);
	for (int i = 0; i < world->endpoint_count; i++) {
		struct endpoint *end = world->endpoints[i];
		uint32_t send_cq, recv_cq;

		if (end->node != node)
			continue;
		send_cq = rng_below(rng, node->cq_count);
		recv_cq = rng_below(rng, node->cq_count);
		end->send_cq = &node->cqs[send_cq];
		end->recv_cq = &node->cqs[recv_cq];
		room[send_cq] += end->max_send_wr;
		room[recv_cq] += end->srq ? end->srq->depth : end->max_recv_wr;
	}
	for (int i = 0; i < node->cq_count; i++) {
		struct simcq *simcq = &node->cqs[i];

		simcq->node = node;
		simcq->room = at_least(room[i], 1);
		simcq->by_event = rng_chance(rng, 3000);
		sim_check(world, !cq_create(&node->adapter, simcq->room, &simcq->cq), "cq_create");
		simcq->cq->face = simcq;
	}
}

static void make_ahs(struct endpoint *end)
{
	struct world *world = end->world;

	for (int i = 0; i < world->node_count; i++) {
		struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};

		attr.grh.dgid = world->nodes[i].gid;
		attr.grh.hop_limit = 33;
		sim_check(world, !ah_create(end->node->pd, &attr, &end->ahs[i]), "ah_create");
	}
}

/* ---- who does what when ---- */

static void scribble(struct endpoint *end)
{
	struct rng *rng = dice(end->world);
	uint32_t length, at;

	if (!end->peer || end->window_length < 16)
		return;
	length = rng_between(rng, 1, 16);
	at = rng_below(rng, end->window_length - length + 1);
	if (!arena_is_free(&end->node->arena, end->window_at + at, length, true))
		return;
	arena_scribble(&end->node->arena, end->window_at + at, length);
	memcpy(end->final + at, end->node->arena.shadow + end->window_at + at, length);
}

static bool may_post(const struct endpoint *end)
{
	if (!end->qp || end->is_reset)
		return false;
	if (!end->pair || end->pair->state == PAIR_RUNNING)
		return true;
	/* in the error state it must be flushed */
	return end->pair->state == PAIR_DYING && end->qp->state == IBV_QPS_ERR &&
	       rng_chance(&end->world->program, 100);
}

static void endpoint_step(void *subject, uint64_t value)
{
	struct endpoint *end = subject;
	struct world *world = end->world;
	struct rng *rng = dice(world);
	uint32_t before = end->sends.count + end->recvs.count;

	if (end->pair && end->pair->state == PAIR_DONE)
		return;
	if (may_post(end)) {
		if (end->srq && rng_chance(rng, end->slow_recv))
			post_srq(end->srq, rng_between(rng, 1, 16));
		else if (!end->srq && rng_chance(rng, end->slow_recv))
			post_recvs(end, rng_between(rng, 1, 16));
		if (rng_chance(rng, 7000))
			post_sends(end, rng_between(rng, 1, 8));
		if (rng_chance(rng, 2000) && (!end->pair || end->pair->state == PAIR_RUNNING) &&
		    !end->frozen)
			scribble(end);
	}
	if (end->type == IBV_QPT_UC && !end->peer->inbound)
		model_release_limbo(end);
	if (end->sends.count + end->recvs.count != before)
		end->idle = 0;
	else if (end->idle < 6)
		end->idle++;
	world_at(world, world->now + 1 + ((uint64_t)rng_below(rng, end->think) << end->idle),
		 endpoint_step, end, 0);
}

/* To no less than may be in it. */
static void resize_sometimes(struct simcq *simcq)
{
	struct rng *rng = dice(simcq->node->world);

	if (rng_chance(rng, 50))
		sim_check(simcq->node->world,
			  !cq_resize(simcq->cq, simcq->room + rng_below(rng, simcq->room + 1)),
			  "cq_resize");
}

static void poll_step(void *subject, uint64_t value)
{
	struct node *node = subject;
	struct world *world = node->world;
	uint64_t before = world->last_progress;

	for (int i = 0; i < node->cq_count; i++)
		resize_sometimes(&node->cqs[i]);
	for (int i = 0; i < node->cq_count; i++)
		model_poll(&node->cqs[i], rng_between(dice(world), 1, 16));
	if (world->last_progress != before || before == world->now)
		node->poll_idle = 0;
	else if (node->poll_idle < 8)
		node->poll_idle++;
	if (rng_chance(dice(world), 30))
		arena_check(&node->arena, "in between");
	world_at(world,
		 world->now + 1 + ((uint64_t)rng_below(dice(world), 4 * US) << node->poll_idle),
		 poll_step, node, 0);
}

/* ---- all of it ---- */

void program_make(struct world *world)
{
	struct rng *rng = dice(world);
	int nodes = rng_chance(rng, 7000) ? 2 : rng_between(rng, 2, MAX_NODES);
	int pairs = rng_between(rng, 1, is_brief(&world->weather) ? 10 : 4), datagrams = 0;
	bool is_ipv6 = rng_chance(rng, 3000);

	choose_weather(world);
	world->node_count = nodes;
	if (rng_chance(rng, 3000))
		datagrams = rng_between(rng, 1, 4);
	for (int i = 0; i < pairs; i++)
		new_pair(world);
	for (int i = 0; i < datagrams; i++)
		new_datagram_endpoint(world);
	world->node_count = 0;
	for (int i = 0; i < nodes; i++) {
		lay_out(world, &world->nodes[i], is_ipv6);
		make_regions(&world->nodes[i]);
		make_srq(&world->nodes[i]);
		make_cqs(&world->nodes[i]);
		world_at(world, rng_below(rng, 5 * US), poll_step, &world->nodes[i], 0);
	}
	for (int i = 0; i < world->pair_count; i++) {
		pair_connect(&world->pairs[i]);
		world_at(world, rng_below(rng, 100 * US), pair_step, &world->pairs[i], 0);
	}
	for (int i = 0; i < world->endpoint_count; i++) {
		struct endpoint *end = world->endpoints[i];

		if (end->type == IBV_QPT_UD) {
			make_ahs(end);
			endpoint_connect(end);
		}
		world_at(world, rng_below(rng, 10 * US), endpoint_step, end, 0);
	}
	world->is_finished = program_is_finished;
}

bool program_is_finished(struct world *world)
{
	for (int i = 0; i < world->pair_count; i++)
		if (world->pairs[i].state != PAIR_DONE)
			return false;
	for (int i = 0; i < world->endpoint_count; i++) {
		struct endpoint *end = world->endpoints[i];

		if (end->type == IBV_QPT_UD &&
		    (end->to_send || sends_outstanding(end) || end->inbound))
			return false;
	}
	return true;
}

static bool are_datagrams_flushed(struct world *world)
{
	for (int i = 0; i < world->endpoint_count; i++)
		if (world->endpoints[i]->recv_head < world->endpoints[i]->recvs.count)
			return false;
	return true;
}

/* On a link without fault a datagram that found a receive posted arrives; how many did is counted
 * by the adapter. */
static void check_counters(struct world *world)
{
	for (int i = 0; i < world->node_count && !world->weather.is_hostile; i++) {
		struct adapter *adapter = &world->nodes[i].adapter;

		sim_check(world, !adapter->bad_packets && !adapter->bad_pkey && !adapter->bad_qkey,
			  "node %d counts bad packets: %lu, P_Keys %lu, Q_Keys %lu", i,
			  (unsigned long)adapter->bad_packets, (unsigned long)adapter->bad_pkey,
			  (unsigned long)adapter->bad_qkey);
	}
}

void program_finish(struct world *world)
{
	model_check_memory(world, "at the end");
	model_check_counters(world);
	check_counters(world);
	for (int i = 0; i < world->endpoint_count; i++)
		if (world->endpoints[i]->type == IBV_QPT_UD)
			endpoint_modify(world->endpoints[i], IBV_QPS_ERR);
	world->is_finished = are_datagrams_flushed;
	world_run(world);
	for (int i = 0; i < world->node_count; i++)
		model_poll_all(&world->nodes[i]);
	for (int i = 0; i < world->endpoint_count; i++) {
		struct endpoint *end = world->endpoints[i];

		if (end->type != IBV_QPT_UD)
			continue;
		model_check_datagrams(end);
		endpoint_destroy_qp(end);
		for (int k = 0; k < world->node_count; k++)
			sim_check(world, !ah_destroy(end->ahs[k]), "ah_destroy");
	}
	model_check_memory(world, "after the end");
}
