/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What programs do, and what they may be told when.
 */
#include <string.h>

#include "world.h"

static uint64_t some_ms(struct world *world, uint32_t most)
{
	return rng_below(&world->program, most + 1) * MS;
}

static bool maybe(struct world *world, uint32_t share)
{
	return rng_chance(&world->program, share);
}

/* The QP of another connection with the same listener, which it is thereby known to have lost. */
static void take_over(struct pair *pair, const struct pair *other)
{
	pair->active.process = other->active.process;
	pair->listener = other->listener;
	pair->qpn = other->qpn;
}

void program_make(struct world *world)
{
	world->pair_count = 1 + (int)rng_below(&world->program, PAIRS);
	for (int i = 0; i < world->pair_count; i++) {
		struct pair *pair = &world->pairs[i];

		pair->number = i;
		pair->qpn = 0x100 + (uint32_t)i;
		pair->is_sidr = maybe(world, 1500);
		pair->active.process = &world->processes[rng_below(&world->program, PROCESSES)];
		pair->listener = &world->processes[rng_below(&world->program, PROCESSES)];
		pair->refusals = maybe(world, 2000) ? rng_below(&world->program, 7) : 0;
		pair->passive.is_passive = true;
		pair->active.is_sidr = pair->passive.is_sidr = pair->is_sidr;
		if (i && maybe(world, 1000))
			take_over(pair, pair - 1);
		world_act(world, some_ms(world, 5000), ACT_CONNECT, &pair->active, NULL);
	}
	world->has_kills = maybe(world, 3000);
	if (world->has_kills)
		world_act(world, some_ms(world, 15000), ACT_KILL, NULL,
			  &world->processes[rng_below(&world->program, PROCESSES)]);
	if (world->has_kills && maybe(world, 4000))
		world_act(world, some_ms(world, 15000), ACT_KILL, NULL,
			  &world->processes[rng_below(&world->program, PROCESSES)]);
}

static struct pair *pair_of(struct world *world, const struct end *end)
{
	for (int i = 0; i < world->pair_count; i++)
		if (end == &world->pairs[i].active || end == &world->pairs[i].passive)
			return &world->pairs[i];
	world_fail(world, "whose end?");
}

static const char *name_of(struct world *world, const struct end *end)
{
	static char name[40];

	snprintf(name, sizeof(name), "pair %d's %s end", pair_of(world, end)->number,
		 end->is_passive ? "passive" : "active");
	return name;
}

static bool has_gone(const struct end *end)
{
	return end->released || end->killed;
}

/* ---- doing ---- */

static void release(struct world *world, struct end *end)
{
	if (!end->id || end->process->is_dead)
		return;
	world_note(world, "%s lets go in %s", name_of(world, end), cm_state_name(end->id->state));
	cm_release(&end->process->cm, end->id, world->now);
	end->id = NULL;
	end->released = true;
}

static void begin(struct world *world, struct pair *pair)
{
	struct end *end = &pair->active;
	struct cm_path path = world_path(end->process, pair->listener->host);
	uint8_t data[2] = {(uint8_t)pair->number, (uint8_t)pair->listener->slot};
	struct cm_mad mad = {.private_data = data, .private_length = sizeof(data)};
	int error;

	end->id = cm_create(&end->process->cm, &path, end);
	end->began = true;
	if (pair->is_sidr) {
		mad.sidr_req.service_id = SERVICE;
		error = cm_sidr_request(&end->process->cm, end->id, &mad, world->now);
	} else {
		mad.req.service_id = SERVICE;
		mad.req.qpn = pair->qpn;
		error = cm_connect(&end->process->cm, end->id, &mad, world->now);
	}
	if (error)
		world_fail(world, "cm_connect: %d", error);
	if (maybe(world, 800))
		world_act(world, some_ms(world, 2000), ACT_RELEASE, end, NULL);
}

static void answer(struct world *world, struct end *end)
{
	struct cm *cm = &end->process->cm;
	struct cm_mad mad = {0};

	if (end->is_sidr) {
		mad.sidr_rep.status = maybe(world, 8000) ? CM_SIDR_VALID : CM_SIDR_REJECTED;
		end->accepted = mad.sidr_rep.status == CM_SIDR_VALID;
		end->answered_at = world->now;
		if (cm_sidr_reply(cm, end->id, &mad, world->now))
			world_fail(world, "cm_sidr_reply");
		return;
	}
	if (end->id->state != CM_REQ_RCVD)
		return; /* the peer gave up */
	if (maybe(world, 1500)) {
		end->rejected = true;
		cm_reject(cm, end->id, CM_REJ_CONSUMER, NULL, 0, world->now);
		return;
	}
	mad.rep.qpn = 0x200 + (uint32_t)pair_of(world, end)->number;
	end->accepted = true;
	if (cm_accept(cm, end->id, &mad, world->now))
		world_fail(world, "cm_accept");
	if (maybe(world, 500))
		world_act(world, some_ms(world, 500), ACT_DISCONNECT, end, NULL);
}

/* 12.9.8.3.1 */
static void check_qp_is_connected_once(struct world *world, const struct end *end)
{
	const struct pair *own = pair_of(world, end);

	for (int i = 0; i < world->pair_count; i++) {
		const struct pair *pair = &world->pairs[i];

		if (pair != own && pair->qpn == own->qpn && !pair->is_sidr && pair->passive.id &&
		    pair->passive.id->state == CM_ESTABLISHED)
			world_fail(world, "pair %d and pair %d have the same QP", own->number,
				   pair->number);
	}
}

static void connected(struct world *world, struct end *end)
{
	end->connected_at = world->now;
	if (end->is_passive)
		check_qp_is_connected_once(world, end);
	if (maybe(world, 6000))
		world_act(world, some_ms(world, 8000),
			  maybe(world, 7000) ? ACT_DISCONNECT : ACT_RELEASE, end, NULL);
}

static void establish(struct world *world, struct end *end)
{
	struct cm *cm = &end->process->cm;

	if (end->id->state != CM_REP_RCVD)
		return;
	if (maybe(world, 500)) {
		end->rejected = true;
		cm_reject(cm, end->id, CM_REJ_CONSUMER, NULL, 0, world->now);
		return;
	}
	if (cm_establish(cm, end->id, world->now))
		world_fail(world, "cm_establish");
	end->established = true;
	world->established++;
	connected(world, end);
}

void program_act(struct world *world, const struct action *action)
{
	struct end *end = action->end;
	int result;

	if (action->type == ACT_KILL) {
		if (!action->process->is_dead)
			world_kill(world, action->process);
		for (int i = 0; i < world->pair_count; i++)
			for (int e = 0; e < 2; e++) {
				struct pair *pair = &world->pairs[i];

				end = e ? &pair->passive : &pair->active;
				if (end->process == action->process) {
					end->killed = true;
					end->id = NULL;
				}
			}
		if (maybe(world, 5000))
			world_act(world, some_ms(world, 3000), ACT_REVIVE, NULL, action->process);
		return;
	}
	if (action->type == ACT_REVIVE) {
		if (action->process->is_dead)
			world_revive(world, action->process);
		return;
	}
	if (action->type == ACT_NOTICE_DEATH) {
		for (uint32_t slot = 0; slot < SLOTS && !action->process->is_dead; slot++)
			if (world->processes[action->process->host * SLOTS + (int)slot].is_dead)
				cm_peer_died(&action->process->cm, slot, world->now);
		return;
	}
	if (action->type == ACT_CONNECT) {
		if (!end->process->is_dead && !end->killed)
			begin(world, pair_of(world, end));
		return;
	}
	if (!end->id)
		return;
	switch (action->type) {
	case ACT_ANSWER:
		answer(world, end);
		break;
	case ACT_ESTABLISH:
		establish(world, end);
		break;
	case ACT_DISCONNECT:
		result = cm_disconnect(&end->process->cm, end->id, world->now);
		end->disconnected |= result >= 0;
		if (result == 1)
			end->answered_at = world->now;
		break;
	case ACT_RELEASE:
		release(world, end);
		break;
	default:
		break;
	}
}

/* ---- being told ---- */

static void told_request(struct process *process, struct cm_id *id, const struct cm_mad *mad)
{
	struct world *world = process->world;
	struct pair *pair = &world->pairs[mad->private_data[0]];
	struct end *end = &pair->passive;

	if (pair->listener != process)
		world_fail(world, "pair %d: a request to another process", pair->number);
	if (pair->refusals) {
		pair->refusals--;
		pair->refused++;
		if (maybe(world, 5000))
			cm_refuse(&process->cm, id, CM_REJ_INVALID_SERVICE_ID);
		else
			cm_forget(&process->cm, id);
		return;
	}
	if (end->killed) { /* who is there now does not listen */
		cm_refuse(&process->cm, id, CM_REJ_INVALID_SERVICE_ID);
		return;
	}
	/* a rejection is not remembered for ever, should all its copies get lost */
	if (end->requests && (has_gone(end) || end->rejected) &&
	    world->now > end->asked_at + 20 * SECOND) {
		cm_refuse(&process->cm, id, CM_REJ_CONSUMER);
		return;
	}
	end->asked_at = world->now;
	if (end->requests++)
		world_fail(world, "pair %d: a request was told twice", pair->number);
	end->process = process;
	end->id = id;
	end->began = true;
	id->user = end;
	if (maybe(world, 300))
		world_act(world, some_ms(world, 100), ACT_RELEASE, end, NULL);
	world_act(world, maybe(world, 1000) ? some_ms(world, 20000) : some_ms(world, 100),
		  ACT_ANSWER, end, NULL);
}

static void once(struct world *world, struct end *end, unsigned int *count, bool may,
		 const char *what)
{
	if (!may || (*count)++)
		world_fail(world, "%s was told %s%s", name_of(world, end), what,
			   may ? " twice" : " when it cannot be");
}

static bool is_over(const struct end *end)
{
	return end->refused || end->unreachable || end->ended || end->rejected;
}

/* Nobody listens yet: that is tried again a few times before it is told. */
static void check_patience(struct world *world, const struct end *end, const struct cm_mad *mad)
{
	const struct pair *pair = pair_of(world, end);

	if (mad->rej.reason == CM_REJ_INVALID_SERVICE_ID && pair->refused <= CM_REFUSALS &&
	    !world->weather.duplication && !world->has_kills)
		world_fail(world, "pair %d: refused after %u times", pair->number, pair->refused);
}

void program_event(struct process *process, struct cm_id *id, const struct cm_event *event)
{
	struct world *world = process->world;
	struct end *end = id->user;

	if (event->type == CM_EVENT_REQ || event->type == CM_EVENT_SIDR_REQ) {
		told_request(process, id, event->mad);
		return;
	}
	if (!end || end->id != id)
		world_fail(world, "an event %d of an id that was let go", event->type);
	world_note(world, "%s is told %d", name_of(world, end), event->type);
	switch (event->type) {
	case CM_EVENT_REP:
		once(world, end, &end->responses, !end->is_passive && !is_over(end), "of a REP");
		world_act(world, maybe(world, 1000) ? some_ms(world, 10000) : 0, ACT_ESTABLISH, end,
			  NULL);
		break;
	case CM_EVENT_RTU:
		once(world, end, &end->connected, end->is_passive && end->accepted && !is_over(end),
		     "that it is connected");
		connected(world, end);
		break;
	case CM_EVENT_REJ:
		check_patience(world, end, event->mad);
		once(world, end, &end->refused,
		     !is_over(end) && !end->connected && !end->established, "of a rejection");
		break;
	case CM_EVENT_UNREACHABLE:
		once(world, end, &end->unreachable,
		     !is_over(end) && !end->connected && !end->established, "that nobody answers");
		end->ended_at = world->now;
		break;
	case CM_EVENT_DISCONNECTED:
		once(world, end, &end->ended,
		     !is_over(end) &&
			 (end->is_passive ? end->connected || end->disconnected : end->established),
		     "of the end");
		end->ended_at = world->now;
		if (maybe(world, 7000))
			world_act(world, some_ms(world, 3000),
				  maybe(world, 7000) ? ACT_DISCONNECT : ACT_RELEASE, end, NULL);
		break;
	case CM_EVENT_TIMEWAIT_EXIT:
		once(world, end, &end->exits, end->ended, "that it may go");
		break;
	case CM_EVENT_SIDR_REP:
		once(world, end, &end->responses, end->is_sidr && !is_over(end), "of a SIDR_REP");
		break;
	default:
		world_fail(world, "an event that there is not");
	}
}

/* ---- in the end ---- */

/* A host of which nothing is left is silent, as is a manager that does not answer probes; so the
 * peer's has to have answered one before. */
static bool is_missed(struct world *world, const struct end *end, const struct end *peer)
{
	const struct process *first = &world->processes[peer->process->host * SLOTS];
	bool has_anybody = peer->process->host == end->process->host;

	for (int i = 0; i < SLOTS; i++)
		has_anybody |= !first[i].is_dead;
	return peer->killed && !has_anybody &&
	       peer->process->died_at < end->connected_at + 12 * SECOND;
}

/* Where nothing gets lost, who disconnected is told when the peer has. */
static void check_promptness(struct world *world, const struct end *end, const struct end *peer)
{
	if (world->weather.loss == 0 && end->disconnected && peer->answered_at && !has_gone(end) &&
	    end->ended_at > peer->answered_at + world->weather.delay + 1)
		world_fail(world, "%s is told of the answer %.3f s late", name_of(world, end),
			   (double)(end->ended_at - peer->answered_at) / SECOND);
}

static void compare_sidr(struct world *world, const struct pair *pair)
{
	const struct end *a = &pair->active, *p = &pair->passive;

	if (!a->began || has_gone(a))
		return;
	if (!a->responses && !a->unreachable && !p->killed &&
	    !(p->began && !has_gone(p) && !p->accepted))
		world_fail(world, "pair %d: no word of the service", pair->number);
	if (a->unreachable && p->accepted && !p->killed &&
	    p->answered_at + 20 * SECOND < a->ended_at)
		world_fail(world, "pair %d: the answer of the service did not come", pair->number);
}

static void compare(struct world *world, struct pair *pair)
{
	struct end *a = &pair->active, *p = &pair->passive;
	bool a_up = a->established && !a->ended && !a->disconnected;
	bool p_up = p->connected && !p->ended && !p->disconnected;

	if (pair->is_sidr)
		compare_sidr(world, pair);
	if (!a->began || pair->is_sidr)
		return;
	check_promptness(world, a, p);
	check_promptness(world, p, a);
	if (!has_gone(a) && !a->responses && !a->refused && !a->unreachable &&
	    !(p->id && p->id->state == CM_REQ_RCVD))
		world_fail(world, "pair %d: no word of the request", pair->number);
	if (!has_gone(a) && a_up && !(p_up && !has_gone(p)) && !is_missed(world, a, p))
		world_fail(world, "pair %d: the active end is still connected, the passive %s",
			   pair->number,
			   p->killed	 ? "was killed"
			   : p->released ? "was let go"
					 : "is not");
	if (!has_gone(p) && p_up && !(a_up && !has_gone(a)) && !is_missed(world, p, a))
		world_fail(world, "pair %d: the passive end is still connected, the active %s",
			   pair->number,
			   a->killed	 ? "was killed"
			   : a->released ? "was let go"
					 : "is not");
	for (int e = 0; e < 2; e++) {
		struct end *end = e ? p : a;

		if (!has_gone(end) && end->disconnected && !end->ended && !end->refused)
			world_fail(world, "%s disconnected, and was not told", name_of(world, end));
		if (!has_gone(end) && end->ended && !end->exits && end->id->state != CM_DREQ_RCVD)
			world_fail(world, "%s never leaves the time-wait", name_of(world, end));
	}
}

void program_compare(struct world *world)
{
	for (int i = 0; i < world->pair_count; i++)
		compare(world, &world->pairs[i]);
}

void program_release_all(struct world *world)
{
	for (int i = 0; i < world->pair_count; i++) {
		release(world, &world->pairs[i].active);
		release(world, &world->pairs[i].passive);
	}
}
