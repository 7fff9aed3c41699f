/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Selective recovery between two adapters of ours: what was lost goes again, and nothing else. The
 * responder holds what comes behind a gap and tells which (wire/gaps.h); the requester holds
 * responses that come behind a missing one. Which are lost follows from order: something that left
 * later has arrived. There is a `struct recovery` only while something is missing.
 *
 * Other makes never see any of it. What each end is shows by two bits that RoCEv2 has no use for
 * and everybody ignores (9.2, A17): the first requests that ask for an ACK carry FECN, and the ACK
 * of one that knows what is meant carries BECN. Beside them stands which generation it is of, as
 * what its link takes has grown: to one that is older goes what that knows.
 */
#ifndef TRANSPORT_RECOVERY_H
#define TRANSPORT_RECOVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/hold.h"
#include "transport/packet.h"
#include "wire/parse.h"

struct qp;
struct requester;

enum {
	RECOVERY_PSNS = HOLD_PACKETS,
	RECOVERY_SPAN = RECOVERY_PSNS / 2, /* from the oldest to where no new one goes out */
	RECOVERY_TIME_NS = 1024,
	SIGN_TRIES = 32,
};

/* Of ends of ours: what each knows besides what those before it do. 3 bits. */
enum recovery_generation {
	GENERATION_RECOVERS, /* GAPS */
	GENERATION_JOINS,    /* ACK_AND, FILLED */
	GENERATION_FETCHES,  /* OFFER */
	GENERATION_OWN = GENERATION_FETCHES,
};

/* A packet in the order of leaving. */
struct departure {
	uint32_t stamp, psn;
};

struct recovery {
	uint32_t clock;	   /* the stamp of what leaves now; each repair begins another */
	uint32_t until;	   /* PSN: when all before it is acknowledged, this is over */
	uint32_t executed; /* PSN: the peer has done all before it */
	uint32_t settled;  /* of the PSNs in flight, those that are not on the way any more */
	bool is_due;	   /* something is known that recovery_run() has not looked at */
	struct departure request, answer;   /* the last known to have arrived */
	uint8_t arrived[RECOVERY_PSNS / 8]; /* requests that the peer holds */
	uint8_t again[RECOVERY_PSNS / 8];   /* what left more than once */
	uint32_t stamps[RECOVERY_PSNS];	    /* when it left last, in the order of leaving */
	uint32_t times[RECOVERY_PSNS];	    /* and by the clock, in units of RECOVERY_TIME_NS */
	uint64_t now;			    /* at the start of this turn */
	uint64_t paid_until;		    /* until then the oldest goes again for nothing */
};

/* The signs: of a request and of an answer that leave, of a packet that came in. */
void recovery_ask(struct requester *requester, struct bth *bth);
void recovery_reply(const struct qp *qp, struct bth *bth);
void recovery_sign(struct qp *qp, const struct bth *bth);

/* What a packet of the peer's says. False: recover otherwise. */
bool recovery_gaps(struct qp *qp, const struct wire_packet *wire, uint64_t now);
bool recovery_answer(struct qp *qp, const struct wire_packet *wire, uint64_t now);
bool recovery_acknowledge(struct qp *qp, uint32_t psn, uint64_t now);

/* `psns` from `psn` on leave, for the first time or again. */
void recovery_left(struct requester *requester, uint32_t psn, uint32_t psns);

/* `una` has moved. */
void recovery_progressed(struct qp *qp);

/* Sends again what is lost. False: the outbox is full, or the QP has failed. */
bool recovery_run(struct qp *qp, uint64_t now, struct outbox *outbox);

/* All goes again, or nothing more. */
void recovery_drop(struct qp *qp);

#endif
