/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The nap of a lane's thread while a program polls, by a timer that ends it a while after the
 * poller put it off last. So the thread is not woken as long as the program polls: on a virtual
 * machine to be woken, on the core of who polls, takes 30 to 60 us, and to put it off 10.
 */
#ifndef ENGINE_NAP_H
#define ENGINE_NAP_H

#include <stdatomic.h>
#include <stdint.h>

enum {
	NAP_NS = 1000000,	     /* it ends, if nobody puts it off, */
	NAP_EVERY_NS = NAP_NS,	     /* which is done so often */
	NAP_LONGEST_NS = 2 * NAP_NS, /* and then ends so late */
};

struct nap {
	int fd; /* readable when it is over; -1: not open */
	atomic_ulong put_off_at;
};

/* 0 or -errno. */
int nap_open(struct nap *nap);
void nap_close(struct nap *nap);

/* The thread's. What was left of the last one is forgotten. */
void nap_begin(struct nap *nap, uint64_t now);

/* Any thread's who polls. */
void nap_put_off_now(struct nap *nap, uint64_t now);

static inline void nap_put_off(struct nap *nap, uint64_t now)
{
	if (now >= atomic_load_explicit(&nap->put_off_at, memory_order_relaxed) + NAP_EVERY_NS)
		nap_put_off_now(nap, now);
}

#endif
