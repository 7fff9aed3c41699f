/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tail of what was sent may be lost, and nothing behind it shows that. So when the last packet
 * that asked for an ACK has none after some two round trips, one packet goes again: its answer
 * tells what is missing, of another make's adapter as well (an ACK, a sequence NAK, a response). It
 * is no retry: the ACK timeout says when to give up, and it alone counts.
 *
 * Not within an address, where nothing is lost; not while the peer is not ready (RNR), or the
 * program has limited the rate; and not before a round trip was measured. Nor what is answered with
 * data, unless the peer is known to be ours: Soft-RoCE drops what it still has to send of a READ
 * when part of it is asked for again.
 */
#ifndef TRANSPORT_PROBE_H
#define TRANSPORT_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/packet.h"
#include "transport/rtt.h"

struct qp;

struct probe {
	uint64_t deadline; /* NO_DEADLINE: all that asked for an ACK has it */
	uint32_t until;	   /* PSN behind the last packet that asked for one */
	uint32_t round;	   /* and behind what had left when the last round ended */
	uint32_t again;	   /* PSN; what is before goes for the second time, */
	uint8_t tries;	   /* since the last progress */
	bool is_far;	   /* the peer has another address */
	bool goes_again;   /* `una` has not come to `again` yet */
	bool is_due;
	struct rtt rtt;
	uint64_t again_since; /* when that began */
};

void probe_reset(struct probe *probe);
void probe_start(struct qp *qp);

/* A packet that asks for an ACK, or for answers from this PSN on, has left. */
void probe_asked(struct qp *qp, uint32_t first, uint64_t now);

/* The packet with this PSN is known to have arrived, or its answer is here. */
void probe_arrived(struct qp *qp, uint32_t psn, uint64_t now);

/* `una` has moved; all goes again. */
void probe_progressed(struct qp *qp, uint64_t now);
void probe_drop(struct qp *qp, uint64_t now);

/* The deadline has passed: probe_run() sends what is to go again. False: the outbox is full, or the
 * QP has failed. */
void probe_expire(struct qp *qp);
bool probe_run(struct qp *qp, uint64_t now, struct outbox *outbox);

#endif
