/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work requests by chance, and the model's record of each: what is sent, what will be in the sink,
 * what it leaves in the peer's window. A connection's window is written by its requests alone, in
 * the order of posting, so all of it is known when a request is posted; what the ordering rules
 * leave open (a READ that may be repeated, then a WRITE to its place) gets a fence.
 */
#include <stdio.h>
#include <string.h>

#include "../lib/post_plain.h"
#include "sim.h"
#include "transport/plain.h"
#include "transport/requester.h"

enum { KEY_RANDOM_BITS = 12 }; /* of a key; with others, it names nothing */

struct draft {
	struct send *send;
	struct ibv_send_wr wr;
	struct ibv_sge sges[MAX_SGE];
	uint32_t flush_length;
};

static struct rng *dice(struct endpoint *end)
{
	return &end->world->program;
}

/* ---- lengths and places ---- */

static uint32_t choose_length(struct endpoint *end, uint32_t most)
{
	struct rng *rng = dice(end);
	uint32_t length;

	if (is_brief(&end->world->weather) && rng_chance(rng, 8000))
		return rng_below(rng, (most < 300 ? most : 300) + 1);
	if (end->world->weather.has_offers && most > OFFERED_FROM && rng_chance(rng, 6000))
		return rng_between(rng, OFFERED_FROM, most);
	switch (rng_below(rng, 8)) {
	case 0:
		length = 0;
		break;
	case 1:
		length = rng_between(rng, 1, 16);
		break;
	case 2:
		length = end->mtu * rng_below(rng, 5);
		break;
	case 3:
		length = end->mtu * rng_below(rng, 5) + rng_below(rng, 7) - 3;
		break;
	case 4:
		length = rng_below(rng, end->mtu + 1);
		break;
	case 5:
		length = most - rng_below(rng, 4);
		break;
	default:
		length = rng_below(rng, most + 1);
	}
	return length > most ? rng_below(rng, most + 1) : length;
}

static bool overlaps(const struct send *send, uint32_t at, uint32_t length)
{
	return at < send->remote_at + send->remote_length && send->remote_at < at + length;
}

/* A fence where an outstanding READ, or before plain writes an atomic, looks at these bytes. */
static bool needs_fence(struct endpoint *end, uint32_t at, uint32_t length, bool is_atomic)
{
	for (uint32_t i = end->send_head; i < end->sends.count; i++) {
		struct send *send = send_at(end, i);
		bool is_read = send->opcode == IBV_WR_RDMA_READ;
		bool is_old = send->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
			      send->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

		if ((is_read || (is_old && !is_atomic)) && overlaps(send, at, length))
			return true;
	}
	return false;
}

static void aim(struct endpoint *end, struct draft *draft, uint32_t length, uint32_t align)
{
	struct endpoint *peer = end->peer;
	uint32_t at = rng_below(dice(end), peer->window_length - length + 1) & ~(align - 1);

	draft->send->remote_at = peer->window_at + at;
	draft->send->remote_length = length;
	draft->wr.wr.rdma.remote_addr = peer->window_va + at;
	draft->wr.wr.rdma.rkey = peer->window_rkey;
}

static void leave_effect(struct endpoint *end, struct draft *draft, const uint8_t *effect,
			 bool is_atomic)
{
	struct send *send = draft->send;

	if (needs_fence(end, send->remote_at, send->remote_length, is_atomic))
		send->flags |= IBV_SEND_FENCE;
	send->effect = world_alloc(end->world, send->remote_length);
	memcpy(send->effect, effect, send->remote_length);
	arena_mark(end->peer->node->arena.flux, send->remote_at, send->remote_length, 1);
	memcpy(end->peer->final + send->remote_at - end->peer->window_at, effect,
	       send->remote_length);
}

/* ---- kinds ---- */

static void note_message(struct endpoint *end, struct draft *draft, struct endpoint *to)
{
	struct message *message = world_alloc(end->world, sizeof(*message));
	struct send *send = draft->send;

	message->to = to;
	message->send_index = end->sends.count;
	message->length = send->length;
	message->data = send->data;
	message->is_write = send->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	message->must_fail = send->expect != IBV_WC_SUCCESS;
	if (send->opcode == IBV_WR_SEND_WITH_IMM || message->is_write) {
		message->has_imm = true;
		message->imm = draft->wr.imm_data = rng_next(dice(end));
	}
	list_add(end->world, &end->messages, message);
}

/* The sink of a READ under way as the source: right only if the fence waits for it. */
static bool take_read_sink(struct endpoint *end, struct draft *draft, uint32_t most)
{
	struct send *send = draft->send;

	for (uint32_t i = end->send_head; i < end->sends.count; i++) {
		struct send *read = send_at(end, i);

		if (read->opcode != IBV_WR_RDMA_READ || read->expect != IBV_WC_SUCCESS ||
		    !read->span_count || read->length > most || !rng_chance(dice(end), 5000))
			continue;
		send->length = read->length;
		send->spans = read->spans;
		send->span_count = read->span_count;
		send->data = read->data;
		send->flags |= IBV_SEND_FENCE;
		for (uint32_t k = 0; k < send->span_count; k++)
			arena_mark(end->node->arena.readers, send->spans[k].at,
				   send->spans[k].length, 1);
		return true;
	}
	return false;
}

static bool take_source(struct endpoint *end, struct draft *draft, uint32_t most)
{
	struct send *send = draft->send;

	if (end->type == IBV_QPT_RC && rng_chance(dice(end), 2000) &&
	    take_read_sink(end, draft, most))
		return true;
	if (end->max_inline && rng_chance(dice(end), 4000)) {
		send->length = choose_length(end, end->max_inline < most ? end->max_inline : most);
		send->flags |= IBV_SEND_INLINE;
		send->is_inline = true;
	} else {
		send->length = choose_length(end, most);
	}
	if (!spans_take(end->node, POOL_SEND, send->length, end->max_sge, false, &send->spans,
			&send->span_count))
		return false;
	send->data = spans_gather(end->node, send->spans, send->span_count, send->length);
	return true;
}

/* In a list of its own, as it may be the sink of a READ. */
static void lend(const struct endpoint *end, struct send *send)
{
	struct span *spans;

	if (!end->lent || !send->span_count)
		return;
	spans = world_alloc(end->world, send->span_count * sizeof(*spans));
	memcpy(spans, send->spans, send->span_count * sizeof(*spans));
	for (uint32_t i = 0; i < send->span_count; i++)
		if (spans[i].mr == end->node->pool[POOL_SEND_LONG]) {
			spans[i].mr = end->lent;
			send->is_lent = true;
		}
	send->spans = spans;
}

static bool draft_send(struct endpoint *end, struct draft *draft)
{
	struct endpoint *to = end->peer;

	if (end->type == IBV_QPT_UD) {
		struct world *world = end->world;
		int tries = 0;

		do {
			to = world->endpoints[rng_below(dice(end), world->endpoint_count)];
		} while ((to->type != IBV_QPT_UD || !to->qp) && ++tries < 50);
		if (to->type != IBV_QPT_UD || !to->qp)
			return false;
		draft->wr.wr.ud.ah = &end->ahs[to->node->index]->ibv;
		draft->wr.wr.ud.remote_qpn = to->qp->number;
		draft->wr.wr.ud.remote_qkey = to->qkey;
	}
	if (!take_source(end, draft,
			 end->max_message < to->recv_size ? end->max_message : to->recv_size))
		return false;
	lend(end, draft->send);
	note_message(end, draft, to);
	return true;
}

/* Takes the window back that the peer offers; without one it is a SEND. */
static bool draft_send_invalidate(struct endpoint *end, struct draft *draft)
{
	struct endpoint *peer = end->peer;
	struct message *message;

	if (!peer->is_guest_offered)
		draft->send->opcode = IBV_WR_SEND;
	if (!draft_send(end, draft))
		return false;
	if (draft->send->opcode == IBV_WR_SEND)
		return true;
	message = end->messages.items[end->messages.count - 1];
	message->has_inv = true;
	message->inv_rkey = draft->wr.invalidate_rkey = peer->guest_rkey;
	peer->is_guest_offered = false;
	return true;
}

static bool draft_write(struct endpoint *end, struct draft *draft)
{
	struct send *send = draft->send;

	if (!take_source(end, draft, end->max_message))
		return false;
	aim(end, draft, send->length, 1);
	leave_effect(end, draft, send->data, false);
	if (send->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		note_message(end, draft, end->peer);
	return true;
}

static bool draft_read(struct endpoint *end, struct draft *draft)
{
	struct send *send = draft->send;
	struct endpoint *peer = end->peer;

	send->length = choose_length(end, end->max_message);
	if (!spans_take(end->node, POOL_SEND, send->length, end->max_sge, true, &send->spans,
			&send->span_count))
		return false;
	aim(end, draft, send->length, 1);
	send->data = world_alloc(end->world, send->length);
	memcpy(send->data, peer->final + send->remote_at - peer->window_at, send->length);
	arena_mark(peer->node->arena.readers, send->remote_at, send->length, 1);
	return true;
}

static bool draft_atomic(struct endpoint *end, struct draft *draft)
{
	struct send *send = draft->send;
	struct endpoint *peer = end->peer;
	uint64_t old, value, add = rng_between(dice(end), 1, 1000), compare;

	send->length = 8;
	if (!spans_take(end->node, POOL_SEND, 8, 1, true, &send->spans, &send->span_count))
		return false;
	if (send->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD && rng_chance(dice(end), 4000)) {
		send->is_counter = true;
		send->add = draft->wr.wr.atomic.compare_add = add;
		draft->wr.wr.atomic.remote_addr = peer->node->counter_mr->iova;
		draft->wr.wr.atomic.rkey = peer->node->counter_mr->rkey;
		return true;
	}
	aim(end, draft, 8, 8);
	memcpy(&old, peer->final + send->remote_at - peer->window_at, 8);
	if (send->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		add = rng_next(dice(end));
		draft->wr.wr.atomic.compare_add = add;
		value = old + add;
	} else {
		compare = rng_chance(dice(end), 6000) ? old : rng_next(dice(end));
		value = rng_next(dice(end));
		draft->wr.wr.atomic.compare_add = compare;
		draft->wr.wr.atomic.swap = value;
		value = compare == old ? value : old;
	}
	draft->wr.wr.atomic.remote_addr = peer->window_va + send->remote_at - peer->window_at;
	draft->wr.wr.atomic.rkey = peer->window_rkey;
	send->data = world_alloc(end->world, 8);
	memcpy(send->data, &old, 8);
	leave_effect(end, draft, (uint8_t *)&value, true);
	arena_mark(peer->node->arena.readers, send->remote_at, 8, 1);
	return true;
}

static bool draft_atomic_write(struct endpoint *end, struct draft *draft)
{
	uint64_t value = rng_next(dice(end));

	draft->send->length = 8;
	draft->send->data = world_alloc(end->world, 8);
	memcpy(draft->send->data, &value, 8);
	aim(end, draft, 8, 8);
	leave_effect(end, draft, draft->send->data, false);
	return true;
}

static bool draft_flush(struct endpoint *end, struct draft *draft)
{
	draft->flush_length = choose_length(end, end->max_message);
	/* at a byte that is there, for the level of the whole region */
	aim(end, draft, draft->flush_length ? draft->flush_length : 1, 1);
	draft->send->remote_length = 0;
	return true;
}

/* No packet, no effect that anybody sees; but it is refused out of its turn, or done twice. */
static bool draft_local(struct endpoint *end, struct draft *draft)
{
	bool is_bound = end->is_spare_bound;

	draft->send->opcode = is_bound ? IBV_WR_LOCAL_INV : IBV_WR_BIND_MW;
	end->is_spare_bound = !is_bound;
	if (is_bound) {
		draft->wr.invalidate_rkey = end->spare_rkey;
		return true;
	}
	end->spare_rkey = ibv_inc_rkey(end->spare_rkey);
	draft->wr.bind_mw.mw = &end->spare->ibv;
	draft->wr.bind_mw.rkey = end->spare_rkey;
	draft->wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
	    .mr = &end->node->pool[POOL_RECV]->ibv,
	    .addr = end->node->pool[POOL_RECV]->iova,
	    .length = 1,
	};
	return true;
}

/* ---- trouble ---- */

static bool draft_refused(struct endpoint *end, struct draft *draft)
{
	struct send *send = draft->send;
	struct mr *read_only = end->peer->read_only;

	send->opcode = IBV_WR_RDMA_WRITE;
	send->expect = IBV_WC_REM_ACCESS_ERR;
	send->length = rng_between(dice(end), 1, end->max_message ? end->max_message : 1);
	if (!spans_take(end->node, POOL_SEND, send->length, end->max_sge, false, &send->spans,
			&send->span_count))
		return false;
	aim(end, draft, send->length, 1);
	send->remote_length = 0;
	switch (end->pair->trouble) {
	case TROUBLE_BAD_RKEY:
		draft->wr.wr.rdma.rkey ^= 1u << rng_below(dice(end), KEY_RANDOM_BITS);
		break;
	case TROUBLE_LKEY_AS_RKEY:
		draft->wr.wr.rdma.rkey = end->peer->window->lkey;
		break;
	case TROUBLE_PAST_END:
		draft->wr.wr.rdma.remote_addr = end->peer->window_va + end->peer->window_length -
						rng_below(dice(end), send->length);
		break;
	default:
		draft->wr.wr.rdma.remote_addr =
		    read_only->iova + rng_below(dice(end), read_only->length - send->length + 1);
		draft->wr.wr.rdma.rkey = read_only->rkey;
	}
	return true;
}

static bool draft_long(struct endpoint *end, struct draft *draft)
{
	struct send *send = draft->send;

	send->opcode = IBV_WR_SEND;
	send->expect = IBV_WC_REM_INV_REQ_ERR;
	send->length = end->peer->recv_size + rng_between(dice(end), 1, 600);
	if (!spans_take(end->node, POOL_SEND, send->length, end->max_sge, false, &send->spans,
			&send->span_count))
		return false;
	note_message(end, draft, end->peer);
	return true;
}

static bool draft_bad_local(struct endpoint *end, struct draft *draft)
{
	struct send *send = draft->send;
	struct node *node = end->node;

	send->expect = IBV_WC_LOC_PROT_ERR;
	send->length = rng_between(dice(end), 1, 64);
	draft->sges[0].length = send->length;
	draft->wr.num_sge = 1;
	if (end->pair->trouble == TROUBLE_SINK_READ_ONLY) {
		send->opcode = IBV_WR_RDMA_READ;
		draft->sges[0].addr = node->locked->iova;
		draft->sges[0].lkey = node->locked->lkey;
		aim(end, draft, send->length < end->peer->window_length ? send->length : 1, 1);
		send->remote_length = 0;
		return true;
	}
	send->opcode = IBV_WR_SEND;
	draft->sges[0].addr = node->pool[POOL_SEND]->iova;
	draft->sges[0].lkey =
	    node->pool[POOL_SEND]->lkey ^ (1u << rng_below(dice(end), KEY_RANDOM_BITS));
	return true;
}

static bool draft_unaligned(struct endpoint *end, struct draft *draft)
{
	struct send *send = draft->send;

	send->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	send->expect = IBV_WC_REM_INV_REQ_ERR;
	send->length = 8;
	if (!spans_take(end->node, POOL_SEND, 8, 1, true, &send->spans, &send->span_count))
		return false;
	send->data = world_alloc(end->world, 8);
	draft->wr.wr.atomic.remote_addr = end->peer->window_va + rng_between(dice(end), 1, 7);
	draft->wr.wr.atomic.rkey = end->peer->window_rkey;
	draft->wr.wr.atomic.compare_add = 1;
	return true;
}

/* Only what was made to be invalidated can be. */
static bool draft_invalidate(struct endpoint *end, struct draft *draft)
{
	struct send *send = draft->send;

	if (end->pair->trouble == TROUBLE_LOCAL_INVALIDATE) {
		send->opcode = IBV_WR_LOCAL_INV;
		send->expect = IBV_WC_MW_BIND_ERR;
		draft->wr.invalidate_rkey = end->window->rkey;
		return true;
	}
	send->opcode = IBV_WR_SEND_WITH_INV;
	send->expect = IBV_WC_REM_ACCESS_ERR;
	if (!take_source(end, draft,
			 end->max_message < end->peer->recv_size ? end->max_message
								 : end->peer->recv_size))
		return false;
	draft->wr.invalidate_rkey = end->peer->window->rkey;
	note_message(end, draft, end->peer);
	return true;
}

static bool draft_trouble(struct endpoint *end, struct draft *draft)
{
	switch (end->pair->trouble) {
	case TROUBLE_BAD_RKEY:
	case TROUBLE_LKEY_AS_RKEY:
	case TROUBLE_PAST_END:
	case TROUBLE_NO_ACCESS:
		return draft_refused(end, draft);
	case TROUBLE_LONG_SEND:
		return draft_long(end, draft);
	case TROUBLE_BAD_LKEY:
	case TROUBLE_SINK_READ_ONLY:
		return draft_bad_local(end, draft);
	case TROUBLE_INVALIDATE:
	case TROUBLE_LOCAL_INVALIDATE:
		return draft_invalidate(end, draft);
	default:
		return draft_unaligned(end, draft);
	}
}

static bool is_trouble_due(const struct endpoint *end)
{
	const struct pair *pair = end->pair;

	return pair && pair->trouble_of == end && !pair->is_troubled &&
	       pair->trouble >= TROUBLE_BAD_RKEY && pair->trouble <= TROUBLE_LOCAL_INVALIDATE &&
	       pair->trouble != TROUBLE_RECV_LKEY && end->posted >= pair->trouble_at;
}

/* ---- all of them ---- */

/* Mostly small messages, for there to be records, and now and then one that is none. */
static bool is_for_express(struct endpoint *end)
{
	return is_brief(&end->world->weather) && end->type == IBV_QPT_RC &&
	       rng_chance(dice(end), 9000);
}

static enum ibv_wr_opcode choose_opcode(struct endpoint *end)
{
	static const enum ibv_wr_opcode all[] = {
	    IBV_WR_SEND,
	    IBV_WR_SEND_WITH_IMM,
	    IBV_WR_RDMA_WRITE,
	    IBV_WR_RDMA_WRITE_WITH_IMM,
	    IBV_WR_RDMA_READ,
	    IBV_WR_RDMA_READ,
	    IBV_WR_ATOMIC_CMP_AND_SWP,
	    IBV_WR_ATOMIC_FETCH_AND_ADD,
	    IBV_WR_ATOMIC_FETCH_AND_ADD,
	    IBV_WR_FLUSH,
	    IBV_WR_ATOMIC_WRITE,
	    IBV_WR_BIND_MW,
	    IBV_WR_SEND_WITH_INV,
	};

	if (end->type == IBV_QPT_UD || is_for_express(end))
		return all[rng_below(dice(end), 2)];
	if (end->type == IBV_QPT_UC && rng_chance(dice(end), 500))
		return IBV_WR_BIND_MW;
	if (end->type == IBV_QPT_UC)
		return all[rng_below(dice(end), 4)];
	return all[rng_below(dice(end), sizeof(all) / sizeof(all[0]))];
}

static bool draft_any(struct endpoint *end, struct draft *draft)
{
	switch (draft->send->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return draft_write(end, draft);
	case IBV_WR_RDMA_READ:
		return draft_read(end, draft);
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return draft_atomic(end, draft);
	case IBV_WR_FLUSH:
		return draft_flush(end, draft);
	case IBV_WR_ATOMIC_WRITE:
		return draft_atomic_write(end, draft);
	case IBV_WR_BIND_MW:
		return draft_local(end, draft);
	case IBV_WR_SEND_WITH_INV:
		return draft_send_invalidate(end, draft);
	default:
		return draft_send(end, draft);
	}
}

static void choose_flags(struct endpoint *end, struct send *send)
{
	bool is_last = end->to_send == 1;

	if (rng_chance(dice(end), 5000) || is_last ||
	    end->unsignaled_run + 1 >= end->max_send_wr / 2)
		send->flags |= IBV_SEND_SIGNALED;
	send->is_signaled = end->sq_sig_all || send->flags & IBV_SEND_SIGNALED;
	end->unsignaled_run = send->is_signaled ? 0 : end->unsignaled_run + 1;
	if (rng_chance(dice(end), 500))
		send->flags |= IBV_SEND_FENCE;
	if (rng_chance(dice(end), 3000))
		send->flags |= IBV_SEND_SOLICITED;
}

static bool make_draft(struct endpoint *end, struct draft *draft)
{
	struct send *send = world_alloc(end->world, sizeof(*send));
	bool is_trouble = is_trouble_due(end);

	memset(draft, 0, sizeof(*draft));
	draft->send = send;
	send->opcode = choose_opcode(end);
	if (!(is_trouble ? draft_trouble(end, draft) : draft_any(end, draft)))
		return false;
	if (is_trouble)
		end->pair->is_troubled = true;
	choose_flags(end, send);
	send->wr_id = (uint64_t)end->index << 32 | end->next_id++;
	draft->wr.wr_id = send->wr_id;
	draft->wr.opcode = send->opcode;
	draft->wr.send_flags = send->flags;
	draft->wr.sg_list = draft->sges;
	if (send->spans)
		draft->wr.num_sge =
		    spans_sges(end->node, send->spans, send->span_count, draft->sges);
	for (uint32_t i = 0; send->spans && send->is_inline && i < send->span_count; i++)
		draft->sges[i].addr = (uintptr_t)end->node->arena.memory + send->spans[i].at;
	list_add(end->world, &end->sends, send);
	end->posted++;
	end->to_send--;
	end->world->last_progress = end->world->now;
	end->world->stats.sends++;
	end->world->stats.payload += send->length;
	trace(end->world, "     end %d posts %s %llx, %u bytes, %u elements%s%s%s%s", end->index,
	      send_opcode_name(send->opcode), (unsigned long long)send->wr_id, send->length,
	      send->span_count, send->is_signaled ? "" : " unsignaled",
	      send->flags & IBV_SEND_FENCE ? " fence" : "", send->is_inline ? " inline" : "",
	      send->expect ? " (must fail)" : "");
	return true;
}

/* The buffers of inline sends are the program's at once. */
static void after_inline(struct endpoint *end, struct send *send)
{
	struct arena *arena = &end->node->arena;

	if (!send->is_inline)
		return;
	for (uint32_t i = 0; i < send->span_count; i++) {
		struct span *span = &send->spans[i];

		arena_mark(arena->readers, span->at, span->length, -1);
		if (arena_is_free(arena, span->at, span->length, true))
			arena_scribble(arena, span->at, span->length);
	}
}

/* As by a program that polls. */
static struct ibv_send_wr *post_plainly(struct endpoint *end, struct ibv_send_wr *wr)
{
	struct world *world = end->world;
	uint32_t before = end->qp->requester->psn;

	for (; wr && VERB("post", plain_post(end->qp, wr, &end->node->out.outbox)); wr = wr->next)
		plain_sent(end->qp, wr, world->now);
	world->stats.plain += psn_into(end->qp->requester->psn, before);
	node_wake(end->node, 100); /* for the timers */
	return wr;
}

/* As if contests had come to it. */
static void choose_way(struct endpoint *end)
{
	struct contests *contests = &end->qp->requester->contests;

	if (!end->world->weather.has_offers || !rng_chance(&end->world->host, 2000))
		return;
	for (int i = 0; i < 2; i++)
		contests->of[i].duel.way =
		    rng_below(&end->world->host, 2) ? CONTEST_OFFERS : CONTEST_RECORDS;
}

/* What is fit for it by the express path, or plainly, and then no turn is needed for it. */
static void post_list(struct endpoint *end, struct draft *drafts, uint32_t count, bool *needs_turn)
{
	struct ibv_send_wr *wr = &drafts[0].wr, *bad = NULL;
	int error;

	if (!count)
		return;
	choose_way(end);
	for (uint32_t i = 0; i + 1 < count; i++)
		drafts[i].wr.next = &drafts[i + 1].wr;
	if (end->world->weather.has_express) {
		if (rng_chance(&end->world->host, 5000))
			wr = VERB("post", post_plain(end->qp, wr, &end->node->out.outbox));
		if (wr)
			wr = VERB("post", express_post(end->qp, wr, &end->node->out.outbox));
		node_note(end->node, end->qp);
	} else if (end->world->weather.has_plain) {
		wr = post_plainly(end, wr);
	}
	*needs_turn |= wr != NULL;
	error = wr ? VERB("post", qp_post_send(end->qp, wr, &bad)) : 0;
	sim_check(end->world, !error, "end %d: qp_post_send: %s", end->index, strerror(error));
	for (uint32_t i = 0; i < count; i++)
		after_inline(end, drafts[i].send);
}

/* FLUSH and ATOMIC WRITE have no ibv_post_send(), only the ibv_wr_* builder. */
static void post_built(struct endpoint *end, struct draft *draft)
{
	struct send_wqe *wqe;
	int error;

	sq_begin(end->qp);
	wqe = sq_next(end->qp);
	sim_check(end->world, wqe, "end %d: no room in the send queue", end->index);
	wqe->wr_id = draft->wr.wr_id;
	wqe->opcode = draft->wr.opcode;
	wqe->flags = draft->wr.send_flags | (end->sq_sig_all ? IBV_SEND_SIGNALED : 0);
	wqe->remote_addr = draft->wr.wr.rdma.remote_addr;
	wqe->rkey = draft->wr.wr.rdma.rkey;
	if (wqe->opcode == IBV_WR_ATOMIC_WRITE) {
		wqe->length = 8;
		memcpy(&wqe->atomic_write, draft->send->data, 8);
	} else {
		wqe->length = draft->flush_length;
		wqe->flush.type = rng_between(dice(end), 1, 3);
		wqe->flush.level = rng_below(dice(end), 2);
	}
	error = qp_check_send(end->qp, wqe);
	sim_check(end->world, !error, "end %d: qp_check_send: %s", end->index, strerror(error));
	sq_commit(end->qp);
}

static bool is_built(const struct draft *draft)
{
	return draft->send->opcode == IBV_WR_FLUSH || draft->send->opcode == IBV_WR_ATOMIC_WRITE;
}

void post_sends(struct endpoint *end, uint32_t most)
{
	struct draft drafts[MAX_LIST + 1];
	uint32_t count = 0;
	bool needs_turn = false;

	while (most-- && end->to_send && sends_outstanding(end) < end->max_send_wr) {
		if (!make_draft(end, &drafts[count]))
			break;
		if (is_built(&drafts[count])) {
			struct draft built = drafts[count];

			post_list(end, drafts, count, &needs_turn);
			post_built(end, &built);
			needs_turn = true;
			count = 0;
		} else if (++count == MAX_LIST) {
			post_list(end, drafts, count, &needs_turn);
			count = 0;
		}
	}
	post_list(end, drafts, count, &needs_turn);
	if (needs_turn)
		node_schedule(end->node, end->qp);
}

/* ---- receives ---- */

static struct recv *make_recv(struct node *node, uint32_t size, uint32_t max_sge,
			      struct ibv_sge *sges)
{
	struct recv *recv = world_alloc(node->world, sizeof(*recv));

	if (!spans_take(node, POOL_RECV, size, max_sge, true, &recv->spans, &recv->span_count))
		return NULL;
	recv->capacity = size;
	spans_sges(node, recv->spans, recv->span_count, sges);
	return recv;
}

void post_recvs(struct endpoint *end, uint32_t most)
{
	struct pair *pair = end->pair;
	struct ibv_sge sges[MAX_SGE];
	struct ibv_recv_wr wr, *bad;

	while (most-- && end->recvs.count - end->recv_head < end->max_recv_wr) {
		uint32_t size = end->recv_size + (end->type == IBV_QPT_UD ? GRH_SIZE : 0);
		struct recv *recv = make_recv(end->node, size, end->max_sge, sges);
		int error;

		if (!recv)
			return;
		if (pair && pair->trouble == TROUBLE_RECV_LKEY && pair->trouble_of == end &&
		    !pair->is_troubled && end->posted >= pair->trouble_at && recv->span_count &&
		    sges[0].length) {
			pair->is_troubled = true;
			recv->expect = IBV_WC_LOC_PROT_ERR;
			sges[0].lkey ^= 1u << rng_below(dice(end), KEY_RANDOM_BITS);
		}
		recv->wr_id = 1ull << 63 | (uint64_t)end->index << 32 | end->recvs.count;
		wr = (struct ibv_recv_wr){
		    .wr_id = recv->wr_id, .sg_list = sges, .num_sge = recv->span_count};
		list_add(end->world, &end->recvs, recv);
		error = VERB("receive", qp_post_recv(end->qp, &wr, &bad));
		sim_check(end->world, !error, "end %d: qp_post_recv: %s", end->index,
			  strerror(error));
		if (end->qp->state == IBV_QPS_ERR)
			node_schedule(end->node, end->qp);
	}
}

void post_srq(struct simsrq *simsrq, uint32_t most)
{
	struct node *node = simsrq->node;
	struct ibv_sge sges[MAX_SGE];
	struct ibv_recv_wr wr, *bad;

	while (most-- && simsrq->outstanding < simsrq->depth) {
		struct recv *recv = make_recv(node, simsrq->recv_size, 4, sges);
		int error;

		if (!recv)
			return;
		recv->wr_id = 3ull << 62 | simsrq->recvs.count;
		wr = (struct ibv_recv_wr){
		    .wr_id = recv->wr_id, .sg_list = sges, .num_sge = recv->span_count};
		list_add(node->world, &simsrq->recvs, recv);
		simsrq->outstanding++;
		error = recv_queue_post(&simsrq->srq->queue, &wr, &bad);
		sim_check(node->world, !error, "recv_queue_post: %s", strerror(error));
	}
}
