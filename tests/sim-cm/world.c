/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hosts, their network, and time.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

enum { NOBODYS_HOST = 99 };

void world_fail(struct world *world, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	vsnprintf(world->failure, sizeof(world->failure), format, values);
	va_end(values);
	longjmp(world->failed, 1);
}

void world_note(struct world *world, const char *format, ...)
{
	va_list values;

	if (!world->is_verbose)
		return;
	printf("%12.6f ", (double)world->now / SECOND);
	va_start(values, format);
	vprintf(format, values);
	va_end(values);
	putchar('\n');
}

static union ibv_gid gid_of(int host)
{
	union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = (uint8_t)host}};

	return gid;
}

struct cm_path world_path(const struct process *from, int to_host)
{
	return (struct cm_path){.sgid = gid_of(from->host),
				.dgid = gid_of(to_host),
				.hop_limit = 64,
				.is_here = from->host == to_host};
}

/* ---- the network ---- */

static void put(struct world *world, int from, int to, const uint8_t *mad)
{
	struct message *message;

	if (world->message_count == MAX_MESSAGES)
		world_fail(world, "the network is full: a storm");
	message = &world->messages[world->message_count++];
	message->from = from;
	message->to = to;
	message->at = world->now + 1 + rng_below(&world->net, (uint32_t)world->weather.delay);
	memcpy(message->mad, mad, MAD_BYTES);
}

static void carry(struct world *world, int from, int to, const uint8_t *mad)
{
	const struct weather *weather = &world->weather;
	bool is_calm = world->now >= weather->calm_at || from == to;
	struct cm_mad parsed;

	if (!cm_mad_unpack(&parsed, mad, MAD_BYTES))
		world_fail(world, "a message that nobody can read was sent");
	if (!is_calm && rng_chance(&world->net, weather->loss)) {
		world_note(world, "%d -> %d %s lost", from, to,
			   cm_attribute_name(parsed.attribute));
		return;
	}
	put(world, from, to, mad);
	if (!is_calm && rng_chance(&world->net, weather->duplication))
		put(world, from, to, mad);
}

static void send_mad(struct cm *cm, const struct cm_path *path, const uint8_t *mad)
{
	struct process *process = cm->data;

	if (process->is_dead)
		world_fail(process->world, "a dead process sent");
	if (path->dgid.raw[15] != NOBODYS_HOST)
		carry(process->world, process->host, path->dgid.raw[15], mad);
}

static struct process *process_at(struct world *world, int host, uint32_t slot)
{
	struct process *process = slot < SLOTS ? &world->processes[host * SLOTS + (int)slot] : NULL;

	return process && !process->is_dead ? process : NULL;
}

/* What QP 1 does for a process that is gone, as long as its host has another one. */
static void answer_for_nobody(struct world *world, const struct message *message,
			      const struct cm_mad *to)
{
	struct cm_mad mad;
	uint8_t bytes[MAD_BYTES];
	bool has_anybody = false;

	for (uint32_t i = 0; i < SLOTS; i++)
		has_anybody |= process_at(world, message->to, i) != NULL;
	if (!has_anybody || !cm_answer_for_nobody(to, &mad))
		return;
	cm_mad_pack(bytes, &mad);
	carry(world, message->to, message->from, bytes);
}

/* Who knows the numbers of a connection, and sends from another host, moves nothing. */
static void forge(struct world *world, struct process *process, const uint8_t *seen)
{
	static const enum cm_attribute kinds[] = {CM_REJ, CM_DREQ, CM_DREP, CM_RTU, CM_SIDR_REP};
	struct cm_path path = world_path(process, NOBODYS_HOST);
	struct cm_mad mad, forged = {0};
	uint8_t bytes[MAD_BYTES];

	cm_mad_unpack(&mad, seen, MAD_BYTES);
	forged.attribute = kinds[rng_below(&world->net, sizeof(kinds) / sizeof(kinds[0]))];
	forged.local_id = mad.local_id;
	forged.remote_id = mad.remote_id;
	forged.transaction = mad.transaction;
	cm_mad_pack(bytes, &forged);
	cm_receive(&process->cm, &path, bytes, MAD_BYTES, world->now);
}

static void hand(struct world *world, struct process *process, const struct message *message)
{
	struct cm_path path = world_path(process, message->from);

	world->delivered++;
	if (rng_chance(&world->net, world->weather.forgeries))
		forge(world, process, message->mad);
	cm_receive(&process->cm, &path, message->mad, MAD_BYTES, world->now);
}

static void deliver(struct world *world, const struct message *message)
{
	uint32_t slot;
	struct cm_mad mad;

	cm_mad_unpack(&mad, message->mad, MAD_BYTES);
	world_note(world, "%d -> %d %s %08x to %08x", message->from, message->to,
		   cm_attribute_name(mad.attribute), mad.local_id, mad.remote_id);
	if (mad.attribute == CM_REJ && mad.remote_id == 0) {
		for (slot = 0; slot < SLOTS; slot++)
			if (process_at(world, message->to, slot))
				hand(world, process_at(world, message->to, slot), message);
		return;
	}
	if (mad.attribute == CM_REQ || mad.attribute == CM_SIDR_REQ)
		slot = mad.private_data[1]; /* as if its service had a name */
	else if (mad.attribute == CM_SIDR_REP)
		slot = mad.local_id >> CM_ID_SLOT_SHIFT;
	else
		slot = mad.remote_id >> CM_ID_SLOT_SHIFT;
	if (process_at(world, message->to, slot))
		hand(world, process_at(world, message->to, slot), message);
	else
		answer_for_nobody(world, message, &mad);
}

/* ---- processes ---- */

static void tell(struct cm *cm, struct cm_id *id, const struct cm_event *event)
{
	program_event(cm->data, id, event);
}

static uint32_t random_bits(struct cm *cm)
{
	struct process *process = cm->data;

	return (uint32_t)rng_next(&process->world->hosts);
}

static void watch(struct cm *cm, uint32_t slot)
{
	struct process *process = cm->data;

	if (slot >= SLOTS)
		world_fail(process->world, "slot %u is watched", slot);
	process->watches[slot] = true;
	if (process->world->processes[process->host * SLOTS + (int)slot].is_dead)
		world_act(process->world, 0, ACT_NOTICE_DEATH, NULL, process);
}

static const struct cm_host host = {
    .send = send_mad, .event = tell, .random = random_bits, .watch = watch};

void world_kill(struct world *world, struct process *process)
{
	world_note(world, "process %d.%u dies", process->host, process->slot);
	process->is_dead = true;
	process->died_at = world->now;
	world->deaths++;
	cm_fini(&process->cm);
	for (int i = 0; i < PROCESSES; i++) {
		struct process *other = &world->processes[i];

		if (other->host == process->host && !other->is_dead &&
		    other->watches[process->slot])
			cm_peer_died(&other->cm, process->slot, world->now);
	}
}

void world_revive(struct world *world, struct process *process)
{
	world_note(world, "process %d.%u lives again", process->host, process->slot);
	process->is_dead = false;
	memset(process->watches, 0, sizeof(process->watches));
	cm_init(&process->cm, process->slot, &host, process);
}

void world_make(struct world *world, uint64_t seed, bool is_verbose)
{
	memset(world, 0, sizeof(*world));
	world->seed = seed;
	world->is_verbose = is_verbose;
	world->now = SECOND;
	rng_seed(&world->net, seed, 1);
	rng_seed(&world->program, seed, 2);
	rng_seed(&world->hosts, seed, 3);
	world->weather = (struct weather){
	    .loss = rng_chance(&world->net, 3000) ? 0 : rng_below(&world->net, 2000),
	    .duplication = rng_chance(&world->net, 2000) ? 0 : rng_below(&world->net, 2000),
	    .forgeries = rng_chance(&world->net, 5000) ? 0 : rng_below(&world->net, 500),
	    .delay = (1 + rng_below(&world->net, 300)) * MS,
	    .calm_at = UINT64_MAX,
	};
	for (int i = 0; i < PROCESSES; i++) {
		struct process *process = &world->processes[i];

		process->world = world;
		process->host = i / SLOTS;
		process->slot = (uint32_t)(i % SLOTS);
		cm_init(&process->cm, process->slot, &host, process);
	}
}

void world_end(struct world *world)
{
	for (int i = 0; i < PROCESSES; i++)
		if (!world->processes[i].is_dead)
			cm_fini(&world->processes[i].cm);
}

/* ---- time ---- */

void world_act(struct world *world, uint64_t after, enum action_type type, struct end *end,
	       struct process *process)
{
	if (world->action_count == MAX_ACTIONS)
		world_fail(world, "too many actions");
	world->actions[world->action_count++] =
	    (struct action){world->now + after, type, end, process};
}

/* The process whose deadline comes first, if it is one before `next`. */
static bool run_one(struct world *world, uint64_t next)
{
	struct process *first = NULL;
	uint64_t deadline = next;

	for (int i = 0; i < PROCESSES; i++) {
		struct process *process = &world->processes[i];

		if (process->is_dead || cm_deadline(&process->cm) > deadline ||
		    cm_deadline(&process->cm) == UINT64_MAX)
			continue;
		deadline = cm_deadline(&process->cm);
		first = process;
	}
	if (!first)
		return false;
	if (world->now < deadline)
		world->now = deadline;
	cm_run(&first->cm, world->now);
	return true;
}

void world_run(struct world *world, uint64_t until)
{
	for (;;) {
		int message = -1, action = -1;
		uint64_t next = until;

		for (int i = 0; i < world->message_count; i++)
			if (world->messages[i].at < next) {
				next = world->messages[i].at;
				message = i;
			}
		for (int i = 0; i < world->action_count; i++)
			if (world->actions[i].at < next) {
				next = world->actions[i].at;
				action = i;
			}
		if (run_one(world, next))
			continue;
		if (action < 0 && message < 0)
			break;
		world->now = next;
		if (action >= 0) {
			struct action taken = world->actions[action];

			world->actions[action] = world->actions[--world->action_count];
			program_act(world, &taken);
		} else {
			struct message taken = world->messages[message];

			world->messages[message] = world->messages[--world->message_count];
			deliver(world, &taken);
		}
	}
	if (until != UINT64_MAX)
		world->now = until;
}
