/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Offers of shared memory, and what becomes of them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/neighbours.h"
#include "engine/progress.h"
#include "engine/reachable.h"
#include "engine/state.h"
#include "engine/steer.h"
#include "link/samehost.h"

enum {
	MEET_NS = 200000000,
	LOOK_MS = 20, /* at offers that were not answered */
	MOMENT_NS = 100000,
	TRIES = 50,
	OFFER_FDS = 3,	/* memory, bell, lifeline; and those of the reachable memory */
	ACCEPT_FDS = 1, /* bell; and those */
	SEALS = F_SEAL_SHRINK | F_SEAL_GROW,
};

struct neighbour {
	struct cds_list_head node;
	struct lane *lane;
	struct channel *channel; /* NULL: offered, not accepted yet */
	int lifeline;
	uint32_t slot;

	/* of an offer */
	uint32_t way, number;
	uint64_t deadline;
	void *memory;
};

void neighbours_init(struct neighbours *neighbours)
{
	const char *setting = getenv("VERBATIM_SAMEHOST"), *express = getenv("VERBATIM_EXPRESS");
	const char *assist = getenv("VERBATIM_ASSIST");

	pthread_mutex_init(&neighbours->lock, NULL);
	pthread_cond_init(&neighbours->changed, NULL);
	CDS_INIT_LIST_HEAD(&neighbours->list);
	neighbours->has_express = !express || strcmp(express, "off") != 0;
	neighbours->is_assisted = !assist || strcmp(assist, "off") != 0;
	neighbours->is_off = setting && !strcmp(setting, "off");
	neighbours->are_reachable = !neighbours->is_off && !(setting && !strcmp(setting, "rings"));
}

/* With the lock. The channel is gone, or its lane's. */
static void forget(struct neighbour *neighbour)
{
	cds_list_del(&neighbour->node);
	if (neighbour->lifeline >= 0)
		close(neighbour->lifeline);
	if (neighbour->memory)
		munmap(neighbour->memory, channel_bytes());
	free(neighbour);
}

void neighbours_fini(struct neighbours *neighbours)
{
	struct neighbour *neighbour, *next;

	cds_list_for_each_entry_safe (neighbour, next, &neighbours->list, node)
		forget(neighbour);
	pthread_cond_destroy(&neighbours->changed);
	pthread_mutex_destroy(&neighbours->lock);
}

void neighbours_abandon(struct neighbours *neighbours)
{
	struct neighbour *neighbour;

	cds_list_for_each_entry (neighbour, &neighbours->list, node)
		if (neighbour->lifeline >= 0)
			close(neighbour->lifeline);
}

/* ---- memory ---- */

static void *map(int fd)
{
	void *memory = mmap(NULL, channel_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, channel_bytes(), MADV_DONTFORK);
	return memory;
}

/* Sealed: nobody can take pages away from under who has it mapped. */
static int make_memory(void **memory)
{
	int fd = memfd_create("verbatim", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)channel_bytes()) == 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0) {
		*memory = map(fd);
		if (*memory)
			return fd;
	}
	close(fd);
	return -ENOMEM;
}

static void *take_memory(int fd)
{
	struct stat stat;

	if (fcntl(fd, F_GET_SEALS) != SEALS || fstat(fd, &stat) < 0 ||
	    (size_t)stat.st_size != channel_bytes())
		return NULL;
	return map(fd);
}

/* ---- channels on lanes ---- */

/* The ways of a process with so many lanes that lead to its lane. */
static unsigned int ways_to(uint32_t lane, uint32_t lanes)
{
	unsigned int ways = 0;

	for (uint32_t way = 0; way < SAMEHOST_WAYS; way++)
		if (steer_lane(way, lanes) == lane)
			ways |= 1u << way;
	return ways;
}

static bool is_lanes(uint32_t lanes)
{
	return lanes && lanes <= GROUP_MAX_LANES && !(lanes & (lanes - 1));
}

/* False without memory, and then the channel is closed. */
static bool add(struct lane *lane, struct channel *channel, uint32_t slot, unsigned int ways)
{
	int error = -ENOMEM;

	if (channel) {
		lane_lock(lane);
		error = samehost_add(lane->samehost, channel, slot, ways);
		lane_unlock(lane);
		lane_kick(lane); /* if its thread sleeps, then without the new bell */
	}
	if (error && channel)
		channel_close(channel);
	return !error;
}

static bool has_way(struct lane *lane, uint32_t slot, uint32_t way)
{
	bool has;

	lane_lock(lane);
	has = samehost_has_way(lane->samehost, slot, way);
	lane_unlock(lane);
	return has;
}

/* ---- within the process ---- */

static void meet_lane(struct engine *engine, struct lane *lane, struct lane *other)
{
	uint32_t slot = engine->slot.number;
	unsigned int ways = ways_to(other->index, engine->lane_count);
	void *memory = NULL, *again;
	int fd = make_memory(&memory);

	if (fd < 0)
		return;
	if (other == lane) {
		add(lane, channel_open(memory, CHANNEL_OWN, -1), slot, ways);
	} else if ((again = map(fd))) {
		add(other, channel_open(again, CHANNEL_BELL_LENT, lane->kick_fd), slot,
		    ways_to(lane->index, engine->lane_count));
		add(lane, channel_open(memory, CHANNEL_OFFERED | CHANNEL_BELL_LENT, other->kick_fd),
		    slot, ways);
	} else {
		munmap(memory, channel_bytes());
	}
	close(fd);
}

void neighbours_meet_oneself(struct engine *engine)
{
	if (engine->neighbours.is_off)
		return;
	for (uint32_t i = 0; i < engine->lane_count; i++)
		for (uint32_t j = i; j < engine->lane_count; j++)
			meet_lane(engine, engine->lanes[i], engine->lanes[j]);
}

/* ---- offering ---- */

static struct neighbour *find_offer(struct neighbours *neighbours, const struct lane *lane,
				    uint32_t slot, uint32_t way)
{
	struct neighbour *neighbour;

	cds_list_for_each_entry (neighbour, &neighbours->list, node)
		if (!neighbour->channel && neighbour->lane == lane && neighbour->slot == slot &&
		    neighbour->way == way)
			return neighbour;
	return NULL;
}

/* A mailbox holds ten letters on many machines: its reader gets a moment. */
static int post(struct engine *engine, const struct mail_address *to, const struct meeting *meeting,
		const int *fds, int fd_count)
{
	struct iovec iov = {(void *)meeting, sizeof(*meeting)};
	const struct timespec moment = {.tv_nsec = MOMENT_NS};
	int error, tries = TRIES;

	do {
		error = mail_send(engine->slot.fd, to, &iov, 1, fds, fd_count);
	} while (error == -EAGAIN && tries-- > 0 && nanosleep(&moment, NULL) == 0);
	return error;
}

/* Behind the others, where there are some to give. How many it is then. */
static int add_reachable(const struct engine *engine, int *fds, int count)
{
	if (!reachable_is_open(&engine->reachable))
		return count;
	memcpy(fds + count, engine->reachable.fds, sizeof(engine->reachable.fds));
	return count + REACHABLE_FDS;
}

/* What of the mail's descriptors is behind the others. NULL: nothing, or we don't. */
static struct reach *take_reachable(const struct engine *engine, struct mail *mail, int count,
				    int lifeline)
{
	if (!engine->reachable.directory || mail->fd_count != count + REACHABLE_FDS)
		return NULL;
	return reachable_take(mail->fds + count, lifeline, mail->pid);
}

static bool has_fds(const struct mail *mail, int count)
{
	return mail->fd_count == count || mail->fd_count == count + REACHABLE_FDS;
}

static int send_offer(struct engine *engine, const struct neighbour *neighbour, int memory,
		      int lifeline)
{
	int fds[OFFER_FDS + REACHABLE_FDS] = {memory, neighbour->lane->kick_fd, lifeline};
	struct mail_address to;
	struct meeting meeting;

	meeting_head(&meeting, MEETING_OFFER);
	meeting.lanes = engine->lane_count;
	meeting.question = neighbour->number;
	meeting.lane = neighbour->lane->index;
	meeting.slot = engine->slot.number;
	meeting.way = neighbour->way;
	mail_address_of_slot(neighbour->slot, &to);
	return post(engine, &to, &meeting, fds, add_reachable(engine, fds, OFFER_FDS));
}

/* With the lock. False if nobody is there. */
static bool offer(struct engine *engine, struct lane *lane, uint32_t slot, uint32_t way)
{
	struct neighbour *neighbour = calloc(1, sizeof(*neighbour));
	int line[2] = {-1, -1}, memory, error;

	if (!neighbour)
		return false;
	neighbour->lane = lane;
	neighbour->slot = slot;
	neighbour->way = way;
	neighbour->number = engine->neighbours.offers++;
	neighbour->deadline = lane_now() + MEET_NS;
	neighbour->lifeline = -1;
	memory = make_memory(&neighbour->memory);
	error = memory < 0 ? memory : 0;
	if (!error && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line) < 0)
		error = -errno;
	neighbour->lifeline = line[0];
	if (!error)
		error = send_offer(engine, neighbour, memory, line[1]);
	if (memory >= 0)
		close(memory);
	if (line[1] >= 0)
		close(line[1]);
	cds_list_add_tail(&neighbour->node, &engine->neighbours.list);
	if (error)
		forget(neighbour);
	return !error;
}

/* With the lock. There won't be a channel: what waits for it goes by UDP. */
static void decline(struct neighbours *neighbours, struct lane *lane, uint32_t slot, uint32_t way)
{
	lane_lock(lane);
	samehost_settle(lane->samehost, slot, way);
	lane_unlock(lane);
	pthread_cond_broadcast(&neighbours->changed);
}

/* With the lock. */
static void introduce(struct engine *engine, struct lane *lane, uint32_t slot, uint32_t way)
{
	struct neighbours *neighbours = &engine->neighbours;

	if (has_way(lane, slot, way) || find_offer(neighbours, lane, slot, way))
		return;
	if (slot == engine->slot.number || !offer(engine, lane, slot, way))
		decline(neighbours, lane, slot, way);
}

static bool is_open(struct lane *lane, uint32_t slot, uint32_t way)
{
	bool is;

	lane_lock(lane);
	is = samehost_is_open(lane->samehost, slot, way);
	if (is) {
		lane_run(lane, lane_now()); /* which asks */
		is = samehost_is_open(lane->samehost, slot, way);
	}
	lane_unlock(lane);
	return is;
}

void neighbours_meet(struct engine *engine, struct lane *lane, uint32_t slot, uint32_t way)
{
	struct neighbours *neighbours = &engine->neighbours;

	if (neighbours->is_off || !is_open(lane, slot, way))
		return;
	pthread_mutex_lock(&neighbours->lock);
	while (is_open(lane, slot, way))
		pthread_cond_wait(&neighbours->changed, &neighbours->lock);
	pthread_mutex_unlock(&neighbours->lock);
}

int neighbours_want(struct engine *engine, const struct lane *lane, uint32_t slot, uint32_t way)
{
	struct mail_address to;
	struct meeting meeting;
	struct iovec iov = {&meeting, sizeof(meeting)};

	meeting_head(&meeting, MEETING_INTRODUCE);
	meeting.lane = lane->index;
	meeting.slot = slot;
	meeting.way = way;
	mail_address_of_slot(engine->slot.number, &to);
	return mail_send(engine->slot.fd, &to, &iov, 1, NULL, 0);
}

/* ---- mail ---- */

/* Without a lane: no, thank you. */
static void send_answer(struct engine *engine, const struct meeting *offer, const struct lane *lane,
			const struct mail *mail)
{
	struct meeting meeting;
	int fds[ACCEPT_FDS + REACHABLE_FDS], count = 0;

	if (lane) {
		fds[0] = lane->kick_fd;
		count = add_reachable(engine, fds, ACCEPT_FDS);
	}
	meeting_head(&meeting, MEETING_ACCEPT);
	meeting.lanes = lane ? engine->lane_count : 0;
	meeting.question = offer->question;
	meeting.slot = engine->slot.number;
	meeting.way = offer->way;
	post(engine, &mail->from, &meeting, fds, count);
}

void neighbours_decline(struct engine *engine, uint32_t slot, const struct meeting *offer,
			const struct mail *mail)
{
	struct meeting meeting;

	meeting_head(&meeting, MEETING_ACCEPT);
	meeting.question = offer->question;
	meeting.slot = slot;
	meeting.way = offer->way;
	post(engine, &mail->from, &meeting, NULL, 0);
}

/* The descriptors are the mail's until they are taken out of it. */
static void read_offer(struct engine *engine, const struct meeting *meeting, struct mail *mail)
{
	struct lane *lane = engine->lanes[steer_lane(meeting->way, engine->lane_count)];
	struct neighbour *neighbour = calloc(1, sizeof(*neighbour));
	struct channel *channel = NULL;
	void *memory = NULL;

	if (neighbour && has_fds(mail, OFFER_FDS) && is_lanes(meeting->lanes) &&
	    meeting->lane < meeting->lanes && meeting->slot < QPN_SLOTS)
		memory = take_memory(mail->fds[0]);
	if (memory)
		channel = channel_open(memory, 0, mail->fds[1]);
	if (memory && !channel)
		munmap(memory, channel_bytes());
	if (channel) {
		mail->fds[1] = -1;
		neighbour->lane = lane;
		neighbour->slot = meeting->slot;
		neighbour->channel = channel;
		neighbour->lifeline = mail->fds[2];
		channel_set_reach(channel, neighbour->lifeline,
				  take_reachable(engine, mail, OFFER_FDS, neighbour->lifeline));
	}
	if (!channel ||
	    !add(lane, channel, meeting->slot, ways_to(meeting->lane, meeting->lanes))) {
		free(neighbour);
		send_answer(engine, meeting, NULL, mail);
		return;
	}
	mail->fds[2] = -1;
	cds_list_add_tail(&neighbour->node, &engine->neighbours.list);
	send_answer(engine, meeting, lane, mail);
	pthread_cond_broadcast(&engine->neighbours.changed);
}

/* With the lock. */
static void give_up(struct neighbours *neighbours, struct neighbour *neighbour)
{
	struct lane *lane = neighbour->lane;
	uint32_t slot = neighbour->slot, way = neighbour->way;

	forget(neighbour);
	if (!has_way(lane, slot, way)) /* the other side may have offered one too */
		decline(neighbours, lane, slot, way);
}

static struct neighbour *find_numbered(struct neighbours *neighbours, uint32_t slot,
				       uint32_t number)
{
	struct neighbour *neighbour;

	cds_list_for_each_entry (neighbour, &neighbours->list, node)
		if (!neighbour->channel && neighbour->number == number && neighbour->slot == slot)
			return neighbour;
	return NULL;
}

static void read_acceptance(struct engine *engine, const struct meeting *meeting, struct mail *mail)
{
	struct neighbour *neighbour =
	    find_numbered(&engine->neighbours, meeting->slot, meeting->question);
	struct channel *channel = NULL;

	if (!neighbour)
		return;
	if (has_fds(mail, ACCEPT_FDS) && is_lanes(meeting->lanes))
		channel = channel_open(neighbour->memory, CHANNEL_OFFERED, mail->fds[0]);
	if (channel) {
		mail->fds[0] = -1;
		neighbour->memory = NULL;
		channel_set_reach(channel, neighbour->lifeline,
				  take_reachable(engine, mail, ACCEPT_FDS, neighbour->lifeline));
		if (!add(neighbour->lane, channel, neighbour->slot,
			 ways_to(steer_lane(neighbour->way, meeting->lanes), meeting->lanes)))
			channel = NULL;
	}
	neighbour->channel = channel;
	if (channel)
		pthread_cond_broadcast(&engine->neighbours.changed);
	else
		give_up(&engine->neighbours, neighbour);
}

void neighbours_read(struct engine *engine, const struct meeting *meeting, struct mail *mail)
{
	if (meeting->way >= SAMEHOST_WAYS)
		return;
	if (engine->neighbours.is_off) {
		if (meeting->type == MEETING_OFFER)
			send_answer(engine, meeting, NULL, mail);
		return;
	}
	pthread_mutex_lock(&engine->neighbours.lock);
	if (meeting->type == MEETING_OFFER)
		read_offer(engine, meeting, mail);
	else if (meeting->type == MEETING_ACCEPT)
		read_acceptance(engine, meeting, mail);
	else if (meeting->lane < engine->lane_count && meeting->slot < QPN_SLOTS)
		introduce(engine, engine->lanes[meeting->lane], meeting->slot, meeting->way);
	pthread_mutex_unlock(&engine->neighbours.lock);
}

/* ---- lifelines ---- */

unsigned int neighbours_poll(struct neighbours *neighbours, struct pollfd *fds, unsigned int room,
			     int *timeout_ms)
{
	struct neighbour *neighbour;
	unsigned int count = 0;

	*timeout_ms = -1;
	pthread_mutex_lock(&neighbours->lock);
	cds_list_for_each_entry (neighbour, &neighbours->list, node)
		if (!neighbour->channel)
			*timeout_ms = LOOK_MS;
		else if (count < room)
			fds[count++] = (struct pollfd){neighbour->lifeline, POLLIN, 0};
	pthread_mutex_unlock(&neighbours->lock);
	return count;
}

static struct neighbour *find_lifeline(struct neighbours *neighbours, int lifeline)
{
	struct neighbour *neighbour;

	cds_list_for_each_entry (neighbour, &neighbours->list, node)
		if (neighbour->channel && neighbour->lifeline == lifeline)
			return neighbour;
	return NULL;
}

/* What it sent before it went is taken in first. */
static void part(struct neighbours *neighbours, int lifeline)
{
	struct neighbour *neighbour = find_lifeline(neighbours, lifeline);

	if (!neighbour)
		return;
	lane_lock(neighbour->lane);
	lane_take_near(neighbour->lane);
	samehost_remove(neighbour->lane->samehost, neighbour->channel);
	lane_unlock(neighbour->lane);
	channel_close(neighbour->channel);
	forget(neighbour);
}

void neighbours_polled(struct engine *engine, const struct pollfd *fds, unsigned int count)
{
	struct neighbours *neighbours = &engine->neighbours;
	struct neighbour *neighbour, *next;
	uint64_t now = lane_now();

	pthread_mutex_lock(&neighbours->lock);
	for (unsigned int i = 0; i < count; i++)
		if (fds[i].revents)
			part(neighbours, fds[i].fd);
	cds_list_for_each_entry_safe (neighbour, next, &neighbours->list, node)
		if (!neighbour->channel && neighbour->deadline <= now)
			give_up(neighbours, neighbour);
	pthread_mutex_unlock(&neighbours->lock);
}
