/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder's half of what is offered (offer.h): it takes a receive as for the message's first
 * packet, and has its host copy the payload from the sender's memory to its place there. To its
 * sender's memory that is a READ which nobody asked for rights to (adapter.h); so all that holds of
 * those (reach.h), what is withdrawn, and who is waited for, holds of these.
 *
 * Where the sender helps, and is stopped in the midst of that, it is not waited for in one go: the
 * fetch stands, what comes behind it is dropped, and asked for again when it is through.
 */
#ifndef TRANSPORT_FETCH_H
#define TRANSPORT_FETCH_H

#include "device/limits.h"
#include "transport/responder.h"
#include "wire/parse.h"

struct fetch {
	struct wire_packet wire; /* the last of the packets that it stands for, without payload */
	struct reth pieces[MAX_SGE];
	uint32_t count, next; /* pieces; the one at hand */
	uint64_t bytes, done; /* of the offer */
	uint64_t at;	      /* when it goes on */
	bool has_missed;      /* something came behind it */
};

/* An OFFER with the expected PSN. PASS: all of it is in its place; then and with NOT_READY or
 * LATER, responder->fetch says what. DECLINED: nothing has changed, but that a receive is taken. */
enum verdict fetch_begin(struct arrival *arrival);

/* The same of one that was LATER. */
enum verdict fetch_go_on(struct arrival *arrival);

void fetch_drop(struct qp *qp);

/* And nothing behind it is fetched: the places are the program's again. */
void fetch_end(struct qp *qp);

#endif
