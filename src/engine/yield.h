/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a polling thread does with its core while nothing comes. With more spinning programs than
 * cores it has to let others run, the peer that it waits for above all.
 *
 * It yields. Two programs that share a core and talk by sockets take 8 us a message if they yield
 * after every 4 empty polls and 18 us with 32. Where each has a core of its own and they talk
 * through shared memory, to yield takes longer than the peer. So a yield that somebody used makes
 * the next one come sooner, and one that nobody did, later; ever later, when nobody did for long: a
 * yield costs as much as two looks at a socket.
 *
 * Where the core goes to someone who computes, it is gone for milliseconds, and our share of the
 * time with it. Then it depends on where the peers are:
 *	on other cores	keep ours for as long as the scheduler lets us; they do the same, and while
 *			both run, all goes as ever
 *	on this one	they can't run while we keep it, and to yield is to hand it to whoever
 *			computes, for all of his time: sleep a moment, which gives nothing away
 * Neighbours tell each other where they poll. Of a peer that shares no memory with us nobody says
 * it; but where hardly anything comes while we keep the core, it is here: what its lane's thread
 * sends for it, and what comes once when the core was others'.
 */
#ifndef ENGINE_YIELD_H
#define ENGINE_YIELD_H

#include <stdbool.h>
#include <stdint.h>

enum yield_manner { YIELD_CORE, YIELD_KEEP, YIELD_SLEEP };

/* A thread's. Zeroed at first. */
struct yield {
	uint32_t idle;		   /* spent on empty looks since the last one */
	uint32_t brisk, calm;	   /* how often the wait before one was halved, and doubled */
	uint32_t unused;	   /* in a row, since it was doubled last */
	enum yield_manner manner;  /* until then, and YIELD_CORE after that */
	bool has_found;		   /* something, since it was time last */
	uint32_t found;		   /* how often, while the core is kept, */
	uint32_t scarce;	   /* and in how many such times in a row that was hardly ever */
	uint64_t until, sleep_for; /* the last time of sleeps */
};

/* So much was spent on looking and nothing was found: whether it is time. */
bool yield_is_due(const struct yield *yield);

/* It was time, */
void yield_again(struct yield *yield);

/* or something was found, */
void yield_found(struct yield *yield);

/* or it was time, and the core was kept. */
void yield_kept(struct yield *yield);

enum yield_manner yield_manner(const struct yield *yield, uint64_t now);

/* Of a YIELD_CORE: how long the core was gone. */
bool yield_was_long(uint64_t took);
void yield_learn(struct yield *yield, uint64_t now, uint64_t took, bool has_peers_here);

enum { YIELD_SLEEP_NS = 50000 };

#endif
