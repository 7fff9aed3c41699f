/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When a lane's inlet comes and goes.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/av.h"
#include "engine/inlet.h"
#include "engine/lane.h"
#include "link/udp.h"

enum {
	LOOK = 128,	       /* batches, after which one may come, */
	HOT = LOOK - LOOK / 4, /* with so many votes: seven eighths for, one against */
	WINDOW = 8 * LOOK,     /* and those after which it may go */
	COLD = WINDOW / 4,
	DRAIN_ROUNDS = 1024,
	POLLED = 64, /* batches: to take it out and to put it back are two system calls */
};

static bool is_same_caller(const struct caller *a, const struct caller *b)
{
	return a->port == b->port && gid_is_same(&a->gid, &b->gid);
}

static bool is_open(const struct inlet *inlet)
{
	return inlet->parent;
}

static bool is_banned(const struct inlet *inlet, const struct caller *caller)
{
	for (uint32_t i = 0; i < INLET_BANS; i++)
		if (is_same_caller(&inlet->banned[i], caller))
			return true;
	return false;
}

/* The majority's, if there is one, is the one that is left. */
static void vote(struct inlet *inlet, const struct caller *caller)
{
	if (is_same_caller(&inlet->candidate, caller)) {
		inlet->votes++;
	} else if (inlet->votes) {
		inlet->votes--;
	} else if (caller->port) {
		inlet->candidate = *caller;
		inlet->votes = 1;
	}
}

/* A near port is of one lane, whatever the address. */
static void share_near(struct lane *lane, uint16_t port, bool is_shared)
{
	struct source *source;

	cds_list_for_each_entry (source, &lane->sources, node)
		if (source->near_port == port)
			udp_socket_share(source->fd, is_shared);
}

static int connect_to(struct lane *lane, const struct source *parent, const struct caller *caller,
		      bool is_terse)
{
	uint16_t port = parent->near_port ? parent->near_port : ROCE_PORT;
	int fd;

	if (parent->near_port)
		share_near(lane, port, true);
	fd = udp_socket_connect(&parent->gid, parent->scope, port, &caller->gid, caller->port,
				is_terse);
	if (parent->near_port)
		share_near(lane, port, false);
	return fd;
}

static bool inlet_open(struct lane *lane, struct source *parent, bool is_exchange)
{
	struct inlet *inlet = &lane->inlet;

	inlet->source =
	    (struct source){.gid = parent->gid, .scope = parent->scope, .adapter = parent->adapter};
	inlet->source.fd = connect_to(lane, parent, &inlet->candidate, is_exchange);
	if (inlet->source.fd < 0)
		return false;
	if (lane_add_source(lane, &inlet->source) < 0) {
		close(inlet->source.fd);
		return false;
	}
	inlet->parent = parent;
	inlet->caller = inlet->candidate;
	inlet->is_terse = is_exchange;
	inlet->batches = inlet->used = inlet->polled = 0;
	return true;
}

enum inlet_step {
	INLET_STAYS,
	INLET_OPENED, /* what waits at its parent comes before what it will bring */
	INLET_PARTED, /* nothing more comes by it: to be drained, and closed */
};

static enum inlet_step part(struct inlet *inlet)
{
	udp_socket_disconnect(inlet->source.fd);
	return INLET_PARTED;
}

/* One that is to be terse is another one: what is merged at the moment when it begins to be terse
 * could not be told apart. */
static enum inlet_step review_open(struct inlet *inlet, bool is_exchange)
{
	if (inlet->batches == WINDOW) {
		if (inlet->used < COLD) {
			patience_failed(&inlet->patience);
			return part(inlet);
		}
		patience_worked(&inlet->patience);
	}
	return is_exchange && !inlet->is_terse ? part(inlet) : INLET_STAYS;
}

static enum inlet_step review(struct lane *lane, struct source *source, bool is_exchange)
{
	struct inlet *inlet = &lane->inlet;

	if (is_open(inlet))
		return review_open(inlet, is_exchange);
	if (!patience_is_over(&inlet->patience)) {
		patience_pass(&inlet->patience);
		return INLET_STAYS;
	}
	if (!inlet->candidate.port || inlet->votes < HOT || is_banned(inlet, &inlet->candidate))
		return INLET_STAYS;
	if (inlet_open(lane, source, is_exchange))
		return INLET_OPENED;
	patience_failed(&inlet->patience);
	return INLET_STAYS;
}

/* Marks and merged packets are told again: whoever marks a stream does not do it once. */
static void end_exchange(struct inlet *inlet)
{
	udp_socket_tell(inlet->source.fd, &inlet->source.gid);
	inlet->is_terse = false;
	exchange_ended(&inlet->exchange);
}

/*
 * What is others' says nothing of who talks to us. Without the steering program it may come here
 * for as long as theirs has no inlet, and ours to them.
 */
static enum inlet_step count(struct lane *lane, struct source *source, const struct batch *batch)
{
	struct inlet *inlet = &lane->inlet;
	enum inlet_step step = INLET_STAYS;
	bool goes_on, may_be_terse;

	if (batch->is_others && source != &inlet->source)
		return INLET_STAYS;
	goes_on = exchange_goes_on(&inlet->exchange, batch->is_turn);
	if (inlet->is_terse && !goes_on)
		end_exchange(inlet);
	if (source == &inlet->source) {
		inlet->used++;
		if (batch->is_misled && is_open(inlet)) {
			inlet->banned[inlet->bans++ % INLET_BANS] = inlet->caller;
			return part(inlet);
		}
	} else {
		vote(inlet, &batch->caller);
	}
	if (++inlet->batches % LOOK)
		return INLET_STAYS;
	may_be_terse =
	    exchange_review(&inlet->exchange, LOOK, inlet->is_terse && inlet->batches == WINDOW);
	/* the last one says whose socket an inlet would relieve */
	if (is_open(inlet) || is_same_caller(&inlet->candidate, &batch->caller))
		step = review(lane, source, may_be_terse);
	if (inlet->batches == WINDOW)
		inlet->batches = inlet->used = 0;
	inlet->votes = 0;
	inlet->candidate = (struct caller){.port = 0};
	return step;
}

int inlet_receive(struct lane *lane, udp_deliver deliver, void *data)
{
	const struct inlet *inlet = &lane->inlet;
	const struct source *source = &inlet->source;

	if (!inlet->is_terse)
		return udp_receive(lane->link, source->fd, &source->gid, deliver, data);
	return udp_receive_terse(lane->link, source->fd, &source->gid, &inlet->caller.gid,
				 inlet->caller.port, deliver, data);
}

static int drain(struct lane *lane, const struct source *source, udp_deliver deliver, void *data)
{
	int taken = 0, got;

	for (int round = 0; round < DRAIN_ROUNDS; round++) {
		got = source == &lane->inlet.source
			  ? inlet_receive(lane, deliver, data)
			  : udp_receive(lane->link, source->fd, &source->gid, deliver, data);
		if (got <= 0)
			break;
		taken += got;
	}
	return taken;
}

int inlet_mind(struct lane *lane, struct source *source, const struct batch *batch,
	       udp_deliver deliver, void *data)
{
	int taken = 0;

	if (lane->inlet.is_off)
		return 0;
	switch (count(lane, source, batch)) {
	case INLET_STAYS:
		break;
	case INLET_OPENED:
		taken = drain(lane, source, deliver, data);
		break;
	case INLET_PARTED:
		taken = drain(lane, &lane->inlet.source, deliver, data);
		inlet_close(lane);
	}
	return taken;
}

void inlet_close(struct lane *lane)
{
	struct inlet *inlet = &lane->inlet;

	if (!is_open(inlet))
		return;
	inlet->parent = NULL;
	inlet->is_terse = inlet->is_apart = false;
	lane_remove_source(lane, &inlet->source);
	close(inlet->source.fd);
	inlet->source.fd = -1;
}

void inlet_was_polled(struct lane *lane)
{
	struct inlet *inlet = &lane->inlet;

	if (!is_open(inlet) || inlet->is_apart || ++inlet->polled < POLLED)
		return;
	lane_sleep_not_on(lane, &inlet->source);
	inlet->is_apart = true;
}

bool inlet_rejoin(struct lane *lane)
{
	struct inlet *inlet = &lane->inlet;

	inlet->polled = 0;
	if (inlet->is_apart)
		inlet->is_apart = lane_sleep_on(lane, &inlet->source) < 0;
	return !inlet->is_apart;
}

void inlet_abandon(struct lane *lane)
{
	if (is_open(&lane->inlet))
		close(lane->inlet.source.fd);
}
