/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sender of tests with XRC domains that processes share (helper.h): this process has it, and
 * what it sends goes to SRQs of the helpers.
 */
#ifndef TESTS_VERBS_XRC_SENDER_H
#define TESTS_VERBS_XRC_SENDER_H

#include "helper.h"

static struct end sender;

static inline struct order order(enum order_kind kind, uint32_t number)
{
	struct order made = {.kind = kind, .number = number, .count = number};

	return made;
}

static inline struct order post_order(uint64_t wr_id, uint32_t count, uint32_t length)
{
	struct order made = {.kind = ORDER_POST, .wr_id = wr_id, .count = count, .length = length};

	return made;
}

static inline void create_sender(void)
{
	struct ibv_qp_init_attr_ex attr = {
	    .cap = {.max_send_wr = 256, .max_send_sge = 1, .max_inline_data = 64},
	    .qp_type = IBV_QPT_XRC_SEND,
	    .comp_mask = IBV_QP_INIT_ATTR_PD,
	    .pd = pd,
	};

	end_make_buffer(&sender);
	sender.cq = attr.send_cq = ibv_create_cq(context, 512, NULL, NULL, 0);
	assert_non_null(sender.cq);
	sender.qp = ibv_create_qp_ex(context, &attr);
	assert_non_null(sender.qp);
	qp_init(sender.qp, 0);
}

/* A receiver that is not ready may take long; a message that is lost is sent again seven times. */
static inline void connect_sender(uint32_t dest)
{
	struct ibv_qp_attr rtr = rtr_to_peer(dest), rts = rts_attr();

	rts.timeout = 15;
	rts.retry_cnt = 7;
	rts.rnr_retry = 7;
	assert_int_equal(ibv_modify_qp(sender.qp, &rtr,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					   IBV_QP_DEST_QPN | IBV_QP_RQ_PSN),
			 0);
	assert_int_equal(ibv_modify_qp(sender.qp, &rts,
				       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
					   IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					   IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

static inline void post_to(uint32_t srqn, enum ibv_wr_opcode opcode, struct ibv_sge sge,
			   uint64_t wr_id, uint64_t addr, uint32_t rkey)
{
	struct ibv_send_wr wr = make_send(opcode, &sge);

	wr.wr_id = wr_id;
	wr.imm_data = htobe32(0x1234);
	wr.qp_type.xrc.remote_srqn = srqn;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 5;
	} else if (opcode != IBV_WR_SEND) {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = rkey;
	}
	post_send_wr(&sender, &wr);
}

static inline void send_to(uint32_t srqn, const char *text, uint64_t wr_id)
{
	strcpy(sender.buffer, text);
	post_to(srqn, IBV_WR_SEND, end_sge(&sender, 0, (uint32_t)strlen(text) + 1), wr_id, 0, 0);
}

static inline uint32_t home_qp(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(sender.qp, &attr, IBV_QP_DEST_QPN, &init), 0);
	return attr.dest_qp_num;
}

#endif
