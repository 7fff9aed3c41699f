/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lane: sockets, a link to send by, a timer queue, QPs and a thread. Whoever holds its lock makes
 * progress: the thread, or the program's threads inside a doorbell or a poll, which only ever try
 * the lock.
 *
 * No wake-up gets lost by this rule: who has work puts it on `posted` or `parcels` and tries the
 * lock; who holds the lock lets go and then looks at both again. One of the two sees the work.
 *
 * The lane's thread is in one of two states. Parked: asleep in epoll on sockets, timer and kicks.
 * Napping, while a program polls: off the sockets, so that packets wake nobody, and until the
 * poller has not put the end of that off for a millisecond or two; it can be called: a poll that
 * may be the last for a while, since the program goes on to wait in its memory, has the next packet
 * wake it, once.
 *
 * A poller is who polls without a gap and without lane_will_sleep() for some time, `patience`. If
 * it then stops, and packets are found to have waited for the end of a nap, patience doubles: a
 * program that waits on memory between polls (for the last byte of a WRITE) soon has a parked
 * thread for good.
 */
#ifndef ENGINE_LANE_H
#define ENGINE_LANE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <urcu/list.h>

#include "base/lines.h"
#include "base/timer.h"
#include "device/adapter.h"
#include "engine/allowances.h"
#include "engine/attendance.h"
#include "engine/calling.h"
#include "engine/inlet.h"
#include "engine/latch.h"
#include "engine/nap.h"
#include "engine/perch.h"
#include "engine/reply.h"
#include "engine/source.h"
#include "engine/turn.h"
#include "engine/vigil.h"
#include "transport/express.h"
#include "transport/packet.h"

struct adapter;
struct channel;
struct cq;
struct engine;
struct lane;
struct parcel;
struct qp;
struct udp_link;

/* A QP's place on its lane. What a message that leaves looks at comes first, in the two cache lines
 * that are asked for ahead. */
struct seat {
	struct lane *lane;
	struct qp *qp;
	struct seat *next;     /* of those `posted` or `ready` */
	atomic_bool is_queued; /* on either */
	/* under the lane's lock */
	bool has_met; /* its peer's process, over shared memory */
	bool is_late, is_untimed;
	bool may_wait; /* among those: for room in a ring, or for what is in flight */
	struct seat *next_late, *next_untimed; /* of what express.c left for later */
	/* whose records it takes plainly, and how it sends such, as was found at so many changes;
	 * NULL: as any others */
	const struct packet *from;
	unsigned long from_changes;
	/* whose message came after the last one of this: never looked at, it may be gone */
	struct express_lines ahead;
	struct channel *way;
	unsigned long way_changes;
	/* the QP of this lane that it is connected to, as it was found at so many changes; no
	 * terms: it is not known */
	unsigned int terms;
	struct qp *peer;
	unsigned long peer_changes;
	/* at so many nothing was in the way of its WRITEs and READs but what each looks at; 0: at
	 * none */
	unsigned long reach_changes;
	struct timer timer;
};

_Static_assert(offsetof(struct seat, ahead) == CACHE_LINE &&
		   offsetof(struct seat, peer) <= EXPRESS_HOST_BYTES,
	       "all of it is asked for");

/* Messages that reached other processes' memory one right after another (reachable.c). */
struct stream {
	uint64_t last_end;   /* of the last one, in time */
	uint64_t packets_to; /* until then they go by packets */
	uint32_t length;
};

enum { LANE_ROOM = ADAPTER_FRAME_ROOM };
enum { LANE_TELL_MAX = 16, LANE_ALIGNMENT = 64 /* lanes share no cache line */ };

struct lane {
	_Alignas(LANE_ALIGNMENT) struct engine *engine;
	uint32_t index;
	struct latch latch;
	_Atomic(pthread_t) holder; /* of the latch; 0: nobody, or one who is about to let go */
	atomic_uint
	    waiting; /* threads that wait for the latch; those who only try leave it to them */

	/* any thread */
	_Atomic(struct seat *) posted;	  /* QPs that have something to do, newest first */
	_Atomic(struct parcel *) parcels; /* packets that came in elsewhere, newest first */
	atomic_uint polls, polls_noted;	  /* up to the last that looked at the clock */
	atomic_uint posts;		  /* doorbells */
	atomic_ulong seen;	    /* when a program last left a verb; 0: it said that it sleeps */
	atomic_ulong seen_sends;    /* system calls until then */
	atomic_ulong polling_since; /* no gap since then */
	atomic_ulong patience;	    /* changed under the lock */
	atomic_ulong poller_since;  /* when has_poller became true */
	atomic_int poller_clock;    /* that of its thread's time */
	atomic_bool has_poller;
	atomic_uint poller; /* which, as the neighbours were told */
	atomic_bool is_kicked;
	atomic_bool is_stopping;
	atomic_bool is_dead; /* in the child of a fork */

	/* under the lock */
	struct seat *ready, **ready_end;      /* to be run, oldest first */
	struct cq *told_later[LANE_TELL_MAX]; /* lane_tell_later() */
	uint32_t tell_count;
	atomic_uint spared; /* looks at the rings alone before the next at a socket; read without */
	bool is_telling_later;
	bool is_answering_later; /* what is ready may wait for the program's next verb */
	uint32_t posts_polled;	 /* `posts` when a poll last found much */
	struct reply reply;
	bool is_awaiting_reply; /* the thread's alone: an ACK waits as long as it lets it */
	struct calling calling;
	struct timer_queue timers;
	uint32_t seats;
	uint8_t *room; /* LANE_ROOM bytes for a frame or a line's message: nothing, without one */
	struct udp_link *link;
	struct samehost *samehost; /* in front of the link: its outbox is the lane's */
	uint64_t flush_at;	   /* packets wait for room in a socket; UINT64_MAX: none do */
	uint64_t armed;		   /* when timer_fd goes off; UINT64_MAX: not */
	struct cds_list_head sources;
	struct cds_list_head branches, dead_lines; /* line.h */
	struct source *hot;			   /* the last that had something */
	bool is_flowing;			   /* and that was its last turn, for the thread */
	struct inlet inlet;
	uint32_t looks;
	uint32_t gsi_psn;
	uint64_t gsi_patient_at; /* until then no MAD waits for room in a mailbox */
	struct stream stream;
	struct allowances allowances;
	uint64_t copied;   /* bytes from or to other processes' memory, since the lock was taken */
	uint64_t unlooked; /* and since a post that copied looked at the sockets */
	bool has_express;
	struct seat *late;    /* QPs that express.c left something to do for */
	struct seat *untimed; /* and those whose ACK timer is to start */
	uint64_t timed_at;    /* when that was done last */
	uint32_t late_count, unanswered;
	struct turn turn;
	struct seat *last_sent; /* NULL: it is gone */
	uint64_t clock;		/* when the lane last looked at it */
	uint64_t looked_at;	/* when its last turn began */

	struct vigil vigil; /* the thread's own */
	struct perch perch; /* the same */
	struct attendance attendance;
	struct nap nap;
	int epoll_fd, kick_fd, timer_fd;
	int call_fd; /* an epoll: sockets that wake the thread once though it naps */
	pthread_t thread;
	bool has_thread;
};

/* With its thread. 0 or a positive errno (noted). */
int lane_open(struct engine *engine, uint32_t index, struct lane **lane);

/* Ends the thread; the lane still works for those who call. */
void lane_stop(struct lane *lane);
void lane_close(struct lane *lane);

/* In the child of a fork: closes the descriptors, touches nothing else. */
void lane_abandon(struct lane *lane);

void lane_lock(struct lane *lane);
bool lane_trylock(struct lane *lane);
/* Lets go, after the work that came in meanwhile. */
void lane_unlock(struct lane *lane);

/* Something came through shared memory: so many looks there go before the next one at a socket, a
 * microsecond, or, where nothing has come by a socket yet, as long as the other end may be away. */
enum { SPARED_LOOKS = 64, SPARED_LOOKS_AT_NONE = 1024 };

static inline void lane_spare(struct lane *lane)
{
	atomic_store_explicit(&lane->spared, lane->hot ? SPARED_LOOKS : SPARED_LOOKS_AT_NONE,
			      memory_order_relaxed);
}

static inline bool lane_is_spared(const struct lane *lane)
{
	return atomic_load_explicit(&lane->spared, memory_order_relaxed);
}

static inline void lane_spare_less(struct lane *lane)
{
	unsigned int spared = atomic_load_explicit(&lane->spared, memory_order_relaxed);

	atomic_store_explicit(&lane->spared, spared - 1, memory_order_relaxed);
}

/* Polls and posts, to know whether there were any: what two threads count at once may be one. The
 * new count. */
static inline unsigned int lane_count(atomic_uint *counter)
{
	unsigned int count = atomic_load_explicit(counter, memory_order_relaxed) + 1;

	atomic_store_explicit(counter, count, memory_order_relaxed);
	return count;
}

/*
 * Between letting go and looking at what came in meanwhile: who put work there first and then did
 * not get the lock must be seen. On x86-64 letting go was this fence (latch.h).
 */
static inline void lane_fence_released(void)
{
#ifdef __x86_64__
	atomic_signal_fence(memory_order_seq_cst);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* The same, but leaves to its caller what came in: lane_has_work() before, lane_has_news() after.
 */
void lane_release(struct lane *lane);
bool lane_has_work(const struct lane *lane);
bool lane_has_copied(const struct lane *lane); /* for microseconds */
bool lane_has_news(const struct lane *lane);

/* Of a QP, on no lane yet; NULL without memory. It goes before the QP does. */
struct seat *seat_make(struct lane *lane, struct qp *qp);
void seat_free(struct seat *seat);

/* The lane's lock is held for these. */
int lane_add_source(struct lane *lane, struct source *source); /* 0 or -errno */
int lane_sleep_on(struct lane *lane, struct source *source);   /* one that was taken out, again */
void lane_sleep_not_on(struct lane *lane, const struct source *source);
void lane_remove_source(struct lane *lane, struct source *source);
int lane_add_seat(struct lane *lane, struct seat *seat); /* 0 or -ENOMEM */
void lane_remove_seat(struct lane *lane, struct seat *seat);

/* Throws away parcels of an adapter that goes. */
void lane_purge(struct lane *lane, const struct adapter *adapter);

/* The QP has something to do: at once if the lane is free, else soon. Any thread, with or without
 * the lock. */
void lane_schedule(struct lane *lane, struct seat *seat);
void lane_doorbell(struct lane *lane, struct seat *seat);

/* Progress by a program's thread, that polls the CQ or (NULL) looks for events. True if something
 * happened; `spent` grows by what looking took, in looks at shared memory. */
enum { LANE_SOCKET_LOOK = 16 }; /* a look at a socket, in that unit */
bool lane_poll(struct lane *lane, struct cq *cq, unsigned int *spent);

/* Takes in all that has come, or waits until who is at it has. True if there was something. */
bool lane_catch_up(struct lane *lane);
void lane_will_sleep(struct lane *lane);

/* For those who share cores (yield.h): says to the neighbours which thread polls this lane and
 * where, and asks whether a thread of theirs polls there. Not if the lane is busy. */
void lane_say_poller(struct lane *lane, uint32_t poller);
bool lane_has_peers_here(struct lane *lane, uint32_t poller);

/*
 * What came in from this host is answered before a program that sleeps hears of it: its core may be
 * this one, and who waits for the answer has as long to wait then as the program cares to run.
 * True if the lane will tell the CQ's event when it is let go; the lock may be anybody's.
 */
bool lane_tell_later(struct lane *lane, struct cq *cq);

/* Hands over a copy of a packet. Any thread, the lock not held; dropped when there is no memory. */
void lane_hand_over(struct lane *lane, struct adapter *adapter, const struct packet *packet);

/* Wakes the thread. */
void lane_kick(struct lane *lane);

uint64_t lane_now(void);

#endif
