/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the transport is called: a packet finds its QP, a QP has its turn.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/hot.h"
#include "device/adapter.h"
#include "device/cq.h"
#include "device/mcast.h"
#include "transport/completion.h"
#include "transport/express.h"
#include "transport/fetch.h"
#include "transport/plain.h"
#include "transport/reach.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "transport/unreliable.h"
#include "wire/mtu.h"

/* Rendezvous that wait for the send queue. False without memory. */
static bool make_waiting(const struct ibv_qp_init_attr_ex *attr, struct responder *responder)
{
	if (!responder || attr->qp_type != IBV_QPT_RC || !attr->srq ||
	    srq_of(attr->srq)->type != IBV_SRQT_TM)
		return responder;
	responder->waiting = calloc(MAX_RNDV, sizeof(*responder->waiting));
	return responder->waiting;
}

static void free_halves(struct depot *depot, struct requester *requester,
			struct responder *responder)
{
	if (responder) {
		free(responder->jobs);
		free(responder->saved);
		free(responder->waiting);
	}
	depot_give(depot, responder, sizeof(*responder));
	depot_give(depot, requester, sizeof(*requester));
}

static int create(struct depot *depot, struct pd *pd, struct ibv_qp_init_attr_ex *attr,
		  struct qp **qp)
{
	struct requester *requester = depot_take(depot, sizeof(*requester));
	struct responder *responder = depot_take(depot, sizeof(*responder));
	int error;

	if (!requester || !make_waiting(attr, responder))
		error = refuse(REASON_NO_MEMORY_FOR_QP, NULL);
	else
		error = qp_create(pd, attr, qp);
	if (error) {
		free_halves(depot, requester, responder);
		return error;
	}
	(*qp)->requester = requester;
	(*qp)->responder = responder;
	requester_reset(*qp);
	return 0;
}

int transport_create_qp(struct pd *pd, struct ibv_qp_init_attr_ex *attr, struct qp **qp)
{
	struct adapter *adapter = qp_adapter_of(pd, attr);

	/* without one it is refused */
	return adapter ? create(&adapter->depot, pd, attr, qp) : qp_create(pd, attr, qp);
}

void transport_free_qp(struct qp *qp)
{
	recovery_drop(qp);
	responder_forget_held(qp);
	fetch_drop(qp);
	free_halves(&qp->adapter->depot, qp->requester, qp->responder);
	qp_free(qp);
}

const struct transport_counters *transport_counters(const struct qp *qp)
{
	return &qp->requester->counters;
}

/* 10.3.1: packets are taken from RTR on, errors of the send queue alone included. */
static bool is_receiving(const struct qp *qp)
{
	switch (atomic_load_explicit(&qp->state, memory_order_relaxed)) {
	case IBV_QPS_RTR:
	case IBV_QPS_RTS:
	case IBV_QPS_SQD:
	case IBV_QPS_SQE:
		return true;
	default:
		return false;
	}
}

static bool is_for_type(const struct qp *qp, const struct wire_packet *wire)
{
	if (wire->op->flags & OPF_CNP)
		return true;
	if (wire->op->flags & (OPF_GAPS | OPF_OFFER))
		return qp->type == IBV_QPT_RC;
	switch (qp->type) {
	case IBV_QPT_RC:
		return opcode_transport(wire->bth.opcode) == TRANSPORT_RC;
	case IBV_QPT_XRC_SEND:
		return opcode_transport(wire->bth.opcode) == TRANSPORT_XRC &&
		       (wire->op->flags & OPF_RESPONSE);
	case IBV_QPT_XRC_RECV:
		return opcode_transport(wire->bth.opcode) == TRANSPORT_XRC &&
		       (wire->op->flags & OPF_REQUEST);
	case IBV_QPT_UC:
		return opcode_transport(wire->bth.opcode) == TRANSPORT_UC;
	case IBV_QPT_UD:
		return opcode_transport(wire->bth.opcode) == TRANSPORT_UD;
	default:
		return false;
	}
}

/* 9.6.1.4: a connected QP listens to its peer only. */
static bool is_from_peer(const struct qp *qp, const struct packet *packet)
{
	return qp->type == IBV_QPT_UD || responder_is_from_peer(qp, packet);
}

static bool is_acceptable(struct qp *qp, const struct packet *packet,
			  const struct wire_packet *wire)
{
	if (!is_receiving(qp) || !is_for_type(qp, wire) || !is_from_peer(qp, packet))
		return false;
	if (pkey_is_match(wire->bth.pkey, qp->pkey))
		return true;
	atomic_fetch_add_explicit(&qp->adapter->bad_pkey, 1, memory_order_relaxed);
	return false;
}

/* 11.6.3.1: the first packet in RTR, before the program heard of the connection by other means. */
static void establish(struct qp *qp)
{
	if (qp->has_communicated)
		return;
	qp->has_communicated = true;
	reach_announce(qp);
	if (atomic_load_explicit(&qp->state, memory_order_relaxed) == IBV_QPS_RTR)
		qp_event(qp, IBV_EVENT_COMM_EST);
}

/* An SRQ of another process: the host knows how to get there. */
static bool is_passed_on(struct qp *qp, const struct packet *packet, const struct wire_packet *wire)
{
	const struct adapter_host *host = qp->adapter->host;

	if (qp->type != IBV_QPT_XRC_RECV || qp->line || !host->pass_on || wire->op->flags & OPF_CNP)
		return false;
	establish(qp);
	return host->pass_on(qp, packet, wire->xrceth);
}

static void receive(struct qp *qp, const struct packet *packet, const struct wire_packet *wire,
		    uint64_t now, struct outbox *outbox)
{
	struct arrival arrival = {.qp = qp, .packet = packet, .wire = wire, .now = now};

	if (!is_acceptable(qp, packet, wire)) {
		qp->requester->counters.dropped++;
		return;
	}
	if (is_passed_on(qp, packet, wire))
		return;
	qp->requester->counters.received_packets++;
	qp->requester->counters.received_bytes += packet->length;
	if (wire->op->flags & OPF_CNP) {
		if (!qp_is_reliable(qp))
			pace_confirm(qp, wire->bth.psn);
		else if (qp->type == IBV_QPT_RC)
			congestion_told(qp);
		return;
	}
	if (congestion_is_marked(packet) && qp->type == IBV_QPT_RC)
		congestion_seen(qp, wire, now, outbox);
	if (wire->bth.fecn || wire->bth.becn)
		recovery_sign(qp, &wire->bth);
	if (qp->type != IBV_QPT_UD)
		establish(qp);
	if (qp->type == IBV_QPT_UD)
		ud_receive(&arrival);
	else if (qp->type == IBV_QPT_UC)
		uc_receive(&arrival);
	else if (wire->op->flags & OPF_RESPONSE)
		completer_receive(qp, wire, now);
	else
		responder_receive(&arrival, outbox);
	if (wire->bth.fecn && !qp_is_reliable(qp))
		pace_answer(qp, packet, wire->bth.psn, wire->deth.src_qp, outbox);
}

bool transport_owes(const struct qp *qp)
{
	return qp_is_reliable(qp) && is_receiving(qp) && responder_has_work(qp);
}

bool transport_owes_ack_alone(const struct qp *qp)
{
	const struct responder *responder = qp->responder;

	return transport_owes(qp) && responder->is_owed &&
	       aeth_kind(responder->syndrome) == AETH_ACK && !responder->job_count &&
	       !responder->is_reporting && !responder->waiting_count;
}

bool transport_has_responses(const struct qp *qp)
{
	return qp_is_reliable(qp) && is_receiving(qp) && qp->responder->job_count;
}

bool transport_has_rest(const struct qp *qp)
{
	return qp_is_reliable(qp) && is_receiving(qp) && responder_has_rest(qp);
}

bool transport_is_amid(const struct qp *qp)
{
	return qp->responder->message != MESSAGE_NONE;
}

void transport_part(struct qp *qp, struct outbox *outbox)
{
	if (qp_is_reliable(qp) && is_receiving(qp) && !qp->responder->is_fatal)
		responder_part(qp, outbox);
}

struct multicast {
	const struct packet *packet;
	const struct wire_packet *wire;
	uint64_t now;
	struct outbox *outbox;
};

static void receive_multicast(struct qp *qp, void *data)
{
	const struct multicast *multicast = data;

	if (qp->lane == multicast->packet->lane)
		receive(qp, multicast->packet, multicast->wire, multicast->now, multicast->outbox);
}

enum { FETCH_AHEAD = 3 }; /* ACKs of a record, what they point to */

static bool is_reset(const struct qp *qp)
{
	return atomic_load_explicit(&qp->state, memory_order_relaxed) == IBV_QPS_RESET;
}

static struct qp *find_express(struct adapter *adapter, const struct express *express)
{
	struct qp *qp = adapter_find_qp(adapter, express_qpn(express));

	return qp && is_reset(qp) ? NULL : qp;
}

static bool is_for(const struct qp *qp, uint8_t lane)
{
	return qp && !is_reset(qp) && qp->lane == lane;
}

/* Whose these ACKs are. One after another each of them would wait for its entry in the table, and
 * then for its QP. */
static void find_acked(struct adapter *adapter, const struct express_ack *acks, uint32_t count,
		       struct qp **qps)
{
	for (uint32_t i = 0; i < count; i++)
		adapter_fetch_qp(adapter, acks[i].to & QPN_MASK);
	for (uint32_t i = 0; i < count; i++) {
		qps[i] = adapter_find_qp(adapter, acks[i].to & QPN_MASK);
		if (qps[i])
			express_fetch_qp(qps[i]);
	}
}

/* NULL if it is none of the lane's. */
static struct qp *fetch_acked(struct qp *qp, const struct glance *glance)
{
	if (!is_for(qp, glance->lane))
		return NULL;
	express_fetch_sent(qp);
	return qp;
}

/* What such an ACK leaves for later: the rest, which is in flight, or waits for room. */
static bool has_left_over(const struct qp *qp)
{
	return transport_is_untimed(qp) || transport_waits(qp);
}

static bool glance_at_ack(struct qp *qp, const struct packet *packet, uint16_t pkey, uint32_t psn,
			  struct cq_taking *taking, const struct glance *glance)
{
	if (!qp || !express_take_ack(qp, packet, pkey, psn, taking, glance->now))
		return false;
	if (has_left_over(qp))
		glance->taken(qp, packet, glance->data);
	return true;
}

APART WHOLE static bool glance_at_acks(struct adapter *adapter, const struct packet *packet,
				       const struct express *head, const struct glance *glance)
{
	struct express_ack acks[EXPRESS_ACKS];
	uint32_t count = express_copy_acks(packet, head, acks);
	struct cq_taking *taking = cq_take_own();
	struct qp *qps[EXPRESS_ACKS];

	find_acked(adapter, acks, count, qps);
	for (uint32_t i = 0; i < count + FETCH_AHEAD; i++) {
		uint32_t here = i - FETCH_AHEAD;

		if (i < count)
			qps[i] = fetch_acked(qps[i], glance);
		if (here < count &&
		    !glance_at_ack(qps[here], packet, head->pkey, acks[here].ack, taking, glance))
			return false;
	}
	return count;
}

struct qp *transport_find_express(struct adapter *adapter, const struct packet *packet,
				  uint8_t lane, struct express *head)
{
	struct qp *qp;

	if (packet->length < sizeof(*head))
		return NULL;
	memcpy(head, packet->bth, sizeof(*head));
	if (express_flags(head) & EXPRESS_MANY)
		return NULL;
	qp = adapter_find_qp(adapter, express_qpn(head));
	return is_for(qp, lane) ? qp : NULL;
}

APART WHOLE bool transport_glance(struct adapter *adapter, const struct packet *packet,
				  const struct glance *glance)
{
	struct qp *qp;
	struct express head = {0};

	if (!packet->is_express)
		return unreliable_take(adapter, packet, cq_take_own(), glance->now, glance->outbox);
	qp = transport_find_express(adapter, packet, glance->lane, &head);
	if (!qp)
		return express_flags(&head) & EXPRESS_MANY &&
		       glance_at_acks(adapter, packet, &head, glance);
	if (!express_take(qp, packet, &head, glance->now))
		return false;
	glance->taken(qp, packet, glance->data);
	return true;
}

/* As bytes, for it may be kept as such (hold.h). */
static void receive_packed(struct qp *qp, const struct packet *record, struct wire_packet *wire,
			   uint64_t now, struct outbox *outbox)
{
	uint8_t bytes[HEADER_BYTES_MAX + MTU_BYTES_MAX + 3];
	struct packet packet = *record;
	uint32_t pad = wire_pad(wire->payload_length);
	size_t head;

	head = wire_pack(bytes, wire);
	if (wire->payload_length)
		memcpy(bytes + head, wire->payload, wire->payload_length);
	memset(bytes + head + wire->payload_length, 0, pad);
	packet.is_express = false;
	packet.bth = bytes;
	packet.length = head + wire->payload_length + pad;
	if (wire_parse(wire, packet.bth, packet.length) == PARSE_OK)
		receive(qp, &packet, wire, now, outbox);
}

static void receive_one(struct qp *qp, const struct packet *packet, const struct express *express,
			uint64_t now, struct outbox *outbox)
{
	struct wire_packet wire;
	uint32_t index = 0;

	if (express_take(qp, packet, express, now)) {
		transport_time(qp, now);
		qp->adapter->host->schedule(qp->adapter, qp);
		return;
	}
	if (express_ack_packet(express, &wire))
		receive_packed(qp, packet, &wire, now, outbox);
	while (express_request_packet(express, packet, index++, &wire))
		receive_packed(qp, packet, &wire, now, outbox);
}

/* Of another lane's QP an ACK is lost: who keeps to the rules does not bring it here. */
static void receive_acks(struct adapter *adapter, const struct packet *packet,
			 const struct express *head, uint64_t now, struct outbox *outbox)
{
	uint32_t count = express_count_acks(packet);

	for (uint32_t i = 0; i < count; i++) {
		struct express one = express_ack_at(packet, head, i);
		struct qp *qp = find_express(adapter, &one);

		if (qp && qp->lane == packet->lane)
			receive_one(qp, packet, &one, now, outbox);
		else
			atomic_fetch_add_explicit(&adapter->no_qp, 1, memory_order_relaxed);
	}
}

static struct qp *receive_express(struct adapter *adapter, const struct packet *packet,
				  uint64_t now, struct outbox *outbox)
{
	struct express express = {0};
	struct qp *qp = NULL;

	if (packet->length >= sizeof(express)) {
		memcpy(&express, packet->bth, sizeof(express));
		qp = find_express(adapter, &express);
	}
	if (express_flags(&express) & EXPRESS_MANY) {
		receive_acks(adapter, packet, &express, now, outbox);
		return NULL;
	}
	if (qp)
		receive_one(qp, packet, &express, now, outbox);
	else
		atomic_fetch_add_explicit(&adapter->no_qp, 1, memory_order_relaxed);
	return qp;
}

/* By the pipeline. */
static struct qp *receive_single(struct adapter *adapter, const struct packet *packet, uint64_t now,
				 struct outbox *outbox)
{
	struct wire_packet wire;
	struct multicast multicast = {packet, &wire, now, outbox};
	struct qp *qp;

	if (wire_parse(&wire, packet->bth, packet->length) != PARSE_OK) {
		atomic_fetch_add_explicit(&adapter->bad_packets, 1, memory_order_relaxed);
		return NULL;
	}
	/* 9.6.1.2: a group goes by the multicast QP number, a QP by its own */
	if (gid_is_multicast(&packet->dgid)) {
		if (wire.bth.dest_qp == QPN_MULTICAST)
			mcast_for_each(&adapter->mcast, &packet->dgid, receive_multicast,
				       &multicast);
		return NULL;
	}
	qp = adapter_find_qp(adapter, wire.bth.dest_qp);
	/* In RESET it may be in the table but still in the making, without a requester. */
	if (!qp || atomic_load_explicit(&qp->state, memory_order_relaxed) == IBV_QPS_RESET) {
		atomic_fetch_add_explicit(&adapter->no_qp, 1, memory_order_relaxed);
		return NULL;
	}
	receive(qp, packet, &wire, now, outbox);
	return qp;
}

static struct qp *receive_alone(struct adapter *adapter, const struct packet *packet, uint64_t now,
				struct outbox *outbox)
{
	struct qp *qp = plain_take(adapter, packet, now);

	if (!qp)
		qp = unreliable_take(adapter, packet, NULL, now, outbox);
	return qp ? qp : receive_single(adapter, packet, now, outbox);
}

static struct qp *take_together(struct adapter *adapter, const struct packet *packet, uint64_t now,
				uint32_t *taken)
{
	return opcode_is_middle(packet->bth[0]) ? middle_take(adapter, packet, now, taken)
						: shorts_take(adapter, packet, now, taken);
}

/* What is not taken together goes one by one. */
static struct qp *receive_train(struct adapter *adapter, const struct packet *packet, uint64_t now,
				struct outbox *outbox)
{
	struct packet rest = *packet, single;
	uint32_t taken;
	struct qp *qp;

	do {
		qp = take_together(adapter, &rest, now, &taken);
		if (qp)
			continue;
		single = packet_single(&rest);
		qp = receive_alone(adapter, &single, now, outbox);
		taken = 1;
	} while (packet_pass(&rest, taken));
	return qp;
}

static struct qp *receive_packets(struct adapter *adapter, const struct packet *packet,
				  uint64_t now, struct outbox *outbox)
{
	if (packet->length < BTH_BYTES)
		return receive_single(adapter, packet, now, outbox);
	if (packet->more || opcode_is_middle(packet->bth[0]))
		return receive_train(adapter, packet, now, outbox);
	return receive_alone(adapter, packet, now, outbox);
}

/* An ACK, and what came behind it. */
APART static struct qp *receive_apart(struct adapter *adapter, const struct packet *packet,
				      uint64_t now, struct outbox *outbox)
{
	struct packet rest = *packet, ack;
	uint8_t room[ACK_BYTES];
	struct qp *first, *last;

	ack = packet_part_ack(&rest, room);
	first = receive_alone(adapter, &ack, now, outbox);
	last = receive_packets(adapter, &rest, now, outbox);
	return last ? last : first;
}

/* Together, if both are plain. */
static struct qp *receive_turn(struct adapter *adapter, const struct packet *packet, uint64_t now,
			       struct outbox *outbox)
{
	struct qp *qp = packet->more ? NULL : plain_take(adapter, packet, now);

	return qp ? qp : receive_apart(adapter, packet, now, outbox);
}

struct qp *transport_receive(struct adapter *adapter, const struct packet *packet, uint64_t now,
			     struct outbox *outbox)
{
	if (packet->is_express)
		return receive_express(adapter, packet, now, outbox);
	if (packet->ack)
		return receive_turn(adapter, packet, now, outbox);
	return receive_packets(adapter, packet, now, outbox);
}

struct qp *transport_open(struct adapter *adapter, const struct packet *packet, uint64_t now)
{
	return middle_take(adapter, packet, now, &packet->seal->opened);
}

void transport_receive_for(struct qp *qp, const struct packet *packet, uint64_t now,
			   struct outbox *outbox)
{
	struct wire_packet wire;

	if (wire_parse(&wire, packet->bth, packet->length) == PARSE_OK)
		receive(qp, packet, &wire, now, outbox);
}

/* In flight are so many that nobody waits for a single one: that makes it a stream. */
enum { STREAM_WQES = 8, WAITING_WQES = 32, WAITING_BYTES = 48 << 10 };

bool transport_can_wait(const struct qp *qp)
{
	const struct requester *requester = qp->requester;
	uint32_t tail = sq_tail(qp), head = sq_head(qp), waiting = tail - requester->current;

	return qp_is_reliable(qp) && tail != head && requester->una != requester->psn &&
	       requester->since_ack_req == 0 && requester->current - head >= STREAM_WQES &&
	       waiting < WAITING_WQES &&
	       sq_wqe(&qp->sq, tail - 1)->length * waiting < WAITING_BYTES;
}

/* Moderated CQs have their time from the QPs that complete there. */
static void expire_cqs(const struct qp *qp, uint64_t now)
{
	struct cq *recv_cq = receive_cq(qp);

	if (qp->send_cq)
		cq_expire(qp->send_cq, now);
	if (recv_cq)
		cq_expire(recv_cq, now);
}

/* A long WRITE is on its way, all of it new. */
static bool is_writing(const struct qp *qp)
{
	const struct requester *requester = qp->requester;
	const struct send_wqe *wqe = sq_wqe(&qp->sq, requester->current);

	return transport_waits(qp) && wqe->opcode == IBV_WR_RDMA_WRITE && wqe->length > qp->mtu &&
	       requester->psn == requester->end && !requester->recovery;
}

/*
 * A program that waits in its memory for what a WRITE brings answers with a WRITE, and who waits
 * for that one polls for his own completion first, that is for our ACK, and then no more: he waits
 * in his memory. So our data are there when the ACK is, or his lane's thread has to wake up to take
 * them in. What is one packet has the ACK before it (OPCODE_ACK_AND); what is more has it behind.
 */
static bool acks_behind(const struct qp *qp)
{
	return qp->type == IBV_QPT_RC && qp->requester->is_peer_ours && is_writing(qp) &&
	       (qp->responder->behind_until || qp->requester->una == qp->requester->psn) &&
	       transport_owes_ack_alone(qp);
}

/* The peer's ACK timer runs meanwhile, and so does his look for a lost tail (probe.c). */
enum { BEHIND_NS = 400000 };

static bool run_reply(struct qp *qp, uint64_t now, struct outbox *outbox)
{
	struct responder *responder = qp->responder;
	bool wants_more;

	if (!responder->behind_until)
		responder->behind_until = now + BEHIND_NS;
	wants_more = requester_run(qp, now, outbox);
	if (!is_receiving(qp) || (is_writing(qp) && now < responder->behind_until))
		return wants_more;
	return responder_run(qp, now, outbox) || wants_more;
}

static bool run(struct qp *qp, uint64_t now, struct outbox *outbox)
{
	bool wants_more = false;

	switch (atomic_load_explicit(&qp->state, memory_order_relaxed)) {
	case IBV_QPS_ERR:
		flush_send(qp, now);
		flush_recv(qp, now);
		return false;
	case IBV_QPS_SQE:
		flush_send(qp, now);
		return false;
	case IBV_QPS_RTR:
	case IBV_QPS_RTS:
	case IBV_QPS_SQD:
		if (qp->responder->fetch && now >= qp->responder->fetch->at)
			responder_fetch(qp, now);
		if (acks_behind(qp))
			return run_reply(qp, now, outbox);
		qp->responder->behind_until = 0;
		if (qp_is_reliable(qp))
			wants_more = responder_run(qp, now, outbox);
		return requester_run(qp, now, outbox) || wants_more;
	default:
		return false;
	}
}

bool transport_waits(const struct qp *qp)
{
	return qp->requester->current != sq_tail(qp);
}

bool transport_answers(const struct qp *qp)
{
	return qp->responder->is_owed;
}

bool transport_is_late(const struct qp *qp)
{
	return transport_answers(qp) || transport_waits(qp);
}

bool transport_is_untimed(const struct qp *qp)
{
	const struct requester *requester = qp->requester;

	return requester->is_untimed && requester->una != requester->end;
}

void transport_time(struct qp *qp, uint64_t now)
{
	struct requester *requester = qp->requester;

	if (!requester->is_untimed)
		return;
	requester->is_untimed = false;
	if (requester->una != requester->end)
		retry_start_timer(qp, now);
}

bool transport_run(struct qp *qp, uint64_t now, struct outbox *outbox)
{
	transport_time(qp, now);
	expire_cqs(qp, now);
	if (qp->responder->waiting_count)
		tag_run(qp);
	return run(qp, now, outbox);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t transport_deadline(const struct qp *qp)
{
	const struct requester *requester = qp->requester;
	const struct cq *recv_cq = receive_cq(qp);
	uint64_t deadline = earlier(requester->ack_deadline, requester->rnr_deadline);

	deadline = earlier(deadline, requester->rate_deadline);
	deadline = earlier(deadline, requester->probe.deadline);
	if (qp->responder->fetch)
		deadline = earlier(deadline, qp->responder->fetch->at);
	if (qp->responder->is_owed && qp->responder->behind_until)
		deadline = earlier(deadline, qp->responder->behind_until);
	if (qp->send_cq)
		deadline = earlier(deadline, cq_event_at(qp->send_cq));
	if (recv_cq && recv_cq != qp->send_cq)
		deadline = earlier(deadline, cq_event_at(recv_cq));
	return deadline;
}
