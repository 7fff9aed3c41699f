/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The same-host link of one lane: packets between processes of one host, or within a process, go
 * through shared memory. A channel is a ring each way between a lane of ours and one of theirs. The
 * same transport runs over it, without ICRC and, while both sides poll, without a system call.
 *
 * Its outbox is the lane's: what has a channel goes there, all else to the outbox behind it, UDP's.
 * Which it is follows from the address (one of this host's) and the QP number (slot, and the low
 * bits that say the lane); the engine makes the channels.
 *
 * All under the lane's lock, but for what is said otherwise.
 */
#ifndef LINK_SAMEHOST_H
#define LINK_SAMEHOST_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "link/directory.h"
#include "link/reach.h"
#include "transport/packet.h"
#include "transport/reach.h"

struct channel;
struct samehost;

/* QPs of a slot are told apart by so many low bits of their numbers when a way to them is chosen.
 */
enum { SAMEHOST_WAYS = 4 };

static inline uint32_t samehost_way(uint32_t qpn)
{
	return qpn % SAMEHOST_WAYS;
}

/* What a channel needs of shared memory: both directions. */
size_t channel_bytes(void);

enum channel_flags {
	CHANNEL_OFFERED = 1, /* by this end: it sends on the first ring */
	CHANNEL_OWN = 2,     /* both ends are this one: a lane sends to itself, and needs no bell */
	CHANNEL_BELL_LENT = 4,
};

/*
 * A channel over mapped memory (zeroed, channel_bytes()), which becomes its own: channel_close()
 * unmaps it. `bell` is a descriptor, an eventfd, to write to when the other side sleeps; it too
 * becomes the channel's own, unless it is lent. NULL without memory.
 */
struct channel *channel_open(void *memory, unsigned int flags, int bell);
void channel_close(struct channel *channel);

/* A lifeline that hangs up with the other side, and that side's memory where it lets us at it (else
 * NULL), which becomes the channel's own. */
void channel_set_reach(struct channel *channel, int lifeline, struct reach *reach);

/* In the child of a fork: closes descriptors alone; the memory did not come along. */
void channel_abandon(struct channel *channel);

/* That of this lane. `elsewhere` is for all that has no channel; with `is_off` nothing ever has.
 * NULL without memory. */
struct samehost *samehost_open(struct outbox *elsewhere, bool is_off, bool has_express,
			       uint8_t lane);
void samehost_close(struct samehost *samehost); /* with all its channels */
void samehost_abandon(struct samehost *samehost);

struct outbox *samehost_outbox(struct samehost *samehost);

/* An address of this host, on interface `ifindex`. */
void samehost_set_local(struct samehost *samehost, const union ibv_gid *gid, uint32_t ifindex);
bool samehost_is_local(const struct samehost *samehost, const struct av *av);

/* From now on packets of the channel are taken in, its other side may reach our memory, and those
 * to the `ways` (bit mask) of a slot go out on it where they had no channel. */
int samehost_add(struct samehost *samehost, struct channel *channel, uint32_t slot,
		 unsigned int ways);
void samehost_remove(struct samehost *samehost, struct channel *channel);
bool samehost_has_way(const struct samehost *samehost, uint32_t slot, uint32_t way);

/* Whether it is not settled yet if there is a channel. Asks for one, if that was not done. */
bool samehost_is_open(struct samehost *samehost, uint32_t slot, uint32_t way);

/*
 * A slot and a way that there are packets for and no channel yet: someone should make one. There is
 * no room for such packets in the outbox until samehost_add(), or samehost_settle(), which says
 * that there won't be one: so what goes by UDP is not overtaken. False if nothing is wanted.
 */
bool samehost_wanted(struct samehost *samehost, uint32_t *slot, uint32_t *way);
void samehost_settle(struct samehost *samehost, uint32_t slot, uint32_t way);

/* Rings the bells of those who sleep. False if a ring had no room since the last time: try again in
 * some tens of microseconds. */
bool samehost_flush(struct samehost *samehost);

/* All that went to the slot and way through shared memory has been taken in there. */
bool samehost_is_taken(const struct samehost *samehost, uint32_t slot, uint32_t way);

/* Does a part of a WRITE or READ in the memory of the peer's process. REACH_REFUSED where that
 * can't be. */
enum reach_result samehost_reach(struct samehost *samehost,
				 const struct directory_question *question,
				 const struct reach_op *op);

/*
 * The same once more, by what was found then (reach.h) for this QP; zeroed at first, and when the
 * QP changes. REACH_REFUSED where it has to be asked anew.
 */
struct samehost_memo {
	uint64_t channel; /* its number; 0: none */
	struct reach_memo reach;
};

enum reach_result samehost_reach_again(struct samehost *samehost, uint32_t qpn,
				       const struct samehost_memo *memo, const struct reach_op *op);

/* What samehost_reach() has begun and not ended for this QP is asked for no more: it is waited for,
 * if the other side is not stopped in it. */
void samehost_forget_reach(struct samehost *samehost, uint32_t qpn);

/* After samehost_reach(): remembers what that found. */
void samehost_remember(const struct samehost *samehost, const struct directory_question *question,
		       struct samehost_memo *memo);

/* Whether the process of this QP lets us at its memory. */
bool samehost_has_reach(const struct samehost *samehost, uint32_t qpn);

/* A guess: that would be a copy in memory that both have (commons.h). */
bool samehost_is_common(const struct samehost *samehost, uint32_t qpn, uint32_t rkey);

/* For who polls: does its share of what other processes copy from or to our memory, as our
 * directory allows (assist.h). */
bool samehost_assist(struct samehost *samehost, const struct directory *directory);
uint64_t samehost_assists(const struct samehost *samehost);    /* how often that was */
bool samehost_is_asked_again(const struct samehost *samehost); /* by who was helped last */

/* Peers want the lane's thread to do that for a while: until it has answered their calls. On which
 * core one of them is (-1: not known); whether one is in the midst of a copy. Who is busy is called
 * less. */
bool samehost_is_called(const struct samehost *samehost);
int samehost_callers_core(const struct samehost *samehost);
bool samehost_is_caller_at_it(const struct samehost *samehost);
void samehost_answer_calls(struct samehost *samehost, bool is_busy);

/* Whether the thread looks for that all the time, as peers are told. */
void samehost_attend(struct samehost *samehost, bool does);

/*
 * For who has withdrawn something from the directory and waits for those who saw it: whether there
 * is a channel behind the one numbered *channel whose other side is at our memory now, and which;
 * then, whether it still is. The lane's lock is not held in between.
 */
bool samehost_is_reached(const struct samehost *samehost, uint64_t *channel, unsigned int *hazard);
bool samehost_is_still_reached(const struct samehost *samehost, uint64_t channel,
			       unsigned int hazard);

/* Whose packets are: a device of ours by its address, NULL if there is none. */
typedef void *(*samehost_find)(const union ibv_gid *dgid, uint32_t ifindex, void *data);
typedef void (*samehost_deliver)(const struct packet *packet, void *owner, void *data);

/* Of the packets behind the one that samehost_receive() delivers, the next one from 0, if it is
 * there already, and so are those between. */
const uint8_t *samehost_behind(struct samehost *samehost, uint32_t next, size_t *length);

/* Takes packets in, a batch from each channel. Their number. */
unsigned int samehost_receive(struct samehost *samehost, samehost_find find,
			      samehost_deliver deliver, void *data);

/*
 * The same for records of the express path and packets that `accept` takes, as far as such come
 * first in each ring, a batch from each. Their number; *has_left: something is left that is for
 * samehost_receive(). What comes meanwhile, or is more than a batch, is not: the next glance takes
 * that.
 */
enum samehost_taken {
	SAMEHOST_LEFT,
	SAMEHOST_TAKEN,
	SAMEHOST_ENOUGH, /* taken, and all the rest may wait */
};

typedef enum samehost_taken (*samehost_accept)(const struct packet *packet, void *owner,
					       void *data);
unsigned int samehost_glance(struct samehost *samehost, samehost_accept accept, void *data,
			     bool *has_left);

/*
 * The same one by one, on the channel that brought the last: the next record, if it is of the
 * express path (`is_next`: not the first one in a row), whose device its owner is; NULL if there is
 * none. It may be left, as if it had not been taken; else it stays where it is until the release of
 * so many. Then, whether anything has come on any channel.
 */
const struct packet *samehost_take_record(struct samehost *samehost, bool is_next);
void *samehost_owner_of_record(const struct samehost *samehost);
void samehost_leave_record(struct samehost *samehost);
void samehost_release_records(struct samehost *samehost, unsigned int count);
bool samehost_is_empty(const struct samehost *samehost);

/*
 * The channel by which records to a QP leave, once one has: NULL if none has, with these addresses.
 * It stays that until samehost_changes() does, which also says that packets of a channel are from
 * and to the same addresses still. Then one who goes by it needs no more than its room.
 */
unsigned long samehost_changes(const struct samehost *samehost);
struct channel *samehost_find_way(const struct samehost *samehost, const struct av *av,
				  uint32_t dest_qp);
void *samehost_reserve_record(struct channel *way, size_t size); /* NULL: there is none */
void samehost_commit_record(struct samehost *samehost, struct channel *way, size_t size);

/* Whether the other side of a way, or of the last other express record, is awake. If not, it has to
 * be flushed. */
bool samehost_is_heard_by(struct samehost *samehost, struct channel *way);
bool samehost_is_heard(struct samehost *samehost);

/* Something from this very lane. */
bool samehost_has_own_news(const struct samehost *samehost);

/*
 * Who polls, and where: a core, and what tells this thread from those of all processes. The other
 * sides of the channels see what was said last, and may be asked whether another thread polls on
 * the same core.
 */
uint32_t samehost_poller(int cpu, uint32_t slot, uint32_t thread);
void samehost_say_poller(struct samehost *samehost, uint32_t poller);
bool samehost_has_peers_here(const struct samehost *samehost, uint32_t poller);

/* A device goes: `find` is asked anew. */
void samehost_forget(struct samehost *samehost, const void *owner);

/* Before the lane's thread sleeps, and after. False if something came in. */
bool samehost_fall_asleep(struct samehost *samehost);
void samehost_stay_awake(struct samehost *samehost);

#endif
