// SPDX-License-Identifier: BSD-2-Clause
/*
 * A program of the ABI of libibverbs 1.0: every call by its version @IBVERBS_1.0, every struct in
 * the old shape, a message from a QP to itself and back out of the CQ.
 */
#define _GNU_SOURCE /* dlvsym */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dlfcn.h>
#include <time.h>
#include <cmocka.h>
#include "verbs/compat_1_0.h"

/* The offsets that such programs were compiled with, on 64-bit machines. */
#if __SIZEOF_POINTER__ == 8 && defined(__x86_64__)
#define AT(type, member, place) _Static_assert(offsetof(struct type, member) == (place), #member)
AT(context_1_0, ops.poll_cq, 64);
AT(context_1_0, ops.req_notify_cq, 72);
AT(context_1_0, ops.post_srq_recv, 136);
AT(context_1_0, ops.post_send, 176);
AT(context_1_0, ops.post_recv, 184);
AT(context_1_0, cmd_fd, 224);
AT(context_1_0, async_fd, 228);
AT(context_1_0, num_comp_vectors, 232);
AT(mr_1_0, lkey, 20);
AT(mr_1_0, rkey, 24);
AT(cq_1_0, cq_context, 8);
AT(cq_1_0, cqe, 20);
AT(srq_1_0, srq_context, 8);
AT(qp_1_0, qp_context, 8);
AT(qp_1_0, qp_num, 52);
AT(qp_1_0, state, 56);
AT(qp_1_0, qp_type, 60);
AT(qp_init_attr_1_0, cap, 32);
AT(qp_init_attr_1_0, sq_sig_all, 56);
AT(send_wr_1_0, wr_id, 8);
AT(send_wr_1_0, sg_list, 16);
AT(send_wr_1_0, send_flags, 32);
AT(send_wr_1_0, imm_data, 36);
AT(send_wr_1_0, wr, 40);
AT(recv_wr_1_0, sg_list, 16);
AT(recv_wr_1_0, num_sge, 24);
#endif

static void *version_1_0(const char *name)
{
	void *call = dlvsym(RTLD_DEFAULT, name, "IBVERBS_1.0");

	if (!call)
		fail_msg("%s", dlerror());
	assert_ptr_not_equal(call, dlvsym(RTLD_DEFAULT, name, "IBVERBS_1.1"));
	return call;
}

/* Calls NAME@IBVERBS_1.0 with the types given. */
#define CALL(type, name, types) ((type(*) types)version_1_0(#name))

struct program {
	struct device_1_0 **list;
	struct context_1_0 *context;
	struct pd_1_0 *pd;
	struct mr_1_0 *mr;
	struct cq_1_0 *cq;
	struct srq_1_0 *srq;
	struct qp_1_0 *qp;
	union ibv_gid gid;
	char buffer[2][64];
};

/* The loopback device has port 1 and a GID whichever the machine. */
static struct device_1_0 *loopback(struct program *p, int count)
{
	for (int i = 0; i < count; i++) {
		struct context_1_0 *context =
		    CALL(struct context_1_0 *, ibv_open_device, (struct device_1_0 *))(p->list[i]);
		const uint8_t v4[13] = {[10] = 0xff, 0xff, 127};

		if (!context)
			continue;
		for (int g = 0; g < 8; g++)
			if (!CALL(int, ibv_query_gid,
				  (struct context_1_0 *, uint8_t, int, union ibv_gid *))(
				context, 1, g, &p->gid) &&
			    !memcmp(p->gid.raw, v4, sizeof(v4))) {
				p->context = context;
				return p->list[i];
			}
		CALL(int, ibv_close_device, (struct context_1_0 *))(context);
	}
	return NULL;
}

static void modify(struct qp_1_0 *qp, struct ibv_qp_attr attr, int mask)
{
	assert_int_equal(
	    CALL(int, ibv_modify_qp, (struct qp_1_0 *, struct ibv_qp_attr *, int))(qp, &attr, mask),
	    0);
	assert_int_equal(qp->state, attr.qp_state);
}

/* To itself: the destination is its own number. */
static void connect_to_itself(struct program *p, int sgid_index)
{
	struct ibv_ah_attr path = {
	    .grh = {.dgid = p->gid, .hop_limit = 64}, .is_global = 1, .port_num = 1};

	path.grh.sgid_index = (uint8_t)sgid_index;
	modify(p->qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1},
	       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	modify(p->qp,
	       (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = p->qp->qp_num,
				    .ah_attr = path,
				    .max_dest_rd_atomic = 1,
				    .min_rnr_timer = 12},
	       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	modify(p->qp,
	       (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 1},
	       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		   IBV_QP_MAX_QP_RD_ATOMIC);
}

static int index_of_gid(struct program *p)
{
	union ibv_gid gid;

	for (int i = 0; i < 8; i++)
		if (!CALL(int, ibv_query_gid,
			  (struct context_1_0 *, uint8_t, int, union ibv_gid *))(p->context, 1, i,
										 &gid) &&
		    !memcmp(&gid, &p->gid, sizeof(gid)))
			return i;
	return -1;
}

static int open_all(void **state)
{
	static struct program p;
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct qp_init_attr_1_0 attr = {
	    .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC,
	    .sq_sig_all = 1,
	};
	int count = 0;

	*state = &p;
	assert_int_equal(ibv_fork_init(), 0); /* and so the library is linked */
	p.list = CALL(struct device_1_0 **, ibv_get_device_list, (int *))(&count);
	assert_non_null(p.list);
	assert_true(count > 0);
	assert_null(p.list[count]);
	assert_non_null(loopback(&p, count));
	p.pd = CALL(struct pd_1_0 *, ibv_alloc_pd, (struct context_1_0 *))(p.context);
	assert_non_null(p.pd);
	assert_ptr_equal(p.pd->context, p.context);
	p.mr = CALL(struct mr_1_0 *, ibv_reg_mr, (struct pd_1_0 *, void *, size_t, int))(
	    p.pd, p.buffer, sizeof(p.buffer), IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(p.mr);
	p.cq = CALL(struct cq_1_0 *, ibv_create_cq,
		    (struct context_1_0 *, int, void *, struct ibv_comp_channel *, int))(
	    p.context, 8, &p, NULL, 0);
	assert_non_null(p.cq);
	assert_true(p.cq->cqe >= 8);
	assert_ptr_equal(p.cq->cq_context, &p);
	srq_attr.srq_context = &p;
	p.srq = CALL(struct srq_1_0 *, ibv_create_srq,
		     (struct pd_1_0 *, struct ibv_srq_init_attr *))(p.pd, &srq_attr);
	assert_non_null(p.srq);
	assert_ptr_equal(srq_attr.srq_context, &p);
	attr.qp_context = &p;
	attr.send_cq = attr.recv_cq = p.cq;
	attr.srq = p.srq;
	p.qp = CALL(struct qp_1_0 *, ibv_create_qp,
		    (struct pd_1_0 *, struct qp_init_attr_1_0 *))(p.pd, &attr);
	assert_non_null(p.qp);
	connect_to_itself(&p, index_of_gid(&p));
	return 0;
}

static int close_all(void **state)
{
	struct program *p = *state;

	assert_int_equal(CALL(int, ibv_destroy_qp, (struct qp_1_0 *))(p->qp), 0);
	assert_int_equal(CALL(int, ibv_destroy_srq, (struct srq_1_0 *))(p->srq), 0);
	assert_int_equal(CALL(int, ibv_destroy_cq, (struct cq_1_0 *))(p->cq), 0);
	assert_int_equal(CALL(int, ibv_dereg_mr, (struct mr_1_0 *))(p->mr), 0);
	assert_int_equal(CALL(int, ibv_dealloc_pd, (struct pd_1_0 *))(p->pd), 0);
	assert_int_equal(CALL(int, ibv_close_device, (struct context_1_0 *))(p->context), 0);
	CALL(void, ibv_free_device_list, (struct device_1_0 **))(p->list);
	return 0;
}

/* One completion, within seconds. */
static struct ibv_wc completion(struct program *p)
{
	time_t end = time(NULL) + 10;
	struct ibv_wc wc;

	while (time(NULL) < end) {
		int n = p->context->ops.poll_cq(p->cq, 1, &wc);

		assert_true(n >= 0);
		if (n)
			return wc;
	}
	fail_msg("no completion");
	return (struct ibv_wc){.status = IBV_WC_GENERAL_ERR};
}

static void a_message_goes_from_the_qp_to_itself(void **state)
{
	struct program *p = *state;
	struct ibv_sge from = {(uintptr_t)p->buffer[0], 64, p->mr->lkey};
	struct ibv_sge to = {(uintptr_t)p->buffer[1], 64, p->mr->lkey};
	struct recv_wr_1_0 second = {.wr_id = 2, .sg_list = &to, .num_sge = 1};
	struct recv_wr_1_0 first = {.next = &second, .wr_id = 1, .sg_list = &to, .num_sge = 1};
	struct send_wr_1_0 send = {.wr_id = 3,
				   .sg_list = &from,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND_WITH_IMM,
				   .imm_data = 0x11223344};
	struct recv_wr_1_0 *bad_recv;
	struct send_wr_1_0 *bad_send;
	int sent = 0, received = 0;

	strcpy(p->buffer[0], "as in 2006");
	assert_int_equal(p->context->ops.post_srq_recv(p->srq, &first, &bad_recv), 0);
	assert_int_equal(p->context->ops.post_send(p->qp, &send, &bad_send), 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = completion(p);

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.opcode & IBV_WC_RECV) {
			assert_int_equal(wc.wr_id, 1);
			assert_int_equal(wc.byte_len, 64);
			assert_int_equal(wc.imm_data, 0x11223344);
			received++;
		} else {
			assert_int_equal(wc.wr_id, 3);
			sent++;
		}
	}
	assert_int_equal(sent, 1);
	assert_int_equal(received, 1);
	assert_string_equal(p->buffer[1], "as in 2006");
}

static void the_first_refused_request_is_named(void **state)
{
	struct program *p = *state;
	struct ibv_sge none[2] = {{(uintptr_t)p->buffer[0], 1, p->mr->lkey},
				  {(uintptr_t)p->buffer[0], 1, p->mr->lkey}};
	struct send_wr_1_0 many = {.wr_id = 5, .sg_list = none, .num_sge = 1000};
	struct recv_wr_1_0 recv = {.wr_id = 6, .sg_list = none, .num_sge = 1000}, *bad_recv = NULL;
	struct send_wr_1_0 *bad_send = NULL;

	many.opcode = IBV_WR_SEND;
	assert_int_not_equal(p->context->ops.post_send(p->qp, &many, &bad_send), 0);
	assert_ptr_equal(bad_send, &many);
	assert_int_not_equal(p->context->ops.post_srq_recv(p->srq, &recv, &bad_recv), 0);
	assert_ptr_equal(bad_recv, &recv);
}

static void queries_give_the_programs_own_objects(void **state)
{
	struct program *p = *state;
	struct qp_init_attr_1_0 init;
	struct ibv_qp_attr attr;
	struct ibv_srq_attr srq;
	uint8_t before[48 + 8];

	assert_int_equal(CALL(int, ibv_query_qp,
			      (struct qp_1_0 *, struct ibv_qp_attr *, int,
			       struct qp_init_attr_1_0 *))(p->qp, &attr, IBV_QP_STATE, &init),
			 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_ptr_equal(init.qp_context, p);
	assert_ptr_equal(init.send_cq, p->cq);
	assert_ptr_equal(init.recv_cq, p->cq);
	assert_ptr_equal(init.srq, p->srq);
	assert_int_equal(init.qp_type, IBV_QPT_RC);
	assert_int_equal(
	    CALL(int, ibv_query_srq, (struct srq_1_0 *, struct ibv_srq_attr *))(p->srq, &srq), 0);
	assert_true(srq.max_wr >= 4);

	/* the port's struct had 48 bytes: nothing is written behind them */
	memset(before, 0x5a, sizeof(before));
	assert_int_equal(CALL(int, ibv_query_port,
			      (struct context_1_0 *, uint8_t, void *))(p->context, 1, before),
			 0);
	for (size_t i = 48; i < sizeof(before); i++)
		assert_int_equal(before[i], 0x5a);
	assert_int_equal(((struct ibv_port_attr *)before)->state, IBV_PORT_ACTIVE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_message_goes_from_the_qp_to_itself),
	    cmocka_unit_test(the_first_refused_request_is_named),
	    cmocka_unit_test(queries_give_the_programs_own_objects),
	};

	return cmocka_run_group_tests(tests, open_all, close_all);
}
