/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Virtual time: a heap of events, in order of time and then of making. And the host of each
 * adapter: a run list of QPs that asked for a turn, a buffer of packets that came in, one step at a
 * time that takes a batch of both.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "transport/window.h"
#include "wire/icrc.h"
#include "wire/psn.h"

struct chunk {
	struct chunk *next;
	size_t used, size;
	uint8_t bytes[];
};

/* Far longer than eight of the longest ACK timeouts or RNR timers that programs get. */
#define STALL (20 * SEC)

void sim_fail(struct world *world, const char *format, ...)
{
	va_list values;
	int n = snprintf(world->failure, sizeof(world->failure),
			 "t=%llu.%03llu us: ", (unsigned long long)world->now / 1000,
			 (unsigned long long)world->now % 1000);

	va_start(values, format);
	vsnprintf(world->failure + n, sizeof(world->failure) - n, format, values);
	va_end(values);
	longjmp(world->failed, 1);
}

void *world_alloc(struct world *world, size_t size)
{
	struct chunk *chunk = world->memory;
	void *place;

	size = (size + 15) & ~(size_t)15;
	if (!chunk || chunk->size - chunk->used < size) {
		size_t room = size > 65536 ? size : 65536;

		chunk = calloc(1, sizeof(*chunk) + room);
		if (!chunk)
			abort();
		chunk->size = room;
		chunk->next = world->memory;
		world->memory = chunk;
	}
	place = chunk->bytes + chunk->used;
	chunk->used += size;
	return place;
}

void list_add(struct world *world, struct list *list, void *item)
{
	if (list->count == list->room) {
		uint32_t room = list->room ? list->room * 2 : 32;
		void **items = world_alloc(world, room * sizeof(*items));

		if (list->count)
			memcpy(items, list->items, list->count * sizeof(*items));
		list->items = items;
		list->room = room;
	}
	list->items[list->count++] = item;
}

/* ---- events ---- */

static bool is_before(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void world_at(struct world *world, uint64_t at, event_action action, void *subject, uint64_t value)
{
	struct event event = {at, world->order++, action, subject, value};
	uint32_t i;

	if (world->heap_count == world->heap_room) {
		world->heap_room = world->heap_room ? world->heap_room * 2 : 256;
		world->heap = realloc(world->heap, world->heap_room * sizeof(*world->heap));
		if (!world->heap)
			abort();
	}
	for (i = world->heap_count++; i; i = (i - 1) / 2) {
		if (!is_before(&event, &world->heap[(i - 1) / 2]))
			break;
		world->heap[i] = world->heap[(i - 1) / 2];
	}
	world->heap[i] = event;
}

static struct event take_event(struct world *world)
{
	struct event first = world->heap[0], last = world->heap[--world->heap_count];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < world->heap_count) {
		if (child + 1 < world->heap_count &&
		    is_before(&world->heap[child + 1], &world->heap[child]))
			child++;
		if (is_before(&last, &world->heap[child]))
			break;
		world->heap[i] = world->heap[child];
		i = child;
	}
	world->heap[i] = last;
	return first;
}

void world_run(struct world *world)
{
	while (!world->is_finished(world)) {
		struct event event;

		sim_check(world, world->heap_count, "deadlock: nothing will ever happen again");
		event = take_event(world);
		sim_check(world, event.at <= world->limit, "deadlock: not done at the time limit");
		sim_check(world, event.at < world->last_progress + STALL,
			  "deadlock: nothing was completed or posted for %llu s", STALL / SEC);
		world->now = event.at;
		event.action(event.subject, event.value);
	}
}

/* ---- what an adapter asks of its host ---- */

void node_schedule(struct node *node, struct qp *qp)
{
	struct seat *seat = qp->seat;

	if (!seat || seat->is_scheduled || seat->is_dead)
		return;
	seat->is_scheduled = true;
	node->run[node->run_count++] = seat;
	node_wake(node, 0);
}

static void host_schedule(struct adapter *adapter, struct qp *qp)
{
	node_schedule(adapter->host_data, qp);
}

static void host_cq_event(struct cq *cq)
{
	struct simcq *simcq = cq->face;

	sim_check(simcq->node->world, simcq->is_armed, "an event of a CQ that was not armed");
	simcq->is_armed = false;
	simcq->is_told = true;
}

static void host_async_event(struct adapter *adapter, const struct ibv_async_event *event)
{
	model_async(adapter->host_data, event);
}

static uint32_t host_random(struct adapter *adapter)
{
	struct node *node = adapter->host_data;

	return rng_next(&node->world->host) >> 32;
}

static const struct adapter_host host = {
    .schedule = host_schedule,
    .cq_event = host_cq_event,
    .async_event = host_async_event,
    .random = host_random,
};

static const struct adapter_host near_host = {
    .schedule = host_schedule,
    .cq_event = host_cq_event,
    .async_event = host_async_event,
    .random = host_random,
    .publish_mr = near_publish_mr,
    .withdraw_mr = near_withdraw_mr,
    .publish_qp = near_publish_qp,
    .withdraw_qp = near_withdraw_qp,
    .reach = near_reach,
    .is_reached = near_is_reached,
    .time = near_time,
};

const char *sim_in_verb;

/* ---- a node's turn ---- */

static void on_timer(void *subject, uint64_t at)
{
	struct seat *seat = subject;

	if (seat->is_dead || seat->timer_at != at)
		return;
	seat->timer_at = NO_DEADLINE;
	if (transport_deadline(seat->qp) <= seat->node->world->now)
		node_schedule(seat->node, seat->qp);
	else
		node_wake(seat->node, 0);
}

/* One event for a QP, at its earliest deadline; a later one is found when that event comes. */
static void arm_timers(struct node *node)
{
	struct world *world = node->world;

	for (uint32_t i = 0; i < node->seat_count; i++) {
		struct seat *seat = node->seats[i];
		uint64_t at;

		if (seat->is_dead || seat->is_scheduled)
			continue;
		at = transport_deadline(seat->qp);
		if (at < world->now)
			at = world->now;
		if (at >= seat->timer_at)
			continue;
		seat->timer_at = at;
		world_at(world, at, on_timer, seat, at);
	}
}

/* ---- the express path ---- */

void node_note(struct node *node, struct qp *qp)
{
	struct seat *seat = qp->seat;

	if (seat->is_dead || (!transport_is_late(qp) && !transport_is_untimed(qp)))
		return;
	seat->is_late = true;
	node_wake(node, 500);
}

static void glanced(struct qp *qp, const struct packet *packet, void *data)
{
	(void)packet;
	node_note(data, qp);
}

/* By what the host remembers, or not. */
static bool arrive(struct node *node, const struct packet *packet)
{
	struct express head;
	struct qp *qp = transport_find_express(&node->adapter, packet, 0, &head);

	if (!qp || rng_chance(&node->world->host, 5000) || !express_may_arrive(qp, packet) ||
	    !express_arrive(qp, &head, packet, NULL, node->world->now))
		return false;
	node->world->stats.arrived++;
	node_note(node, qp);
	return true;
}

/* As a program's poll would, or not. */
static bool glance(struct node *node, const struct packet *packet)
{
	struct glance glance = {.now = node->world->now, .taken = glanced, .data = node};

	if (!packet->is_express || rng_chance(&node->world->host, 1000) ||
	    !VERB("glance",
		  arrive(node, packet) || transport_glance(&node->adapter, packet, &glance)))
		return false;
	node->world->stats.glanced++;
	return true;
}

/* False if it needs its turn. */
static bool catch_up(struct node *node, struct qp *qp, struct express_acks *acks)
{
	if (transport_waits(qp)) {
		express_acks_send(acks);
		if (!express_advance(qp, acks->outbox))
			return false;
	}
	if (!transport_owes(qp))
		return true;
	if (!express_acks_take(acks, qp))
		express_acks_send(acks);
	return express_acks_add(acks, qp);
}

static uint32_t count_owing(const struct node *node)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < node->seat_count; i++)
		count += node->seats[i]->is_late && !node->seats[i]->is_dead &&
			 express_owes(node->seats[i]->qp->responder);
	return count;
}

/* What was left for later waits on, or has its turn, or leaves as records: by chance. */
static void settle(struct node *node)
{
	struct express_acks acks = {.outbox = &node->out.outbox};
	struct rng *rng = &node->world->host;
	/* for company, mostly: then there are ACKs that go together */
	bool is_waiting = rng_chance(rng, count_owing(node) == 1 ? 9700 : 5000), is_any = false;

	for (uint32_t i = 0; i < node->seat_count; i++) {
		struct seat *seat = node->seats[i];

		if (!seat->is_late || seat->is_dead)
			continue;
		is_any = true;
		if (is_waiting)
			break;
		seat->is_late = false;
		if (rng_chance(rng, 7000))
			transport_time(seat->qp, node->world->now);
		if (rng_chance(rng, 2000) || !VERB("catch up", catch_up(node, seat->qp, &acks)))
			node_schedule(node, seat->qp);
		else
			node_note(node, seat->qp);
	}
	express_acks_send(&acks);
	if (is_any)
		node_wake(node, 500);
}

static struct parcel *next_parcel(struct node *node)
{
	struct parcel *parcel = node->rx;

	node->rx = parcel->next;
	if (!node->rx)
		node->rx_tail = &node->rx;
	node->rx_count--;
	net_arrived(node, parcel);
	return parcel;
}

static bool goes_on(const struct parcel *last, const struct parcel *next)
{
	return next && !next->is_express && next->from == last->from &&
	       next->length == last->length && gid_is_same(&next->sgid, &last->sgid) &&
	       gid_is_same(&next->dgid, &last->dgid) &&
	       next->traffic_class == last->traffic_class &&
	       !memcmp(next->bytes, last->bytes, BTH_PSN_AT) &&
	       bth_psn(next->bytes) == psn_next(bth_psn(last->bytes));
}

/* With those behind it, as far as they come in rows: as a link has them. The last
 * of them. */
static struct parcel *couple(struct node *node, struct parcel *parcel, struct packet *packet,
			     uint32_t *most)
{
	enum { TRAIN = 16, STRIDE = 4200 };
	static uint8_t bytes[TRAIN][STRIDE];
	struct parcel *last = parcel;

	if (packet->is_express || !opcode_comes_in_rows(packet->bth[0]) || !goes_on(last, node->rx))
		return last;
	memcpy(bytes[0], last->bytes, last->length);
	packet->bth = bytes[0];
	packet->stride = STRIDE;
	while (*most && packet->more < TRAIN - 1 && goes_on(last, node->rx)) {
		free(last);
		last = next_parcel(node);
		memcpy(bytes[++packet->more], last->bytes, last->length);
		--*most;
	}
	return last;
}

static bool is_ack(const struct parcel *parcel)
{
	return !parcel->is_express && parcel->length == ACK_BYTES &&
	       parcel->bytes[0] == (TRANSPORT_RC | OP_ACKNOWLEDGE);
}

/* What is for the same QP. */
static bool comes_behind(const struct parcel *ack, const struct parcel *next)
{
	return next && !next->is_express && next->from == ack->from && next->length >= BTH_BYTES &&
	       gid_is_same(&next->sgid, &ack->sgid) && gid_is_same(&next->dgid, &ack->dgid) &&
	       next->traffic_class == ack->traffic_class &&
	       bth_dest_qp(next->bytes) == bth_dest_qp(ack->bytes);
}

/* An ACK with what comes behind it, as a link has them whose packet they were. That. */
static struct parcel *join(struct node *node, struct parcel *parcel, struct packet *packet,
			   uint32_t *most)
{
	static uint8_t ack[ACK_BYTES];

	if (!*most || !is_ack(parcel) || !comes_behind(parcel, node->rx))
		return parcel;
	memcpy(ack, parcel->bytes, sizeof(ack));
	ack[0] = OPCODE_ACK_AND;
	free(parcel);
	parcel = next_parcel(node);
	--*most;
	packet->ack = ack;
	packet->bth = parcel->bytes;
	packet->length = parcel->length;
	return parcel;
}

static void take_packets(struct node *node, uint32_t most)
{
	while (most-- && node->rx) {
		struct parcel *parcel = next_parcel(node);
		struct packet packet = {
		    .bth = parcel->bytes,
		    .length = parcel->length,
		    .sgid = parcel->sgid,
		    .dgid = parcel->dgid,
		    .traffic_class = parcel->traffic_class,
		    .hop_limit = parcel->hop_limit,
		    .flow_label = parcel->flow_label,
		    .source_port = 0xc000 + parcel->from->index,
		    .is_express = parcel->is_express,
		};

		parcel = join(node, parcel, &packet, &most);
		parcel = couple(node, parcel, &packet, &most);
		if (!glance(node, &packet)) {
			sim_in_verb = "receive";
			transport_receive(&node->adapter, &packet, node->world->now,
					  &node->out.outbox);
			sim_in_verb = NULL;
		}
		free(parcel);
	}
}

static void run_qps(struct node *node)
{
	uint32_t count = node->run_count;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t pick = rng_chance(&node->world->host, 1000)
				    ? rng_below(&node->world->host, node->run_count)
				    : 0;
		struct seat *seat = node->run[pick];

		memmove(node->run + pick, node->run + pick + 1,
			(--node->run_count - pick) * sizeof(*node->run));
		seat->is_scheduled = false;
		if (VERB("run", transport_run(seat->qp, node->world->now, &node->out.outbox)))
			node_schedule(node, seat->qp);
	}
}

static void node_step(void *subject, uint64_t value)
{
	struct node *node = subject;
	struct world *world = node->world;

	node->is_awake = false;
	node->same_time = node->last_step == world->now ? node->same_time + 1 : 0;
	node->last_step = world->now;
	sim_check(world, node->same_time < 10000, "node %d spins: a QP wants turn upon turn",
		  node->index);
	if (rng_chance(&world->host, 1000)) {
		run_qps(node);
		take_packets(node, rng_between(&world->host, 1, world->weather.batch));
	} else {
		take_packets(node, rng_between(&world->host, 1, world->weather.batch));
		run_qps(node);
	}
	if (world->weather.has_express)
		settle(node);
	arm_timers(node);
	if (node->rx || node->run_count)
		node_wake(node, 100);
}

void node_wake(struct node *node, uint64_t delay)
{
	struct world *world = node->world;

	if (node->is_awake)
		return;
	node->is_awake = true;
	delay += rng_below(&world->host, world->weather.step_delay + 1);
	world_at(world, world->now + delay, node_step, node, 0);
}

void node_seat(struct node *node, struct qp *qp)
{
	struct seat *seat = world_alloc(node->world, sizeof(*seat));
	uint32_t i;

	*seat = (struct seat){.node = node, .qp = qp, .timer_at = NO_DEADLINE};
	qp->seat = seat;
	for (i = 0; i < node->seat_count && !node->seats[i]->is_dead; i++)
		;
	if (i == node->seat_count)
		node->seat_count++;
	node->seats[i] = seat;
}

void seat_leave(struct qp *qp)
{
	struct seat *seat = qp->seat;
	struct node *node = seat->node;

	seat->is_dead = true;
	for (uint32_t i = 0; i < node->run_count; i++) {
		if (node->run[i] != seat)
			continue;
		memmove(node->run + i, node->run + i + 1,
			(--node->run_count - i) * sizeof(*node->run));
		break;
	}
}

/* ---- making and ending ---- */

static void make_gid(struct node *node, bool is_ipv6)
{
	memset(&node->gid, 0, sizeof(node->gid));
	if (is_ipv6) {
		node->gid.raw[0] = 0xfd;
		node->gid.raw[15] = 1 + node->index;
		return;
	}
	memset(node->gid.raw + 10, 0xff, 2);
	node->gid.raw[12] = 10;
	node->gid.raw[15] = 1 + node->index;
}

void node_make(struct world *world, uint32_t arena_size, bool is_ipv6)
{
	struct node *node = &world->nodes[world->node_count];
	char name[16];

	node->world = world;
	node->index = world->node_count++;
	node->rx_tail = &node->rx;
	node->line_of = node;
	node->run = world_alloc(world, sizeof(*node->run) * MAX_ENDPOINTS * 4);
	node->out.outbox.reserve = net_reserve;
	node->out.outbox.commit = net_commit;
	if (world->weather.has_express) {
		node->out.outbox.reserve_express = net_reserve_express;
		node->out.outbox.commit_express = net_commit_express;
		node->out.outbox.is_along = net_is_along;
		node->out.outbox.has_records = net_has_records;
	}
	node->out.outbox.reserve_run = net_reserve_run;
	node->out.outbox.commit_run = net_commit_run;
	node->out.outbox.takes_sums = node->index % 2;
	node->out.outbox.joins_acks = node->index % 3;
	node->out.node = node;
	snprintf(name, sizeof(name), "sim%d", node->index);
	sim_check(world,
		  !adapter_init(&node->adapter, name, htobe64(0x0200000000000001 + node->index),
				node->index + 1, world->weather.has_offers ? &near_host : &host,
				node),
		  "adapter_init");
	if (node->index % 4)
		node->adapter.socket_bytes =
		    node->index % 4 == 1 ? WINDOW_WIDEST_SOCKET : WINDOW_WIDE_SOCKET;
	make_gid(node, is_ipv6);
	port_set_link(&node->adapter, IBV_PORT_ACTIVE, 9000, 100000);
	port_set_gids(&node->adapter, &node->gid, 1);
	sim_check(world, !pd_create(&node->adapter, &node->pd), "pd_create");
	arena_make(&node->arena, world, node->index, arena_size);
}

void world_make(struct world *world, uint64_t seed, int verbose)
{
	memset(world, 0, sizeof(*world));
	world->seed = seed;
	world->verbose = verbose;
	world->limit = 4000 * SEC;
	rng_seed(&world->link, seed, 1);
	rng_seed(&world->host, seed, 2);
	rng_seed(&world->program, seed, 3);
}

static void node_end(struct node *node)
{
	struct world *world = node->world;

	for (int i = 0; i < POOL_MRS; i++)
		if (node->pool[i])
			sim_check(world, !mr_destroy(node->pool[i]), "mr_destroy");
	if (node->locked)
		sim_check(world, !mr_destroy(node->locked), "mr_destroy");
	if (node->counter_mr)
		sim_check(world, !mr_destroy(node->counter_mr), "mr_destroy");
	if (node->srq.srq)
		sim_check(world, !srq_destroy(node->srq.srq), "srq_destroy: still has users");
	for (int i = 0; i < node->cq_count; i++)
		sim_check(world, !cq_destroy(node->cqs[i].cq), "cq_destroy: still has users");
	sim_check(world, !pd_destroy(node->pd), "pd_destroy: still has users");
	adapter_fini(&node->adapter);
}

void world_end(struct world *world)
{
	struct chunk *chunk = world->memory, *next;
	bool has_failed = world->failure[0];

	for (uint32_t i = 0; i < world->heap_count; i++)
		if (world->heap[i].action == net_arrive)
			free(world->heap[i].subject);
	for (int i = 0; i < world->node_count; i++) {
		struct node *node = &world->nodes[i];
		struct parcel *parcel = node->rx, *after;

		for (; parcel; parcel = after) {
			after = parcel->next;
			free(parcel);
		}
		node->rx = NULL;
		free(node->out.open);
		node->out.open = NULL;
		if (!has_failed)
			node_end(node);
		arena_free(&node->arena);
	}
	world->memory = NULL;
	for (; chunk; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
	free(world->heap);
	world->heap = NULL;
}
