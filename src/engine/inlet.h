/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lane's inlet: a receiving socket that is connected to the peer most of the lane's packets come
 * from, at one of its path ports (udp.h). The kernel prefers it to the group's sockets, finds it
 * without the steering program and spares itself the look-up of the route. It is no member of the
 * group, whose order it would disturb.
 *
 * It gets all that the peer sends from that port, which should be for this lane alone. If it is
 * not, what is others' is passed on as ever, and there is no inlet for that port any more.
 *
 * One a lane, for whom nearly all of 128 batches came from, as long as a quarter of each 1,024 do:
 * a lane that looks at more sockets finds late what comes at the others. What comes counts, not
 * time, so an idle lane does nothing. All under the lane's lock.
 */
#ifndef ENGINE_INLET_H
#define ENGINE_INLET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/patience.h"
#include "engine/exchange.h"
#include "engine/source.h"
#include "link/udp.h"

struct lane;

/* Where packets come from. */
struct caller {
	union ibv_gid gid;
	uint16_t port; /* 0: none */
};

/* What came in at once. */
struct batch {
	struct caller caller; /* who sent the first, if that is known */
	bool is_misled;	      /* some of it was for another lane or process */
	bool is_others;	      /* all of it */
	bool is_turn;	      /* it was one packet, an ACK and a message (exchange.h) */
};

enum { INLET_BANS = 8 };

struct inlet {
	struct source source;
	struct source *parent; /* the group's socket that it relieves; NULL: it is not open */
	struct caller caller;
	bool is_terse;	 /* read by udp_receive_terse(), as long as there is an exchange */
	bool is_apart;	 /* from the sockets that the lane's thread sleeps on */
	uint32_t polled; /* batches that a poller found by it, since it is one of those */
	struct exchange exchange;
	uint32_t used; /* batches of this window that came by it */

	uint32_t batches;	 /* of this window; an inlet that opens begins one */
	struct caller candidate; /* since the last look at who it may be */
	uint32_t votes;		 /* for the candidate, less those against it */

	struct caller banned[INLET_BANS];
	uint32_t bans;
	struct patience patience; /* in looks */
	bool is_off;
};

/* As udp_receive(), from an inlet that is open. */
int inlet_receive(struct lane *lane, udp_deliver deliver, void *data);

/*
 * A batch came in by `source`. An inlet may come or go by that: what then has to be taken in before
 * what follows is. The number of packets.
 */
int inlet_mind(struct lane *lane, struct source *source, const struct batch *batch,
	       udp_deliver deliver, void *data);
void inlet_close(struct lane *lane);

/*
 * A poller has found something by it. If it goes on like that, nobody sleeps on it for now, and the
 * sender's kernel has nobody to tell, which takes a few cache lines for each packet. It is looked
 * at then whenever all sockets are, until inlet_rejoin(), before the thread sleeps: false if that
 * can't be, for want of memory.
 */
void inlet_was_polled(struct lane *lane);
bool inlet_rejoin(struct lane *lane);

/* In the child of a fork: closes the descriptor. */
void inlet_abandon(struct lane *lane);

#endif
