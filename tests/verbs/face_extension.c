/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * infiniband/verbatim.h: Query and Modify AH, Query CQ, partitions, events on demand.
 */
#define _GNU_SOURCE
#include <infiniband/verbatim.h>
#include <poll.h>

#include "live.h"

/* ---- address handles ---- */

static struct ibv_ah_attr address(uint8_t last)
{
	struct ibv_ah_attr attr = {
	    .is_global = 1,
	    .port_num = 1,
	    .sl = 3,
	    .grh = {.dgid = gid, .sgid_index = (uint8_t)gid_index, .traffic_class = 32}};

	attr.grh.dgid.raw[15] = last;
	return attr;
}

static void an_address_handle_tells_where_it_leads(void **state)
{
	struct ibv_ah_attr attr = address(9), told;
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);

	assert_int_equal(verbatim_query_ah(ah, &told), 0);
	assert_memory_equal(&told.grh.dgid, &attr.grh.dgid, sizeof(gid));
	assert_int_equal(told.grh.sgid_index, gid_index);
	assert_int_equal(told.grh.traffic_class, 32);
	assert_int_equal(told.sl, 3);
	assert_int_equal(told.is_global, 1);
	assert_int_equal(told.port_num, 1);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void send_datagram(struct end *from, struct ibv_ah *ah, uint32_t to)
{
	struct ibv_sge sge = end_sge(from, 0, 8);
	struct ibv_send_wr wr = make_send(IBV_WR_SEND, &sge);

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = to;
	wr.wr.ud.remote_qkey = 0x1234567;
	post_send_wr(from, &wr);
	assert_wc(next_wc(from->cq), 0x5e4d, IBV_WC_SUCCESS);
}

/* It led to nobody, then to us. */
static void a_modified_handle_leads_elsewhere(void **state)
{
	struct ibv_ah_attr attr = address(99), good = address(1);
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	struct end a, b;

	pair_create(&a, &b, IBV_QPT_UD);
	assert_int_equal(post_recv(&b, 7, 1000), 0);
	assert_int_equal(verbatim_modify_ah(ah, &good), 0);
	send_datagram(&a, ah, b.qp->qp_num);
	assert_wc(next_wc(b.cq), 7, IBV_WC_SUCCESS);

	good.is_global = 0;
	assert_refused(verbatim_modify_ah(ah, &good), EINVAL, REASON_AV_NO_GRH, "");
	assert_int_equal(verbatim_query_ah(ah, &attr), 0);
	assert_int_equal(attr.grh.dgid.raw[15], 1); /* as it was */
	pair_destroy(&a, &b);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* ---- completion queues ---- */

static void a_cq_tells_what_is_in_it(void **state)
{
	struct ibv_modify_cq_attr moderate = {.attr_mask = IBV_CQ_ATTR_MODERATE,
					      .moderate = {.cq_count = 5, .cq_period = 60}};
	struct ibv_sge sge;
	struct verbatim_cq_attr attr;
	struct ibv_send_wr wr;
	struct end a, b;
	double until = seconds() + PATIENCE_S;

	pair_create(&a, &b, IBV_QPT_RC);
	assert_int_equal(verbatim_query_cq(a.cq, &attr), 0);
	assert_int_equal(attr.entries, CQE);
	assert_int_equal(attr.completions, 0);
	assert_int_equal(attr.armed, 0);
	assert_int_equal(attr.is_overrun, 0);
	assert_int_equal(attr.users, 2);
	assert_int_equal(ibv_req_notify_cq(a.cq, 1), 0);
	assert_int_equal(ibv_modify_cq(a.cq, &moderate), 0);
	sge = end_sge(&a, 0, 8);
	wr = make_send(IBV_WR_RDMA_WRITE, &sge);
	wr.wr.rdma.remote_addr = (uintptr_t)b.buffer;
	wr.wr.rdma.rkey = b.mr->rkey;
	post_send_wr(&a, &wr);
	do {
		assert_int_equal(verbatim_query_cq(a.cq, &attr), 0);
	} while (!attr.completions && seconds() < until);
	assert_int_equal(attr.completions, 1);
	assert_int_equal(attr.armed, 1);
	assert_int_equal(attr.moderate_count, 5);
	assert_int_equal(attr.moderate_us, 60);
	next_wc(a.cq);
	pair_destroy(&a, &b);
}

/* ---- partitions ---- */

static int expect_event(enum ibv_event_type type)
{
	struct ibv_async_event event;

	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, type);
	ibv_ack_async_event(&event);
	return event.element.port_num;
}

static void set_pkeys(const uint16_t *pkeys, int count)
{
	assert_int_equal(verbatim_set_pkeys(context, 1, pkeys, count), 0);
	assert_int_equal(expect_event(IBV_EVENT_PKEY_CHANGE), 1);
}

/* A UD QP in the partition at an index. */
static void create_in(struct end *end, uint16_t index)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_INIT, .port_num = 1, .pkey_index = index, .qkey = 0x1234567};

	end_create(end, IBV_QPT_UD);
	assert_int_equal(
	    ibv_modify_qp(end->qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
	    0);
	qp_connect(end->qp, 0);
}

enum { DEFAULT, FULL, LIMITED, OTHER };

static uint32_t refused_pkeys(void)
{
	struct ibv_port_attr attr;

	assert_int_equal(ibv_query_port(context, 1, &attr), 0);
	return attr.bad_pkey_cntr;
}

/* Whether a message from one partition arrives in another, or is counted as refused. */
static bool reaches(uint16_t from, uint16_t to)
{
	struct ibv_ah_attr attr = address(1);
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	uint32_t refused = refused_pkeys();
	double deadline = seconds() + 10;
	bool arrived = false;
	struct end a, b;
	struct ibv_wc wc;

	create_in(&a, from);
	create_in(&b, to);
	assert_int_equal(post_recv(&b, 1, 1000), 0);
	send_datagram(&a, ah, b.qp->qp_num);
	while (!arrived && refused_pkeys() == refused) {
		assert_true(seconds() < deadline);
		arrived = ibv_poll_cq(b.cq, 1, &wc) == 1;
	}
	if (arrived) {
		assert_int_equal(wc.src_qp, a.qp->qp_num);
		assert_int_equal(wc.pkey_index, to);
	}
	end_destroy(&a);
	end_destroy(&b);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	return arrived;
}

static void partitions_isolate(void **state)
{
	const uint16_t pkeys[] = {0xffff, 0x8001, 0x0001, 0x8002};
	struct ibv_port_attr before, after;
	__be16 told;

	set_pkeys(pkeys, 4);
	assert_int_equal(ibv_query_pkey(context, 1, LIMITED, &told), 0);
	assert_int_equal(told, htobe16(0x0001));
	assert_int_equal(ibv_get_pkey_index(context, 1, htobe16(0x8002)), OTHER);
	assert_int_equal(ibv_query_port(context, 1, &before), 0);
	assert_true(reaches(FULL, FULL));
	assert_true(reaches(LIMITED, FULL));
	assert_true(reaches(FULL, LIMITED));
	assert_false(reaches(LIMITED, LIMITED));
	assert_false(reaches(OTHER, FULL));
	assert_false(reaches(DEFAULT, OTHER));
	assert_int_equal(ibv_query_port(context, 1, &after), 0);
	assert_int_equal(after.bad_pkey_cntr - before.bad_pkey_cntr, 3);
	set_pkeys(pkeys, 1);
	assert_int_equal(ibv_get_pkey_index(context, 1, htobe16(0x8001)), -1);
}

static void connect_in(struct end *end, uint16_t index, uint32_t dest)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .pkey_index = index,
				   .qp_access_flags = (unsigned int)live_access};
	struct ibv_qp_attr rts = rts_attr();

	rts.timeout = 10;
	rts.retry_cnt = 1;
	assert_int_equal(
	    ibv_modify_qp(end->qp, &init,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	    0);
	qp_connect_as(end->qp, dest, rts);
}

/* What comes of it between two QPs of this process, in the partitions at those two indices. */
static enum ibv_wc_status status_between(uint16_t of, uint16_t at, enum ibv_wr_opcode opcode)
{
	enum ibv_wc_status status;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct end a, b;

	end_create(&a, IBV_QPT_RC);
	end_create(&b, IBV_QPT_RC);
	connect_in(&a, of, b.qp->qp_num);
	connect_in(&b, at, a.qp->qp_num);
	assert_int_equal(post_recv(&b, 1, 8), 0);
	sge = end_sge(&a, 0, 8);
	wr = make_send(opcode, &sge);
	wr.wr.rdma.remote_addr = (uintptr_t)b.buffer;
	wr.wr.rdma.rkey = b.mr->rkey;
	post_send_wr(&a, &wr);
	status = next_wc(a.cq).status;
	pair_destroy(&a, &b);
	return status;
}

/* Nor do they reach each other's memory, where no packet would be needed. */
static void two_limited_members_are_no_peers(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						     IBV_WR_RDMA_READ};
	const uint16_t pkeys[] = {0xffff, 0x8001, 0x0001};

	set_pkeys(pkeys, 3);
	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		assert_int_equal(status_between(FULL, FULL, opcodes[i]), IBV_WC_SUCCESS);
		assert_int_equal(status_between(FULL, LIMITED, opcodes[i]), IBV_WC_SUCCESS);
		assert_int_equal(status_between(LIMITED, FULL, opcodes[i]), IBV_WC_SUCCESS);
		assert_int_equal(status_between(LIMITED, LIMITED, opcodes[i]),
				 IBV_WC_RETRY_EXC_ERR);
		assert_int_equal(status_between(FULL, DEFAULT, opcodes[i]), IBV_WC_RETRY_EXC_ERR);
	}
	set_pkeys(pkeys, 1);
}

static void tables_that_cannot_be_are_refused(void **state)
{
	const uint16_t none[] = {0xffff, 0x8000};
	uint16_t many[65];

	memset(many, 0xff, sizeof(many));
	assert_refused(verbatim_set_pkeys(context, 1, none, 2), EINVAL, REASON_PKEYS_SETTING, "2");
	assert_refused(verbatim_set_pkeys(context, 1, many, 65), EINVAL, REASON_PKEYS_SETTING,
		       "65");
	assert_refused(verbatim_set_pkeys(context, 1, many, 0), EINVAL, REASON_PKEYS_SETTING, "0");
	assert_refused(verbatim_set_pkeys(context, 2, many, 1), EINVAL, REASON_PORT_NUMBER, "2");
}

/* The device is open already here, so the setting is tried by a program of its own: ourselves. */
static void the_environment_sets_the_first_table(void **state)
{
	__be16 told = 0;

	const char *setting = getenv("VERBATIM_PKEYS");

	if (!setting || !*setting)
		return;
	assert_int_equal(ibv_query_pkey(context, 1, 1, &told), 0);
	assert_int_equal(told, htobe16(0x8001));
}

/* ---- events ---- */

static void every_event_comes_on_demand(void **state)
{
	static const enum ibv_event_type of_qp[] = {
	    IBV_EVENT_QP_FATAL,	    IBV_EVENT_QP_REQ_ERR,	  IBV_EVENT_QP_ACCESS_ERR,
	    IBV_EVENT_COMM_EST,	    IBV_EVENT_SQ_DRAINED,	  IBV_EVENT_PATH_MIG,
	    IBV_EVENT_PATH_MIG_ERR, IBV_EVENT_QP_LAST_WQE_REACHED};
	static const enum ibv_event_type of_port[] = {
	    IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR,		 IBV_EVENT_LID_CHANGE,
	    IBV_EVENT_PKEY_CHANGE, IBV_EVENT_SM_CHANGE,		 IBV_EVENT_CLIENT_REREGISTER,
	    IBV_EVENT_GID_CHANGE,  IBV_EVENT_DEVICE_SPEED_CHANGE};
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_attr);
	struct ibv_async_event event = {.element.srq = srq}, got;
	struct end end;

	end_create(&end, IBV_QPT_RC);
	for (size_t i = 0; i < sizeof(of_qp) / sizeof(of_qp[0]); i++) {
		event = (struct ibv_async_event){.event_type = of_qp[i], .element.qp = end.qp};
		assert_int_equal(verbatim_raise_event(context, &event), 0);
		assert_int_equal(ibv_get_async_event(context, &got), 0);
		assert_int_equal(got.event_type, of_qp[i]);
		assert_ptr_equal(got.element.qp, end.qp);
		ibv_ack_async_event(&got);
	}
	for (size_t i = 0; i < sizeof(of_port) / sizeof(of_port[0]); i++) {
		event = (struct ibv_async_event){.event_type = of_port[i], .element.port_num = 1};
		assert_int_equal(verbatim_raise_event(context, &event), 0);
		assert_int_equal(expect_event(of_port[i]), 1);
	}
	event = (struct ibv_async_event){.event_type = IBV_EVENT_CQ_ERR, .element.cq = end.cq};
	assert_int_equal(verbatim_raise_event(context, &event), 0);
	expect_event(IBV_EVENT_CQ_ERR);
	event = (struct ibv_async_event){.event_type = IBV_EVENT_SRQ_ERR, .element.srq = srq};
	assert_int_equal(verbatim_raise_event(context, &event), 0);
	expect_event(IBV_EVENT_SRQ_ERR);
	event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
	assert_int_equal(verbatim_raise_event(context, &event), 0);
	expect_event(IBV_EVENT_SRQ_LIMIT_REACHED);
	event = (struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL};
	assert_int_equal(verbatim_raise_event(context, &event), 0);
	expect_event(IBV_EVENT_DEVICE_FATAL);
	end_destroy(&end);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

/* Who takes none keeps the first of them, and what packets need is left. */
static void untaken_events_have_their_bound(void **state)
{
	enum { BOUND = 65536 };
	struct ibv_async_event event = {.event_type = IBV_EVENT_CQ_ERR}, got;
	struct ibv_context *second = open_loopback();
	struct ibv_cq *first_cq = ibv_create_cq(second, 1, NULL, NULL, 0);
	struct ibv_cq *last_cq = ibv_create_cq(second, 1, NULL, NULL, 0);

	event.element.cq = first_cq;
	for (int i = 0; i < BOUND; i++)
		assert_int_equal(verbatim_raise_event(second, &event), 0);
	event.element.cq = last_cq;
	assert_int_equal(verbatim_raise_event(second, &event), 0);
	assert_int_equal(reason_last(NULL), REASON_NO_MEMORY);
	for (int i = 0; i < BOUND; i++) {
		assert_int_equal(ibv_get_async_event(second, &got), 0);
		assert_ptr_equal(got.element.cq, first_cq);
		ibv_ack_async_event(&got);
	}
	assert_int_equal(poll(&(struct pollfd){second->async_fd, POLLIN, 0}, 1, 0), 0);
	assert_int_equal(verbatim_raise_event(second, &event), 0);
	assert_int_equal(ibv_get_async_event(second, &got), 0);
	assert_ptr_equal(got.element.cq, last_cq);
	ibv_ack_async_event(&got);
	assert_int_equal(ibv_destroy_cq(first_cq), 0);
	assert_int_equal(ibv_destroy_cq(last_cq), 0);
	assert_int_equal(ibv_close_device(second), 0);
}

static void events_about_nothing_are_refused(void **state)
{
	struct ibv_async_event event = {.event_type = 99};
	struct ibv_context *second = open_loopback();
	struct end end;

	end_create(&end, IBV_QPT_RC);
	assert_refused(verbatim_raise_event(context, &event), EINVAL, REASON_EVENT_TYPE, "99");
	event.event_type = IBV_EVENT_PORT_ERR;
	event.element.port_num = 2;
	assert_refused(verbatim_raise_event(context, &event), EINVAL, REASON_PORT_NUMBER, "2");
	event = (struct ibv_async_event){.event_type = IBV_EVENT_QP_FATAL};
	assert_refused(verbatim_raise_event(context, &event), EINVAL, REASON_EVENT_ELEMENT,
		       "queue");
	event.element.qp = end.qp;
	assert_refused(verbatim_raise_event(second, &event), EINVAL, REASON_EVENT_ELEMENT, "queue");
	end_destroy(&end);
	assert_int_equal(ibv_close_device(second), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_environment_sets_the_first_table),
	    cmocka_unit_test(an_address_handle_tells_where_it_leads),
	    cmocka_unit_test(a_modified_handle_leads_elsewhere),
	    cmocka_unit_test(a_cq_tells_what_is_in_it),
	    cmocka_unit_test(partitions_isolate),
	    cmocka_unit_test(two_limited_members_are_no_peers),
	    cmocka_unit_test(tables_that_cannot_be_are_refused),
	    cmocka_unit_test(every_event_comes_on_demand),
	    cmocka_unit_test(untaken_events_have_their_bound),
	    cmocka_unit_test(events_about_nothing_are_refused),
	};

	return cmocka_run_group_tests(tests, live_open, live_close);
}
