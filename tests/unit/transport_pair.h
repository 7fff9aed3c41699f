/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two adapters and the packets between them, for tests of single exchanges: everything is
 * deterministic, packets lie in one queue in the order they were sent, and each leaves a line in a
 * trace, so that a test can say what must go over the wire: "A SEND_ONLY 100 ack" is sender,
 * operation, PSN from the sender's start, AckReq; "B ACK 0" an acknowledgement; "A express 1 ACK 0"
 * a record of the express path, with what it brings. Tests lose, double and change packets by way
 * of `meddle`.
 */
#ifndef TRANSPORT_PAIR_H
#define TRANSPORT_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "device/adapter.h"
#include "device/cq.h"
#include "device/mr.h"
#include "device/pd.h"
#include "device/qp.h"
#include "device/xrcd.h"
#include "transport/express.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "transport/transport.h"
#include "wire/aeth.h"
#include "wire/parse.h"
#include "wire/psn.h"

#include "../lib/post_plain.h"

enum {
	PAIR_PACKETS = 4096,
	PAIR_BYTES = (64 << 10) + 128,
	PAIR_MEMORY = 1 << 20,
	PAIR_EVENTS = 32,
	PAIR_TRACE = 8192
};

struct flying {
	struct av av;
	size_t size;
	bool is_express;
	_Alignas(uint64_t) uint8_t bytes[PAIR_BYTES]; /* as in a ring */
};

/* What it has, not all of its room, which takes longer than what is tested. */
static inline void flying_copy(struct flying *to, const struct flying *from)
{
	if (to != from)
		memcpy(to, from, offsetof(struct flying, bytes) + from->size);
}

struct pair;

struct side {
	struct outbox outbox; /* first */
	struct pair *pair;
	char name;
	struct adapter adapter;
	struct pd *pd;
	struct cq *cq;
	struct srq *srq;
	struct xrcd *xrcd;
	struct qp *qp;
	struct mr *mr;
	char *memory;
	union ibv_gid gid;
	uint32_t psn; /* of its first request */
	bool is_scheduled, is_open;
	struct av open;
	enum ibv_event_type events[PAIR_EVENTS];
	int event_count;
	uint32_t random;
};

struct pair {
	struct side a, b;
	uint64_t now;
	uint32_t mtu;
	uint32_t room; /* of the outbox, packets until the next turn; UINT32_MAX: endless */
	struct flying *packets;
	uint32_t first, count;
	_Alignas(uint64_t) uint8_t scratch[PAIR_BYTES];
	char trace[PAIR_TRACE];
	/* Returns how many copies arrive; may change the packet. NULL: one. */
	int (*meddle)(struct pair *pair, struct side *from, struct flying *packet);
	int passed;	    /* packets that meddle has seen */
	bool are_strangers; /* neither shows the other that it recovers selectively */
	int glances;	    /* records that did not need the general path */
	int arrivals;	    /* those of them that were plain, */
	bool is_general;    /* nothing is known of what stays: express_beside.c is not to be used */
};

/* What connect_pair() sets; a test changes what it likes before. */
struct pair_options {
	enum ibv_qp_type type; /* of XRC: A sends, B receives with an XRC SRQ */
	enum ibv_mtu mtu;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer, max_rd, max_dest_rd;
	unsigned int access;
	bool sq_sig_all, has_srq;
	bool has_tags; /* B's SRQ matches them */
	bool has_express;
	uint32_t psn_a, psn_b;
	uint32_t cqe;
};

static const struct pair_options default_options = {
    .type = IBV_QPT_RC,
    .mtu = IBV_MTU_1024,
    .timeout = 14,
    .retry_cnt = 7,
    .rnr_retry = 7,
    .min_rnr_timer = 12,
    .max_rd = 4,
    .max_dest_rd = 4,
    .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	      IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_FLUSH_GLOBAL,
    .sq_sig_all = true,
    .psn_a = 100,
    .psn_b = 200,
    .cqe = 256,
};

/* Two that meddle: nothing arrives, and everything comes twice. */
static inline int pair_lose_all(struct pair *pair, struct side *from, struct flying *packet)
{
	(void)pair, (void)from, (void)packet;
	return 0;
}

static inline int pair_double(struct pair *pair, struct side *from, struct flying *packet)
{
	(void)pair, (void)from, (void)packet;
	return 2;
}

static inline struct side *side_of(struct adapter *adapter)
{
	return adapter->host_data;
}

static inline void pair_schedule(struct adapter *adapter, struct qp *qp)
{
	side_of(adapter)->is_scheduled = true;
}

static inline void pair_async_event(struct adapter *adapter, const struct ibv_async_event *event)
{
	struct side *side = side_of(adapter);

	if (side->event_count < PAIR_EVENTS)
		side->events[side->event_count++] = event->event_type;
}

static inline uint32_t pair_random(struct adapter *adapter)
{
	return side_of(adapter)->random = side_of(adapter)->random * 1664525 + 1013904223;
}

static const struct adapter_host pair_host = {
    .schedule = pair_schedule,
    .async_event = pair_async_event,
    .random = pair_random,
};

static inline uint8_t *pair_reserve(struct outbox *outbox, const struct av *av, uint32_t dest_qp,
				    size_t size)
{
	struct side *side = (struct side *)outbox;

	if (!side->pair->room || size > PAIR_BYTES)
		return NULL;
	side->open = *av;
	side->is_open = true;
	return side->pair->scratch;
}

static inline void pair_note(struct pair *pair, const char *format, ...)
{
	size_t used = strlen(pair->trace);
	va_list values;

	va_start(values, format);
	vsnprintf(pair->trace + used, sizeof(pair->trace) - used, format, values);
	va_end(values);
}

static inline void pair_trace_express(struct pair *pair, const struct side *from,
				      const struct express *express)
{
	const struct side *peer = from == &pair->a ? &pair->b : &pair->a;

	pair_note(pair, "%c express%s", from->name,
		  express_flags(express) & EXPRESS_MANY ? " many" : "");
	if (express_flags(express) & EXPRESS_MESSAGE)
		pair_note(pair, " %d", psn_diff(express->psn, from->psn));
	if (express_flags(express) & EXPRESS_ACK)
		pair_note(pair, " ACK %d", psn_diff(express->ack, peer->psn));
	pair_note(pair, "\n");
}

static inline void pair_trace(struct pair *pair, const struct side *from,
			      const struct flying *packet)
{
	struct wire_packet wire;
	const struct side *requester = from;
	const char *name;

	if (packet->is_express) {
		pair_trace_express(pair, from, (const struct express *)packet->bytes);
		return;
	}
	assert_int_equal(wire_parse(&wire, packet->bytes, packet->size), PARSE_OK);
	if (wire.op->flags & OPF_RESPONSE)
		requester = from == &pair->a ? &pair->b : &pair->a;
	name = strchr(wire.op->name, ' ') ? strchr(wire.op->name, ' ') + 1 : wire.op->name;
	if (wire.op->flags & OPF_ACK)
		name = aeth_kind(wire.aeth.syndrome) == AETH_ACK       ? "ACK"
		       : aeth_kind(wire.aeth.syndrome) == AETH_RNR_NAK ? "RNR"
								       : "NAK";
	pair_note(pair, "%c %s", from->name, name);
	if (!strcmp(name, "NAK"))
		pair_note(pair, "%u", aeth_value(wire.aeth.syndrome));
	pair_note(pair, " %d", psn_diff(wire.bth.psn, requester->psn));
	if ((wire.op->flags & OPF_REQUEST) && wire.bth.ack_req)
		pair_note(pair, " ack");
	pair_note(pair, "\n");
}

static inline void pair_commit_as(struct outbox *outbox, size_t size, bool is_express)
{
	struct side *side = (struct side *)outbox;
	struct pair *pair = side->pair;
	struct flying *packet;
	int copies = 1;

	if (!pair->count)
		pair->first = 0; /* memory that was used already */
	packet = &pair->packets[(pair->first + pair->count) % PAIR_PACKETS];
	assert_true(side->is_open);
	side->is_open = false;
	packet->av = side->open;
	packet->size = size;
	packet->is_express = is_express;
	memcpy(packet->bytes, pair->scratch, size);
	if (pair->are_strangers && !is_express)
		packet->bytes[4] &= ~0xf8; /* the signs */
	pair_trace(pair, side, packet);
	if (pair->room != UINT32_MAX)
		pair->room--;
	if (pair->meddle)
		copies = pair->meddle(pair, side, packet);
	pair->passed++;
	for (int i = 0; i < copies; i++) {
		flying_copy(&pair->packets[(pair->first + pair->count) % PAIR_PACKETS], packet);
		pair->count++;
		assert_true(pair->count < PAIR_PACKETS);
	}
}

static inline void pair_commit(struct outbox *outbox, size_t size)
{
	pair_commit_as(outbox, size, false);
}

static inline void *pair_reserve_express(struct outbox *outbox, const struct av *av,
					 uint32_t dest_qp, size_t size)
{
	return pair_reserve(outbox, av, dest_qp, size);
}

static inline bool pair_is_along(const struct outbox *outbox, const struct av *av, uint32_t dest_qp)
{
	(void)outbox, (void)av, (void)dest_qp;
	return true;
}

static inline void pair_commit_express(struct outbox *outbox, size_t size)
{
	pair_commit_as(outbox, size, true);
}

static inline void side_init(struct pair *pair, struct side *side, char name,
			     const struct pair_options *options)
{
	side->pair = pair;
	side->name = name;
	side->random = (unsigned char)name;
	side->outbox = (struct outbox){.reserve = pair_reserve, .commit = pair_commit};
	if (options->has_express) {
		side->outbox.reserve_express = pair_reserve_express;
		side->outbox.commit_express = pair_commit_express;
		side->outbox.is_along = pair_is_along;
		side->outbox.has_records = pair_is_along;
	}
	side->gid.raw[10] = side->gid.raw[11] = 0xff;
	side->gid.raw[12] = 10;
	side->gid.raw[15] = name;
	assert_int_equal(adapter_init(&side->adapter, "rxe0", name, name, &pair_host, side), 0);
	port_set_link(&side->adapter, IBV_PORT_ACTIVE, 9000, 10000);
	port_set_gids(&side->adapter, &side->gid, 1);
	side->event_count = 0;
	assert_int_equal(pd_create(&side->adapter, &side->pd), 0);
	assert_int_equal(cq_create(&side->adapter, options->cqe, &side->cq), 0);
	side->memory = calloc(1, PAIR_MEMORY);
	assert_int_equal(mr_create(side->pd, side->memory, PAIR_MEMORY, (uintptr_t)side->memory,
				   options->access, &side->mr),
			 0);
}

static inline enum ibv_qp_type side_type(const struct side *side,
					 const struct pair_options *options)
{
	if (options->type != IBV_QPT_XRC_SEND)
		return options->type;
	return side->name == 'A' ? IBV_QPT_XRC_SEND : IBV_QPT_XRC_RECV;
}

static inline struct srq *side_create_xrc_srq(struct side *side)
{
	struct ibv_srq_init_attr_ex init = {
	    .attr = {.max_wr = 16, .max_sge = 4},
	    .comp_mask = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	    .srq_type = IBV_SRQT_XRC,
	    .xrcd = &side->xrcd->ibv,
	    .cq = &side->cq->ibv,
	};
	struct srq *srq;

	assert_int_equal(srq_create_ex(side->pd, &init, &srq), 0);
	return srq;
}

static inline struct srq *side_create_tag_srq(struct side *side)
{
	struct ibv_srq_init_attr_ex init = {
	    .attr = {.max_wr = 16, .max_sge = 4},
	    .comp_mask = IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
	    .srq_type = IBV_SRQT_TM,
	    .cq = &side->cq->ibv,
	    .tm_cap = {.max_num_tags = 64, .max_ops = 8},
	};
	struct srq *srq;

	assert_int_equal(srq_create_ex(side->pd, &init, &srq), 0);
	return srq;
}

static inline void side_create_xrc(struct side *side)
{
	assert_int_equal(xrcd_open(&side->adapter, NULL, XRCD_CREATE, &side->xrcd), 0);
	side->srq = side_create_xrc_srq(side);
}

static inline void side_create_qp(struct side *side, const struct pair_options *options)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 16, .max_sge = 4}};
	struct pd *pd = side->pd;
	struct ibv_qp_init_attr_ex init = {
	    .send_cq = &side->cq->ibv,
	    .recv_cq = &side->cq->ibv,
	    .qp_type = side_type(side, options),
	    .sq_sig_all = options->sq_sig_all,
	    .cap = {.max_send_wr = 64,
		    .max_recv_wr = 64,
		    .max_send_sge = 4,
		    .max_recv_sge = 4,
		    .max_inline_data = 64},
	};

	if (options->has_tags && side->name == 'B') {
		side->srq = side_create_tag_srq(side);
		init.srq = &side->srq->ibv;
	}
	if (options->has_srq) {
		assert_int_equal(srq_create(side->pd, &srq, &side->srq), 0);
		init.srq = &side->srq->ibv;
	}
	if (init.qp_type == IBV_QPT_XRC_RECV) {
		side_create_xrc(side);
		init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
		init.xrcd = &side->xrcd->ibv;
		pd = NULL;
	}
	assert_int_equal(transport_create_qp(pd, &init, &side->qp), 0);
}

static inline int side_modify(struct side *side, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	return transport_modify_qp(side->qp, &attr, IBV_QP_STATE, side->pair->now);
}

static inline void side_to_init(struct side *side, const struct pair_options *options)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = options->access,
				   .qkey = 0x11111111};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		   (options->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);

	assert_int_equal(transport_modify_qp(side->qp, &attr, mask, side->pair->now), 0);
}

static inline void side_to_rtr(struct side *side, const struct side *peer,
			       const struct pair_options *options)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = options->mtu,
	    .dest_qp_num = peer->qp->number,
	    .rq_psn = peer->psn,
	    .max_dest_rd_atomic = options->max_dest_rd,
	    .min_rnr_timer = options->min_rnr_timer,
	    .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = peer->gid, .hop_limit = 64}},
	};
	int mask = IBV_QP_STATE;
	enum ibv_qp_type type = side_type(side, options);

	if (type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	assert_int_equal(transport_modify_qp(side->qp, &attr, mask, side->pair->now), 0);
}

static inline void side_to_rts(struct side *side, const struct pair_options *options)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_RTS,
	    .sq_psn = side->psn,
	    .timeout = options->timeout,
	    .retry_cnt = options->retry_cnt,
	    .rnr_retry = options->rnr_retry,
	    .max_rd_atomic = options->max_rd,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	enum ibv_qp_type type = side_type(side, options);

	if (type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_TIMEOUT;
	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND)
		mask |=
		    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	assert_int_equal(transport_modify_qp(side->qp, &attr, mask, side->pair->now), 0);
}

static inline void pair_connect(struct pair *pair, const struct pair_options *options)
{
	side_to_init(&pair->a, options);
	side_to_init(&pair->b, options);
	side_to_rtr(&pair->a, &pair->b, options);
	side_to_rtr(&pair->b, &pair->a, options);
	side_to_rts(&pair->a, options);
	side_to_rts(&pair->b, options);
}

/* Adapters, memory, CQs, and QPs in RESET. */
static inline struct pair *pair_new(const struct pair_options *options)
{
	struct pair *pair = calloc(1, sizeof(*pair));

	pair->packets = calloc(PAIR_PACKETS, sizeof(*pair->packets));
	pair->now = 1000000;
	pair->room = UINT32_MAX;
	side_init(pair, &pair->a, 'A', options);
	side_init(pair, &pair->b, 'B', options);
	pair->a.psn = options->psn_a;
	pair->b.psn = options->psn_b;
	side_create_qp(&pair->a, options);
	side_create_qp(&pair->b, options);
	return pair;
}

static inline struct pair *pair_connected(const struct pair_options *options)
{
	struct pair *pair = pair_new(options);

	pair_connect(pair, options);
	return pair;
}

static inline void side_free(struct side *side)
{
	qp_unlist(side->qp);
	transport_free_qp(side->qp);
	if (side->srq)
		srq_destroy(side->srq);
	if (side->xrcd)
		assert_int_equal(xrcd_close(side->xrcd), 0);
	mr_destroy(side->mr);
	cq_destroy(side->cq);
	assert_int_equal(pd_destroy(side->pd), 0);
	adapter_fini(&side->adapter);
	free(side->memory);
}

static inline void pair_free(struct pair *pair)
{
	side_free(&pair->a);
	side_free(&pair->b);
	free(pair->packets);
	free(pair);
}

static inline void side_glanced(struct qp *qp, const struct packet *packet, void *data)
{
	struct side *side = data;

	(void)packet;
	transport_time(qp, side->pair->now);
	pair_schedule(&side->adapter, qp);
}

/* What a host remembers is asked anew for each record. */
static inline bool side_arrives(struct side *side, const struct packet *packet)
{
	struct express head;
	struct qp *qp = transport_find_express(&side->adapter, packet, 0, &head);

	if (side->pair->is_general || !qp || !express_may_arrive(qp, packet) ||
	    !express_arrive(qp, &head, packet, cq_take_own(), side->pair->now))
		return false;
	side->pair->arrivals++;
	side_glanced(qp, packet, side);
	return true;
}

static inline void side_receive(struct side *side, const struct flying *flying)
{
	uint8_t *exact = malloc(flying->size); /* so that a sanitizer sees a read behind it */
	struct packet packet = {.bth = exact,
				.length = flying->size,
				.is_express = flying->is_express,
				.sgid = flying->av.sgid,
				.dgid = flying->av.dgid,
				.traffic_class = flying->av.traffic_class | flying->av.ecn,
				.hop_limit = 64};
	struct glance glance = {.now = side->pair->now, .taken = side_glanced, .data = side};

	memcpy(exact, flying->bytes, flying->size);
	if (packet.is_express &&
	    (side_arrives(side, &packet) || transport_glance(&side->adapter, &packet, &glance)))
		side->pair->glances++;
	else
		transport_receive(&side->adapter, &packet, side->pair->now, &side->outbox);
	free(exact);
}

static inline void side_turn(struct side *side)
{
	side->is_scheduled = false;
	if (transport_run(side->qp, side->pair->now, &side->outbox))
		side->is_scheduled = true;
}

/* Packets under way arrive, all of them before anybody has a turn: a batch. */
static inline void pair_deliver(struct pair *pair)
{
	static struct flying packet;
	uint32_t batch = pair->count;

	while (batch--) {
		flying_copy(&packet, &pair->packets[pair->first]);
		pair->first = (pair->first + 1) % PAIR_PACKETS;
		pair->count--;
		if (memcmp(&packet.av.dgid, &pair->a.gid, sizeof(pair->a.gid)) == 0)
			side_receive(&pair->a, &packet);
		else
			side_receive(&pair->b, &packet);
	}
}

/* Until nobody has anything to do at this time. */
static inline void pair_run(struct pair *pair)
{
	for (int i = 0; i < 100000; i++) {
		if (pair->a.is_scheduled)
			side_turn(&pair->a);
		else if (pair->b.is_scheduled)
			side_turn(&pair->b);
		else if (pair->count)
			pair_deliver(pair);
		else
			return;
	}
	fail_msg("the pair never comes to rest");
}

/* On to the next deadline; false if nobody waits for one. */
static inline bool pair_wait(struct pair *pair)
{
	uint64_t a = transport_deadline(pair->a.qp), b = transport_deadline(pair->b.qp);
	uint64_t next = a < b ? a : b;

	if (next == NO_DEADLINE)
		return false;
	if (next > pair->now)
		pair->now = next;
	pair->a.is_scheduled |= a <= pair->now;
	pair->b.is_scheduled |= b <= pair->now;
	pair_run(pair);
	return true;
}

static inline void pair_run_out(struct pair *pair)
{
	pair_run(pair);
	for (int i = 0; i < 1000 && pair_wait(pair); i++)
		continue;
}

static inline struct ibv_sge side_sge(const struct side *side, size_t offset, uint32_t length)
{
	return (struct ibv_sge){(uintptr_t)side->memory + offset, length, side->mr->lkey};
}

static inline void side_post(struct side *side, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	if (!side->pair->is_general)
		wr = post_plain(side->qp, wr, &side->outbox);
	if (wr)
		wr = express_post(side->qp, wr, &side->outbox);
	transport_time(side->qp, side->pair->now);
	if (!wr)
		return;
	assert_int_equal(qp_post_send(side->qp, wr, &bad), 0);
	pair_schedule(&side->adapter, side->qp);
}

static inline void side_post_recv(struct side *side, uint64_t wr_id, size_t offset, uint32_t length)
{
	struct ibv_sge sge = side_sge(side, offset, length);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	if (side->srq)
		assert_int_equal(recv_queue_post(&side->srq->queue, &wr, &bad), 0);
	else
		assert_int_equal(qp_post_recv(side->qp, &wr, &bad), 0);
	pair_schedule(&side->adapter, side->qp);
}

/* A request from the sender's memory at `offset` to or from the same place of the peer's. */
static inline void side_request(struct side *side, enum ibv_wr_opcode opcode, uint64_t wr_id,
				size_t offset, uint32_t length)
{
	const struct side *peer = side == &side->pair->a ? &side->pair->b : &side->pair->a;
	struct ibv_sge sge = side_sge(side, offset, length);
	struct ibv_send_wr wr = {
	    .wr_id = wr_id,
	    .opcode = opcode,
	    .sg_list = &sge,
	    .num_sge = 1,
	    .imm_data = htobe32(0x12345678),
	    .wr.rdma = {.remote_addr = (uintptr_t)peer->memory + offset, .rkey = peer->mr->rkey},
	    .qp_type.xrc.remote_srqn = peer->srq ? srq_wire_number(peer->srq) : 0,
	};

	side_post(side, &wr);
}

static inline void side_atomic(struct side *side, enum ibv_wr_opcode opcode, uint64_t wr_id,
			       size_t to, size_t remote, uint64_t compare_add, uint64_t swap)
{
	const struct side *peer = side == &side->pair->a ? &side->pair->b : &side->pair->a;
	struct ibv_sge sge = side_sge(side, to, 8);
	struct ibv_send_wr wr = {
	    .wr_id = wr_id,
	    .opcode = opcode,
	    .sg_list = &sge,
	    .num_sge = 1,
	    .wr.atomic = {.remote_addr = (uintptr_t)peer->memory + remote,
			  .compare_add = compare_add,
			  .swap = swap,
			  .rkey = peer->mr->rkey},
	    .qp_type.xrc.remote_srqn = peer->srq ? srq_wire_number(peer->srq) : 0,
	};

	side_post(side, &wr);
}

/* The next completion must be this one. */
static inline struct ibv_wc side_expect(struct side *side, uint64_t wr_id,
					enum ibv_wc_status status)
{
	struct cqe cqe = {0};

	assert_int_equal(cq_poll_one(side->cq, &cqe), 0);
	assert_int_equal(cqe.wc.wr_id, wr_id);
	assert_int_equal(cqe.wc.status, status);
	return cqe.wc;
}

static inline void side_expect_none(struct side *side)
{
	struct cqe cqe;

	assert_int_not_equal(cq_poll_one(side->cq, &cqe), 0);
}

static inline bool side_had_event(const struct side *side, enum ibv_event_type type)
{
	for (int i = 0; i < side->event_count; i++)
		if (side->events[i] == type)
			return true;
	return false;
}

static inline void pair_expect_trace(struct pair *pair, const char *expected)
{
	assert_string_equal(pair->trace, expected);
	pair->trace[0] = '\0';
}

static inline void fill(char *to, size_t length, unsigned int seed)
{
	for (size_t i = 0; i < length; i++)
		to[i] = (seed = seed * 1103515245 + 12345) >> 16;
}

/* As both ends have to be when all that the one has sent is done. */
static inline void expect_settled(const struct side *from, const struct side *to)
{
	const struct requester *requester = from->qp->requester;

	assert_int_equal(requester->una, requester->end);
	assert_int_equal(requester->psn, requester->end);
	assert_int_equal(to->qp->responder->psn, requester->end);
	assert_int_equal(requester->ack_deadline, NO_DEADLINE);
	assert_int_equal(requester->current, sq_tail(from->qp));
	assert_int_equal(sq_head(from->qp), sq_tail(from->qp));
	assert_false(to->qp->responder->has_recv);
}

#endif
