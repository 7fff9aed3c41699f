/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC through the public interface: domains by file, a QP that several have open, SRQs that senders
 * name, and each refusal.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <net/if.h>
#include <sys/stat.h>

#include "engine/slot.h"
#include "live.h"

static int domain_fd;

static struct ibv_xrcd *open_xrcd(struct ibv_context *of, int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = {
	    .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
	    .fd = fd,
	    .oflags = oflags,
	};

	return ibv_open_xrcd(of, &attr);
}

static int setup(void **state)
{
	char name[] = "/tmp/verbatim-xrcd-XXXXXX";

	domain_fd = mkstemp(name);
	if (domain_fd >= 0)
		unlink(name);
	return domain_fd < 0;
}

static int teardown(void **state)
{
	return close(domain_fd);
}

#define XRC_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* ---- a connection: the sender at one end, the target with its SRQ at the other ---- */

static struct end sender, target; /* target.qp is XRC_RECV */
static struct ibv_xrcd *xrcd;
static struct ibv_srq *srq;
static uint32_t srqn;

static struct ibv_srq *create_srq(struct ibv_xrcd *of, struct ibv_cq *cq)
{
	struct ibv_srq_init_attr_ex attr = {
	    .attr = {.max_wr = 8, .max_sge = 1},
	    .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			 IBV_SRQ_INIT_ATTR_CQ,
	    .srq_type = IBV_SRQT_XRC,
	    .pd = pd,
	    .xrcd = of,
	    .cq = cq,
	};

	return ibv_create_srq_ex(context, &attr);
}

static struct ibv_qp *create_recv_qp(struct ibv_xrcd *of)
{
	struct ibv_qp_init_attr_ex attr = {
	    .qp_context = &target,
	    .qp_type = IBV_QPT_XRC_RECV,
	    .comp_mask = IBV_QP_INIT_ATTR_XRCD,
	    .xrcd = of,
	};

	return ibv_create_qp_ex(of->context, &attr);
}

static void create_sender(uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
	    .cap = {.max_send_wr = 16, .max_send_sge = 1, .max_inline_data = 64},
	    .qp_type = IBV_QPT_XRC_SEND,
	    .comp_mask = IBV_QP_INIT_ATTR_PD | (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
	    .pd = pd,
	    .send_ops_flags = ops,
	};

	end_make_buffer(&sender);
	sender.cq = ibv_create_cq(context, CQE, NULL, NULL, 0);
	assert_non_null(sender.cq);
	attr.send_cq = sender.cq;
	sender.qp = ibv_create_qp_ex(context, &attr);
	assert_non_null(sender.qp);
}

static void connect_qp(struct ibv_qp *qp, uint32_t dest)
{
	struct ibv_qp_attr rtr = rtr_attr(dest), rts = rts_attr();
	bool is_sender = qp->qp_type == IBV_QPT_XRC_SEND;

	assert_int_equal(
	    ibv_modify_qp(qp, &rtr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			      IBV_QP_RQ_PSN |
			      (is_sender ? 0 : IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)),
	    0);
	assert_int_equal(ibv_modify_qp(qp, &rts,
				       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
					   (is_sender ? IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
							    IBV_QP_MAX_QP_RD_ATOMIC
						      : 0)),
			 0);
}

static void create_connection(uint64_t ops)
{
	xrcd = open_xrcd(context, domain_fd, O_CREAT);
	assert_non_null(xrcd);
	end_make_buffer(&target);
	target.cq = ibv_create_cq(context, CQE, NULL, NULL, 0);
	assert_non_null(target.cq);
	srq = create_srq(xrcd, target.cq);
	assert_non_null(srq);
	assert_int_equal(ibv_get_srq_num(srq, &srqn), 0);
	target.qp = create_recv_qp(xrcd);
	assert_non_null(target.qp);
	create_sender(ops);
	qp_init(sender.qp, 0);
	qp_init(target.qp, live_access);
	connect_qp(sender.qp, target.qp->qp_num);
	connect_qp(target.qp, sender.qp->qp_num);
}

static void destroy_connection(void)
{
	end_destroy(&sender);
	if (target.qp)
		assert_int_equal(ibv_destroy_qp(target.qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_cq(target.cq), 0);
	assert_int_equal(ibv_dereg_mr(target.mr), 0);
	free(target.buffer);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
}

static void post_to_srq(uint64_t wr_id)
{
	struct ibv_sge sge = end_sge(&target, 0, 1000);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
}

static void send_to(uint32_t number)
{
	struct ibv_sge sge = end_sge(&sender, 0, 5);
	struct ibv_send_wr wr = make_send(IBV_WR_SEND, &sge);

	wr.qp_type.xrc.remote_srqn = number;
	post_send_wr(&sender, &wr);
}

/* ---- messages ---- */

static void a_message_reaches_the_srq_that_it_names(void **state)
{
	struct ibv_wc wc;

	create_connection(0);
	post_to_srq(7);
	strcpy(sender.buffer, "over");
	send_to(srqn);
	wc = next_wc(target.cq);
	assert_wc(wc, 7, IBV_WC_SUCCESS);
	assert_int_equal(wc.qp_num, target.qp->qp_num);
	assert_int_equal(wc.src_qp, sender.qp->qp_num);
	assert_string_equal(target.buffer, "over");
	assert_wc(next_wc(sender.cq), 0x5e4d, IBV_WC_SUCCESS);
	destroy_connection();
}

static void the_builder_names_the_srq(void **state)
{
	struct ibv_qp_ex *ex;

	create_connection(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE);
	ex = ibv_qp_to_qp_ex(sender.qp);
	post_to_srq(8);
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_xrc_srqn(ex, srqn);
	ibv_wr_set_inline_data(ex, "inline", 7);
	ex->wr_id = 2;
	ibv_wr_rdma_write(ex, target.mr->rkey, (uintptr_t)target.buffer + 100);
	ibv_wr_set_xrc_srqn(ex, srqn);
	ibv_wr_set_sge(ex, sender.mr->lkey, (uintptr_t)sender.buffer, 10);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_wc(next_wc(target.cq), 8, IBV_WC_SUCCESS);
	assert_string_equal(target.buffer, "inline");
	assert_wc(next_wc(sender.cq), 1, IBV_WC_SUCCESS);
	assert_wc(next_wc(sender.cq), 2, IBV_WC_SUCCESS);
	destroy_connection();
}

static void an_unknown_srq_ends_the_connection(void **state)
{
	struct ibv_async_event event;

	create_connection(0);
	send_to(srqn + 1);
	assert_failed(next_wc(sender.cq), 0x5e4d, IBV_WC_REM_INV_REQ_ERR,
		      REASON_PEER_INVALID_REQUEST);
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_QP_REQ_ERR);
	assert_ptr_equal(event.element.qp, target.qp);
	ibv_ack_async_event(&event);
	destroy_connection();
}

/* ---- a QP that several have open ---- */

static struct ibv_qp *open_qp(struct ibv_context *of, struct ibv_xrcd *domain, uint32_t number)
{
	struct ibv_qp_open_attr attr = {
	    .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE |
			 IBV_QP_OPEN_ATTR_CONTEXT,
	    .qp_num = number,
	    .xrcd = domain,
	    .qp_context = &sender,
	    .qp_type = IBV_QPT_XRC_RECV,
	};

	return ibv_open_qp(of, &attr);
}

static void an_opened_qp_is_the_same_qp(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_qp *opened;

	create_connection(0);
	opened = open_qp(context, xrcd, target.qp->qp_num);
	assert_non_null(opened);
	assert_ptr_not_equal(opened, target.qp);
	assert_int_equal(opened->qp_num, target.qp->qp_num);
	assert_int_equal(opened->state, IBV_QPS_RTS);
	assert_ptr_equal(opened->qp_context, &sender);
	assert_int_equal(ibv_query_qp(opened, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.dest_qp_num, sender.qp->qp_num);
	assert_ptr_equal(init.qp_context, &sender);
	attr.qp_state = IBV_QPS_ERR;
	assert_int_equal(ibv_modify_qp(opened, &attr, IBV_QP_STATE), 0);
	assert_int_equal(ibv_query_qp(target.qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_ERR);
	assert_ptr_equal(init.qp_context, &target);
	assert_int_equal(ibv_destroy_qp(opened), 0);
	destroy_connection();
}

static void it_lives_as_long_as_one_has_it_open(void **state)
{
	struct ibv_context *second = open_loopback();
	struct ibv_xrcd *theirs = open_xrcd(second, domain_fd, 0);
	struct ibv_qp *opened;
	uint32_t number;

	assert_null(theirs); /* nobody has created it yet */
	create_connection(0);
	theirs = open_xrcd(second, domain_fd, 0);
	assert_non_null(theirs);
	number = target.qp->qp_num;
	opened = open_qp(second, theirs, number);
	assert_non_null(opened);
	assert_int_equal(ibv_destroy_qp(target.qp), 0);
	target.qp = NULL;
	post_to_srq(7);
	send_to(srqn);
	assert_wc(next_wc(target.cq), 7, IBV_WC_SUCCESS);
	assert_wc(next_wc(sender.cq), 0x5e4d, IBV_WC_SUCCESS);
	assert_refused(ibv_close_xrcd(theirs), EBUSY, REASON_XRCD_BUSY, "1 QPs");
	assert_int_equal(ibv_destroy_qp(opened), 0);
	assert_refused_null(open_qp(second, theirs, number), EINVAL, REASON_QP_OPEN_NONE, "QP");
	destroy_connection();
	assert_int_equal(ibv_close_xrcd(theirs), 0);
	assert_int_equal(ibv_close_device(second), 0);
}

static void take_event(struct ibv_context *of, struct ibv_qp *qp)
{
	struct ibv_async_event event;

	assert_int_equal(ibv_get_async_event(of, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_QP_REQ_ERR);
	assert_ptr_equal(event.element.qp, qp);
	ibv_ack_async_event(&event);
}

static void all_who_have_it_open_get_its_events(void **state)
{
	struct ibv_context *second = open_loopback();
	struct ibv_xrcd *theirs;
	struct ibv_qp *opened;

	create_connection(0);
	theirs = open_xrcd(second, domain_fd, 0);
	opened = open_qp(second, theirs, target.qp->qp_num);
	assert_non_null(opened);
	send_to(0);
	assert_wc(next_wc(sender.cq), 0x5e4d, IBV_WC_REM_INV_REQ_ERR);
	take_event(context, target.qp);
	take_event(second, opened);
	destroy_connection();
	assert_int_equal(ibv_destroy_qp(opened), 0);
	assert_int_equal(ibv_close_xrcd(theirs), 0);
	assert_int_equal(ibv_close_device(second), 0);
}

/* ---- refusals ---- */

static void what_names_no_domain_is_refused(void **state)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = domain_fd};
	struct ibv_xrcd *own;

	assert_refused_null(ibv_open_xrcd(context, &attr), EINVAL, REASON_XRCD_MASK, "0x1");
	assert_refused_null(open_xrcd(context, domain_fd, O_TRUNC | O_CREAT), EINVAL,
			    REASON_XRCD_FLAGS, "oflags");
	assert_refused_null(open_xrcd(context, 9999, O_CREAT), EBADF, REASON_XRCD_FD, "9999");
	assert_refused_null(open_xrcd(context, domain_fd, 0), EAGAIN, REASON_XRCD_NONE, "inode");
	assert_refused_null(open_xrcd(context, -1, 0), EAGAIN, REASON_XRCD_NONE, "inode 0");
	own = open_xrcd(context, -1, O_CREAT);
	assert_non_null(own);
	assert_int_equal(ibv_close_xrcd(own), 0);
	own = open_xrcd(context, domain_fd, O_CREAT);
	assert_refused_null(open_xrcd(context, domain_fd, O_CREAT | O_EXCL), EINVAL,
			    REASON_XRCD_EXISTS, "inode");
	assert_int_equal(ibv_close_xrcd(own), 0);
}

/* What others would look for is somebody else's: it would be shared with nobody. */
static void a_domain_that_cannot_be_named_is_refused(void **state)
{
	struct mail_address address;
	struct stat file;
	int fd;

	assert_int_equal(fstat(domain_fd, &file), 0);
	create_sender(0);
	mail_address_of_domain(sender.qp->qp_num >> QPN_SLOT_SHIFT, getuid(), if_nametoindex("lo"),
			       file.st_dev, file.st_ino, &address);
	fd = mail_bind(&address);
	assert_true(fd >= 0);
	assert_refused_null(open_xrcd(context, domain_fd, O_CREAT), EMFILE, REASON_XRCD_NAME,
			    "error 98");
	assert_int_equal(close(fd), 0);
	xrcd = open_xrcd(context, domain_fd, O_CREAT | O_EXCL);
	assert_non_null(xrcd);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	end_destroy(&sender);
}

static void what_is_in_use_stays(void **state)
{
	create_connection(0);
	assert_refused(ibv_close_xrcd(xrcd), EBUSY, REASON_XRCD_BUSY, "2 QPs and SRQs");
	assert_refused(ibv_destroy_cq(target.cq), EBUSY, REASON_CQ_BUSY, "1 queue");
	destroy_connection();
}

static void what_names_no_qp_is_refused(void **state)
{
	struct ibv_qp_open_attr attr = {
	    .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
	    .qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_xrcd *other;

	create_connection(0);
	attr.xrcd = xrcd;
	attr.qp_num = target.qp->qp_num ^ 1;
	assert_refused_null(ibv_open_qp(context, &attr), EINVAL, REASON_QP_OPEN_NONE, "QP");
	attr.qp_num = sender.qp->qp_num; /* is no XRC_RECV */
	assert_refused_null(ibv_open_qp(context, &attr), EINVAL, REASON_QP_OPEN_NONE, "QP");
	attr.qp_num = target.qp->qp_num;
	other = open_xrcd(context, -1, O_CREAT);
	attr.xrcd = other;
	assert_refused_null(ibv_open_qp(context, &attr), EINVAL, REASON_QP_OPEN_NONE, "QP");
	assert_int_equal(ibv_close_xrcd(other), 0);
	attr.xrcd = xrcd;
	attr.qp_type = IBV_QPT_RC;
	assert_refused_null(ibv_open_qp(context, &attr), EINVAL, REASON_QP_OPEN_TYPE, "2");
	attr.comp_mask = IBV_QP_OPEN_ATTR_NUM;
	assert_refused_null(ibv_open_qp(context, &attr), EINVAL, REASON_QP_OPEN_MASK, "0x1");
	destroy_connection();
}

static void basic_srqs_have_no_number(void **state)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *basic = ibv_create_srq(pd, &attr);
	uint32_t number = 5;

	assert_refused(ibv_get_srq_num(basic, &number), EINVAL, REASON_SRQ_NO_NUMBER, "SRQ");
	assert_int_equal(number, 5);
	assert_int_equal(ibv_destroy_srq(basic), 0);
}

static void an_srq_that_lacks_something_is_refused(void **state)
{
	struct ibv_srq_init_attr_ex attr = {
	    .attr = {.max_wr = 4, .max_sge = 1},
	    .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
	    .srq_type = IBV_SRQT_XRC,
	    .pd = pd,
	};
	struct ibv_context *second = open_loopback();
	struct ibv_xrcd *theirs = open_xrcd(second, domain_fd, O_CREAT);
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);

	assert_refused_null(ibv_create_srq_ex(context, &attr), EINVAL, REASON_SRQ_NO_XRCD, "0x3");
	attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	attr.cq = cq;
	attr.xrcd = theirs;
	assert_refused_null(ibv_create_srq_ex(context, &attr), EINVAL, REASON_SRQ_OTHER_DEVICE,
			    "context");
	attr.comp_mask |= IBV_SRQ_INIT_ATTR_RESERVED;
	assert_refused_null(ibv_create_srq_ex(context, &attr), EOPNOTSUPP, REASON_SRQ_TYPE, "0x");
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_close_xrcd(theirs), 0);
	assert_int_equal(ibv_close_device(second), 0);
}

static void others_do_not_name_srqs(void **state)
{
	struct ibv_qp_init_attr_ex attr = {
	    .qp_type = IBV_QPT_RC,
	    .cap = {.max_send_wr = 4, .max_send_sge = 1},
	    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	    .pd = pd,
	    .send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_qp_ex *ex;
	struct ibv_qp *qp;

	attr.send_cq = attr.recv_cq = cq;
	qp = ibv_create_qp_ex(context, &attr);
	qp_init(qp, 0);
	qp_connect(qp, 77);
	ex = ibv_qp_to_qp_ex(qp);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	reason_clear();
	ibv_wr_set_xrc_srqn(ex, 1);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	assert_int_equal(reason_last(NULL), REASON_WR_NOT_XRC);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    XRC_TEST(a_message_reaches_the_srq_that_it_names),
	    XRC_TEST(the_builder_names_the_srq),
	    XRC_TEST(an_unknown_srq_ends_the_connection),
	    XRC_TEST(an_opened_qp_is_the_same_qp),
	    XRC_TEST(it_lives_as_long_as_one_has_it_open),
	    XRC_TEST(all_who_have_it_open_get_its_events),
	    XRC_TEST(what_names_no_domain_is_refused),
	    XRC_TEST(a_domain_that_cannot_be_named_is_refused),
	    XRC_TEST(what_is_in_use_stays),
	    XRC_TEST(what_names_no_qp_is_refused),
	    XRC_TEST(basic_srqs_have_no_number),
	    XRC_TEST(an_srq_that_lacks_something_is_refused),
	    XRC_TEST(others_do_not_name_srqs),
	};

	return cmocka_run_group_tests(tests, live_open, live_close);
}
