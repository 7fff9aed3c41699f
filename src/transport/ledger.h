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

struct ledger {
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

#endif
