/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC domains: one for each file, a handle for each who opens; and what QPs and SRQs need of one.
 */
#include "device/xrcd.h"
#include "fixture.h"

static const struct xrcd_file file = {.device = 1, .inode = 77}, other = {.device = 2, .inode = 77};

static struct xrcd *open_file(const struct xrcd_file *named)
{
	struct xrcd *xrcd;

	assert_int_equal(xrcd_open(&adapter, named, XRCD_CREATE, &xrcd), 0);
	return xrcd;
}

static void who_opens_one_file_gets_one_domain(void **state)
{
	struct xrcd *a = open_file(&file), *b = open_file(&file), *c = open_file(&other);

	assert_ptr_not_equal(a, b);
	assert_ptr_equal(a->domain, b->domain);
	assert_ptr_not_equal(a->domain, c->domain);
	assert_int_equal(xrcd_close(a), 0);
	assert_int_equal(xrcd_open(&adapter, &file, 0, &a), 0); /* b keeps it */
	assert_ptr_equal(a->domain, b->domain);
	assert_int_equal(xrcd_close(a), 0);
	assert_int_equal(xrcd_close(b), 0);
	assert_int_equal(xrcd_close(c), 0);
}

static void a_domain_of_no_file_is_ones_own(void **state)
{
	struct xrcd *a = open_file(NULL), *b = open_file(NULL);

	assert_ptr_not_equal(a->domain, b->domain);
	assert_int_equal(xrcd_close(a), 0);
	assert_int_equal(xrcd_close(b), 0);
}

static void what_is_not_there_is_not_opened(void **state)
{
	struct xrcd *xrcd;

	assert_refused(xrcd_open(&adapter, &file, 0, &xrcd), EAGAIN, REASON_XRCD_NONE, "inode 77");
	assert_refused(xrcd_open(&adapter, NULL, 0, &xrcd), EAGAIN, REASON_XRCD_NONE, "rxe0");
	xrcd = open_file(&file);
	assert_int_equal(xrcd_close(xrcd), 0);
	assert_refused(xrcd_open(&adapter, &file, 0, &xrcd), EAGAIN, REASON_XRCD_NONE, "inode 77");
}

static void what_is_there_is_not_created_exclusively(void **state)
{
	struct xrcd *xrcd = open_file(&file), *second;

	assert_refused(xrcd_open(&adapter, &file, XRCD_CREATE | XRCD_EXCLUSIVE, &second), EINVAL,
		       REASON_XRCD_EXISTS, "inode 77");
	assert_int_equal(xrcd_close(xrcd), 0);
	assert_int_equal(xrcd_open(&adapter, &file, XRCD_CREATE | XRCD_EXCLUSIVE, &xrcd), 0);
	assert_int_equal(xrcd_close(xrcd), 0);
}

static struct ibv_srq_init_attr_ex xrc_srq(const struct objects *o, struct xrcd *xrcd)
{
	struct ibv_srq_init_attr_ex attr = {
	    .attr = {.max_wr = 4, .max_sge = 1},
	    .comp_mask = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	    .srq_type = IBV_SRQT_XRC,
	    .xrcd = &xrcd->ibv,
	    .cq = &o->recv_cq->ibv,
	};

	return attr;
}

static void an_srq_needs_a_domain_and_a_cq(void **state)
{
	struct objects o = objects_create();
	struct xrcd *xrcd = open_file(&file);
	struct ibv_srq_init_attr_ex attr = xrc_srq(&o, xrcd);
	struct srq *srq;

	attr.comp_mask = IBV_SRQ_INIT_ATTR_CQ;
	assert_refused(srq_create_ex(o.pd, &attr, &srq), EINVAL, REASON_SRQ_NO_XRCD, "0x8");
	attr.comp_mask = IBV_SRQ_INIT_ATTR_XRCD;
	assert_refused(srq_create_ex(o.pd, &attr, &srq), EINVAL, REASON_SRQ_NO_CQ, "0x4");
	attr.comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
	attr.srq_type = 17;
	assert_refused(srq_create_ex(o.pd, &attr, &srq), EOPNOTSUPP, REASON_SRQ_TYPE, "17");
	attr.srq_type = IBV_SRQT_XRC;
	assert_int_equal(srq_create_ex(o.pd, &attr, &srq), 0);
	assert_int_equal(srq_wire_number(srq) >> QPN_SLOT_SHIFT, FIXTURE_SLOT);
	assert_refused(xrcd_close(xrcd), EBUSY, REASON_XRCD_BUSY, "1 QPs and SRQs");
	assert_refused(cq_destroy(o.recv_cq), EBUSY, REASON_CQ_BUSY, "1 queue");
	assert_int_equal(srq_destroy(srq), 0);
	assert_int_equal(xrcd_close(xrcd), 0);
	objects_destroy(&o);
}

static void objects_of_another_device_are_refused(void **state)
{
	struct objects o = objects_create();
	struct adapter second;
	struct ibv_srq_init_attr_ex attr;
	struct xrcd *xrcd;
	struct srq *srq;

	assert_int_equal(adapter_init(&second, "rxe9", 1, 1, &fixture_host, NULL), 0);
	assert_int_equal(xrcd_open(&second, NULL, XRCD_CREATE, &xrcd), 0);
	attr = xrc_srq(&o, xrcd);
	assert_refused(srq_create_ex(o.pd, &attr, &srq), EINVAL, REASON_SRQ_OTHER_DEVICE, "rxe9");
	assert_int_equal(xrcd_close(xrcd), 0);
	adapter_fini(&second);
	objects_destroy(&o);
}

static void an_xrc_recv_qp_has_a_domain_and_nothing_else(void **state)
{
	struct objects o = objects_create();
	struct xrcd *xrcd = open_file(&file);
	struct ibv_qp_init_attr_ex attr = qp_attr(&o, IBV_QPT_XRC_RECV);
	struct qp *qp;

	assert_refused(qp_create(o.pd, &attr, &qp), EINVAL, REASON_QP_NO_XRCD, "comp_mask");
	attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	attr.xrcd = &xrcd->ibv;
	assert_int_equal(qp_create(NULL, &attr, &qp), 0);
	assert_int_equal(attr.cap.max_send_wr, 0);
	assert_int_equal(attr.cap.max_recv_wr, 0);
	assert_null(qp->ibv.pd);
	assert_null(qp->ibv.send_cq);
	assert_null(qp->ibv.recv_cq);
	assert_refused(xrcd_close(xrcd), EBUSY, REASON_XRCD_BUSY, "1 QPs and SRQs");
	qp_end(qp);
	attr = qp_attr(&o, IBV_QPT_XRC_RECV);
	attr.comp_mask = IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.xrcd = &xrcd->ibv;
	attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
	assert_refused(qp_create(NULL, &attr, &qp), EOPNOTSUPP, REASON_QP_SEND_OPS, "0x4");
	assert_int_equal(xrcd_close(xrcd), 0);
	objects_destroy(&o);
}

static void an_xrc_send_qp_has_a_send_queue_alone(void **state)
{
	struct objects o = objects_create();
	struct ibv_qp_init_attr_ex attr = qp_attr(&o, IBV_QPT_XRC_SEND);
	struct qp *qp;

	assert_refused(qp_create(NULL, &attr, &qp), EINVAL, REASON_QP_NO_PD, "comp_mask");
	attr.send_cq = NULL;
	assert_refused(qp_create(o.pd, &attr, &qp), EINVAL, REASON_QP_NO_CQ, "send_cq");
	attr.send_cq = &o.send_cq->ibv;
	assert_int_equal(qp_create(o.pd, &attr, &qp), 0);
	assert_int_equal(attr.cap.max_send_wr, 4);
	assert_int_equal(attr.cap.max_recv_wr, 0);
	assert_null(qp->ibv.recv_cq);
	assert_int_equal(o.recv_cq->users, 0);
	qp_end(qp);
	objects_destroy(&o);
}

/* ib_modify_qp's table has XRC's own columns: the sender has no READs to serve, the target none to
 * send again. */
static void each_half_has_its_own_transitions(void **state)
{
	struct objects o = objects_create();
	struct xrcd *xrcd = open_file(&file);
	struct ibv_qp_init_attr_ex init = qp_attr(&o, IBV_QPT_XRC_RECV);
	struct ibv_qp_attr attr = good_attr(IBV_QPS_RTR);
	int connected =
	    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	struct qp *send = qp_new(&o, IBV_QPT_XRC_SEND), *recv;

	init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	init.xrcd = &xrcd->ibv;
	assert_int_equal(qp_create(NULL, &init, &recv), 0);
	qp_to(send, IBV_QPS_INIT, init_mask(IBV_QPT_RC));
	qp_to(recv, IBV_QPS_INIT, init_mask(IBV_QPT_RC));
	assert_refused(qp_modify(recv, &attr, connected), EINVAL, REASON_QP_ATTR_MISSING,
		       "XRC_RECV QP");
	qp_to(recv, IBV_QPS_RTR, connected | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	qp_to(send, IBV_QPS_RTR, connected);
	attr = good_attr(IBV_QPS_RTS);
	assert_refused(qp_modify(send, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT),
		       EINVAL, REASON_QP_ATTR_MISSING, "IBV_QP_RETRY_CNT");
	qp_to(send, IBV_QPS_RTS, rts_mask(IBV_QPT_RC));
	qp_to(recv, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT);
	qp_to(send, IBV_QPS_SQD, IBV_QP_STATE);
	qp_to(send, IBV_QPS_RTS, IBV_QP_STATE);
	qp_to(send, IBV_QPS_ERR, IBV_QP_STATE);
	qp_to(recv, IBV_QPS_RESET, IBV_QP_STATE);
	qp_end(send);
	qp_end(recv);
	assert_int_equal(xrcd_close(xrcd), 0);
	objects_destroy(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(who_opens_one_file_gets_one_domain),
	    TEST(a_domain_of_no_file_is_ones_own),
	    TEST(what_is_not_there_is_not_opened),
	    TEST(what_is_there_is_not_created_exclusively),
	    TEST(an_srq_needs_a_domain_and_a_cq),
	    TEST(objects_of_another_device_are_refused),
	    TEST(an_xrc_recv_qp_has_a_domain_and_nothing_else),
	    TEST(an_xrc_send_qp_has_a_send_queue_alone),
	    TEST(each_half_has_its_own_transitions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
