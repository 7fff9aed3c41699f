/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two nodes and a connection, driven step by step; see rig.h.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

static struct endpoint *make_end(struct rig *rig, int index, enum ibv_qp_type type, uint32_t mtu)
{
	struct world *world = &rig->world;
	struct node *node = &world->nodes[index];
	struct endpoint *end = world_alloc(world, sizeof(*end));

	world->endpoints[world->endpoint_count++] = end;
	end->world = world;
	end->node = node;
	end->index = index;
	end->type = type;
	end->mtu = mtu;
	end->timeout = 14;
	end->retry_cnt = 7;
	end->rnr_retry = 7;
	end->min_rnr_timer = 1;
	end->max_rd = end->max_dest_rd = 16;
	end->max_send_wr = end->max_recv_wr = 1024;
	end->max_sge = 4;
	end->qkey = 0x11111111;
	end->window_length = RIG_ARENA;
	end->final = world_alloc(world, RIG_ARENA);
	node->cq_count = 2;
	for (int i = 0; i < 2; i++) {
		node->cqs[i].node = node;
		assert_int_equal(cq_create(&node->adapter, RIG_CQE, &node->cqs[i].cq), 0);
		node->cqs[i].cq->face = &node->cqs[i];
	}
	end->send_cq = &node->cqs[0];
	end->recv_cq = &node->cqs[1];
	assert_int_equal(mr_create(node->pd, node->arena.memory, RIG_ARENA,
				   (uintptr_t)node->arena.memory,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				       IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT,
				   &rig->mrs[index]),
			 0);
	return end;
}

void rig_make(struct rig *rig, uint64_t seed, enum ibv_qp_type type, uint32_t mtu)
{
	struct world *world = &rig->world;

	world_make(world, seed, getenv("SIM_TRACE") != NULL);
	world->limit = UINT64_MAX;
	world->weather.delay = 5 * US;
	world->weather.rx_limit = 1 << 20;
	world->weather.batch = 32;
	if (setjmp(world->failed))
		fail_msg("%s", world->failure);
	rig->count = 0;
	rig_add(rig, type, mtu);
}

void rig_add(struct rig *rig, enum ibv_qp_type type, uint32_t mtu)
{
	struct world *world = &rig->world;
	int first = rig->count;

	if (setjmp(world->failed))
		fail_msg("%s", world->failure);
	for (; rig->count < first + 2; rig->count++) {
		node_make(world, RIG_ARENA, false);
		rig->ends[rig->count] = make_end(rig, rig->count, type, mtu);
	}
	rig->ends[first]->peer = rig->ends[first + 1];
	rig->ends[first + 1]->peer = rig->ends[first];
}

void rig_connect(struct rig *rig)
{
	if (rig->ends[0]->type == IBV_QPT_UD) {
		for (int i = 0; i < 2; i++) {
			rig->ends[i]->peer = NULL;
			endpoint_connect(rig->ends[i]);
		}
		return;
	}
	for (int i = 0; i < rig->count; i += 2) {
		struct pair *pair = &rig->pairs[i / 2];

		*pair =
		    (struct pair){.world = &rig->world, .ends = {rig->ends[i], rig->ends[i + 1]}};
		rig->ends[i]->pair = rig->ends[i + 1]->pair = pair;
		pair->trouble = TROUBLE_TO_ERR; /* error events are expected */
		pair_connect(pair);
	}
}

void rig_end(struct rig *rig)
{
	for (int i = 0; i < rig->count; i++) {
		struct endpoint *end = rig->ends[i];

		if (end->qp)
			endpoint_destroy_qp(end);
		if (end->mw)
			mw_destroy(end->mw);
		if (end->spare)
			mw_destroy(end->spare);
		if (end->guest)
			mw_destroy(end->guest);
		if (end->window)
			assert_int_equal(mr_destroy(end->window), 0);
		if (end->read_only)
			assert_int_equal(mr_destroy(end->read_only), 0);
		assert_int_equal(mr_destroy(rig->mrs[i]), 0);
	}
	world_end(&rig->world);
}

void rig_fill_wr(struct rig *rig, int from, enum ibv_wr_opcode opcode, uint32_t at, uint32_t far,
		 uint32_t length, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	*sge = (struct ibv_sge){.addr = (uintptr_t)rig->ends[from]->node->arena.memory + at,
				.length = length,
				.lkey = rig->mrs[from]->lkey};
	*wr = (struct ibv_send_wr){
	    .opcode = opcode, .send_flags = IBV_SEND_SIGNALED, .sg_list = sge, .num_sge = 1};
	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr =
		    (uintptr_t)rig->ends[from ^ 1]->node->arena.memory + far;
		wr->wr.atomic.rkey = rig->mrs[from ^ 1]->rkey;
		wr->wr.atomic.compare_add = 1;
		return;
	}
	wr->wr.rdma.remote_addr = (uintptr_t)rig->ends[from ^ 1]->node->arena.memory + far;
	wr->wr.rdma.rkey = rig->mrs[from ^ 1]->rkey;
}

void rig_post_wr(struct rig *rig, int from, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	assert_int_equal(qp_post_send(rig->ends[from]->qp, wr, &bad), 0);
	node_schedule(rig->ends[from]->node, rig->ends[from]->qp);
}

void rig_post(struct rig *rig, int from, enum ibv_wr_opcode opcode, uint32_t at, uint32_t far,
	      uint32_t length, uint64_t wr_id)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	rig_fill_wr(rig, from, opcode, at, far, length, &wr, &sge);
	wr.wr_id = wr_id;
	rig_post_wr(rig, from, &wr);
}

void rig_post_recv(struct rig *rig, int at_end, uint32_t at, uint32_t length, uint64_t wr_id)
{
	struct endpoint *end = rig->ends[at_end];
	struct ibv_sge sge = {(uintptr_t)end->node->arena.memory + at, length,
			      rig->mrs[at_end]->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(qp_post_recv(end->qp, &wr, &bad), 0);
}

/* ---- time ---- */

static void on_pass(void *subject, uint64_t value)
{
	*(bool *)subject = true;
}

static bool is_never(struct world *world)
{
	return *(bool *)world->filter_data;
}

void rig_pass(struct rig *rig, uint64_t time)
{
	struct world *world = &rig->world;
	bool is_over = false;

	if (setjmp(world->failed))
		fail_msg("%s", world->failure);
	world->last_progress = world->now + time;
	world->filter_data = &is_over;
	world->is_finished = is_never;
	world_at(world, world->now + time, on_pass, &is_over, 0);
	world_run(world);
}

bool rig_wait(struct rig *rig, int end, bool is_send, uint64_t most, struct ibv_wc *wc)
{
	struct cq *cq = rig->ends[end]->node->cqs[!is_send].cq;
	uint64_t until = rig->world.now + most;

	while (cq_poll(cq, 1, wc) < 1) {
		if (rig->world.now >= until)
			return false;
		rig_pass(rig, 10 * US);
	}
	return true;
}

void rig_expect(struct rig *rig, int end, bool is_send, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	if (!rig_wait(rig, end, is_send, 10 * SEC, &wc))
		fail_msg("no completion of %llu at end %d", (unsigned long long)wr_id, end);
	if (wc.wr_id != wr_id || wc.status != status)
		fail_msg("end %d: completion of %llu with status %d (vendor %u), expected %llu "
			 "with %d",
			 end, (unsigned long long)wc.wr_id, wc.status, wc.vendor_err,
			 (unsigned long long)wr_id, status);
}

const struct transport_counters *rig_counters(struct rig *rig, int end)
{
	return transport_counters(rig->ends[end]->qp);
}
