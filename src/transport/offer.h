/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Long SENDs to a process of this host: the requester tells where the payload lies (wire/offer.h)
 * instead of copying it into packets, and the responder fetches it from there (fetch.h). To all
 * else it is RC as ever: the offer has the PSNs of the packets that it stands for, waits its turn
 * among others, finds a receive or an RNR NAK, and is acknowledged.
 *
 * Whatever is not plain goes by packets, which find out what is wrong and say so. The responder
 * declines; and what goes again after a loss, goes as packets.
 */
#ifndef TRANSPORT_OFFER_H
#define TRANSPORT_OFFER_H

#include "transport/requester.h"

enum { OFFER_PART = 1 << 20 }; /* bytes of an offer at most */

/* Whether what comes next of this WQE, which has its PSNs, is to be offered. */
bool offer_may(const struct qp *qp, const struct send_wqe *wqe);

/* Whether a message that could be a record (express.h) is better offered, for all that is known. */
bool offer_is_better(const struct qp *qp, uint64_t length);

/* One of a length that contests are about is about to leave, by either way. */
void offer_contest(struct qp *qp, uint32_t psns);

/* Offers it. SENT also where it has to go by packets: the next step sends those. */
enum sent offer_send(struct qp *qp, struct send_wqe *wqe, uint64_t now, struct outbox *outbox,
		     uint32_t *bytes);

/* What has left so far goes as packets, if it goes again. */
void offer_no_more(struct requester *requester);

/* The peer has declined what is at the head of the queue: that goes again, as packets. */
void offer_declined(struct qp *qp, uint64_t now);

#endif
