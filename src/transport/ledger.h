/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ledger of an XRC_RECV QP whose SRQs are in several processes. Its responder is in one of them
 * at a time, where the SRQ is that packets name, and the ledger, which they share, says what the
 * next one has to know to go on: PSNs, the message in progress, results for duplicates. It is kept
 * up while the responder runs, so that what is acknowledged stands in it even when the process that
 * has the responder is killed.
 */
#ifndef TRANSPORT_LEDGER_H
#define TRANSPORT_LEDGER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/packet.h"
#include "transport/responder.h"
#include "transport/transport.h"

struct ledger {
	/* the home's: */
	atomic_uint
	    holder; /* slot of the process that has the responder, and one more; 0: the home */
	atomic_uint is_opened; /* other processes have the QP open: one of them is the next home */
	atomic_uint terms_at;  /* which of the two is whole */
	struct qp_terms terms[2];
	atomic_uint psn;	/* expected; written last */
	atomic_uint unanswered; /* PSN of the oldest response that is still to leave; else `psn` */
	uint32_t msn, message, srqn, write_rkey;
	uint64_t received, write_va, write_length;
	uint32_t has_told, has_acknowledged;
	uint32_t saved_next, saved_room;
	struct saved_result saved[MAX_RD_ATOMIC];
};

/* The responder's state into the ledger: all of it, or what a request or a response changes. */
void ledger_write(const struct qp *qp, struct ledger *ledger);
void ledger_note(const struct qp *qp, struct ledger *ledger);

/*
 * The responder goes on from the ledger. `is_left`: whoever had it is gone, so that answers it owed
 * are asked for again. What makes no sense there is as good as 0.
 */
void ledger_read(struct qp *qp, const struct ledger *ledger, bool is_left);

/* What the program set, for whoever is the next home. */
void ledger_write_terms(const struct qp *qp, struct ledger *ledger);
/* False if they make no sense. */
bool ledger_read_terms(struct qp *qp, const struct ledger *ledger);

#endif
