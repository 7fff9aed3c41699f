/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw packet QPs: what goes out, which flow gets what comes in, in which order, counted how; and
 * receive work queues behind a hash.
 */
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "device/flow.h"
#include "device/wq.h"
#include "transport/requester.h"
#include "transport/transport.h"
#include "fixture.h"

enum { MEMORY = 4096, FRAME = 60 };

static struct pd *pd;
static struct cq *cq;
static struct mr *mr;
static char memory[MEMORY];
static uint8_t sent[2000];
static size_t sent_length;
static int sent_error;

static int send_frame(struct adapter *a, const void *frame, size_t length)
{
	if (sent_error)
		return sent_error;
	memcpy(sent, frame, length);
	sent_length = length;
	return 0;
}

static uint8_t *frame_room(struct qp *of)
{
	static uint8_t room[ADAPTER_FRAME_ROOM];

	return room;
}

static struct adapter_host host;

static int setup(void **state)
{
	memset(memory, 0, sizeof(memory));
	sent_length = 0;
	sent_error = 0;
	if (fixture_setup(state))
		return -1;
	host = fixture_host;
	host.frame_room = frame_room;
	host.send_frame = send_frame;
	adapter.host = &host;
	return pd_create(&adapter, &pd) || cq_create(&adapter, 64, &cq) ||
	       mr_create(pd, memory, MEMORY, (uintptr_t)memory, IBV_ACCESS_LOCAL_WRITE, &mr);
}

static int teardown(void **state)
{
	return mr_destroy(mr) || cq_destroy(cq) || pd_destroy(pd) || fixture_teardown(state);
}

#define RAW_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static struct qp *create(void)
{
	struct ibv_qp_init_attr_ex attr = {
	    .send_cq = &cq->ibv,
	    .recv_cq = &cq->ibv,
	    .cap = {.max_send_wr = 4, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RAW_PACKET,
	    .comp_mask = IBV_QP_INIT_ATTR_PD,
	    .pd = &pd->ibv,
	};
	struct qp *qp;

	assert_int_equal(transport_create_qp(pd, &attr, &qp), 0);
	return qp;
}

static struct qp *create_ready(void)
{
	struct ibv_qp_attr attr = {.port_num = 1};
	struct qp *qp = create();

	attr.qp_state = IBV_QPS_INIT;
	assert_int_equal(transport_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT, 0), 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(transport_modify_qp(qp, &attr, IBV_QP_STATE, 0), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(transport_modify_qp(qp, &attr, IBV_QP_STATE, 0), 0);
	return qp;
}

static void destroy(struct qp *qp)
{
	assert_int_equal(qp_unlist(qp), 0);
	transport_free_qp(qp);
}

static void post_recv(struct qp *qp, uint64_t wr_id, size_t offset, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)memory + offset, length, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(qp_post_recv(qp, &wr, &bad), 0);
}

/* ---- rules in memory ---- */

struct rule {
	struct ibv_flow_attr attr;
	char specs[256];
};

static struct rule rule(enum ibv_flow_attr_type type, uint16_t priority)
{
	return (struct rule){.attr = {.type = type,
				      .priority = priority,
				      .size = sizeof(struct ibv_flow_attr),
				      .port = 1}};
}

static void add_spec(struct rule *to, const void *spec, uint16_t size)
{
	memcpy((char *)&to->attr + to->attr.size, spec, size);
	to->attr.size += size;
	to->attr.num_of_specs++;
}

static void add_udp(struct rule *to, uint16_t port)
{
	struct ibv_flow_spec_tcp_udp spec = {.type = IBV_FLOW_SPEC_UDP,
					     .size = sizeof(spec),
					     .val.dst_port = htobe16(port),
					     .mask.dst_port = 0xffff};

	add_spec(to, &spec, sizeof(spec));
}

static struct flow *flow(struct qp *qp, struct rule *rule_)
{
	struct flow *made;

	assert_int_equal(flow_create(qp, &rule_->attr, &made), 0);
	return made;
}

static struct flow *udp_flow(struct qp *qp, uint16_t port)
{
	struct rule r = rule(IBV_FLOW_ATTR_NORMAL, 0);

	add_udp(&r, port);
	return flow(qp, &r);
}

/* ---- frames ---- */

static void build(uint8_t frame[FRAME], uint32_t source, uint16_t port)
{
	memset(frame, 0, FRAME);
	memcpy(frame, (const uint8_t[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 12);
	put_be16(frame + 12, FRAME_TYPE_IPV4);
	frame[14] = 0x45;
	frame[14 + 9] = FRAME_UDP;
	put_be32(frame + 14 + 12, source);
	put_be16(frame + 34 + 2, port);
}

static void arrive(uint16_t port)
{
	uint8_t frame[FRAME];

	build(frame, 0x01020304, port);
	transport_receive_frame(&adapter, frame, FRAME, 5);
}

static struct cqe expect(uint64_t wr_id)
{
	struct cqe cqe;

	assert_int_equal(cq_poll_one(cq, &cqe), 0);
	assert_int_equal(cqe.wc.wr_id, wr_id);
	return cqe;
}

static void expect_none(void)
{
	struct cqe cqe;

	assert_int_equal(cq_poll_one(cq, &cqe), -ENOENT);
}

/* ---- sending ---- */

static int send_some(struct qp *qp, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)memory, length, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 3,
				 .opcode = IBV_WR_SEND,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	int ret = qp_post_send(qp, &wr, &bad);

	if (!ret)
		transport_run(qp, 7, NULL);
	return ret;
}

static void a_frame_goes_out_as_it_is(void **state)
{
	struct qp *qp = create_ready();

	strcpy(memory, "addresses, type and payload");
	assert_int_equal(send_some(qp, 100), 0);
	assert_int_equal(expect(3).wc.status, IBV_WC_SUCCESS);
	assert_int_equal(sent_length, 100);
	assert_memory_equal(sent, memory, 100);
	destroy(qp);
}

static void frames_of_no_length_that_is_one_fail(void **state)
{
	static const uint32_t lengths[] = {13, 1500 + 19};

	for (int i = 0; i < 2; i++) {
		struct qp *qp = create_ready();
		struct cqe cqe;

		assert_int_equal(send_some(qp, lengths[i]), 0);
		cqe = expect(3);
		assert_int_equal(cqe.wc.status, IBV_WC_LOC_LEN_ERR);
		assert_int_equal(cqe.wc.vendor_err, REASON_FRAME_LENGTH);
		assert_int_equal(qp->state, IBV_QPS_SQE);
		assert_int_equal(sent_length, 0);
		destroy(qp);
	}
}

static void a_busy_interface_is_waited_for(void **state)
{
	struct qp *qp = create_ready();

	sent_error = -EAGAIN;
	assert_int_equal(send_some(qp, 100), 0);
	expect_none();
	sent_error = 0;
	transport_run(qp, 8, NULL);
	assert_int_equal(expect(3).wc.status, IBV_WC_SUCCESS);
	sent_error = -ENETDOWN;
	assert_int_equal(send_some(qp, 100), 0);
	assert_int_equal(expect(3).wc.vendor_err, REASON_FRAME_REFUSED);
	destroy(qp);
}

/* ---- flows ---- */

static void a_frame_goes_where_its_flow_leads(void **state)
{
	struct qp *a = create_ready(), *b = create_ready();
	struct flow *fa = udp_flow(a, 10), *fb = udp_flow(b, 20);
	struct cqe cqe;

	post_recv(a, 1, 0, 100);
	post_recv(b, 2, 200, 100);
	arrive(20);
	arrive(30);
	cqe = expect(2);
	assert_int_equal(cqe.wc.qp_num, b->number);
	assert_int_equal(cqe.wc.byte_len, FRAME);
	assert_int_equal(cqe.wc.opcode, IBV_WC_RECV);
	assert_int_equal((uint8_t)memory[200 + 14], 0x45);
	expect_none();
	arrive(10);
	expect(1);
	arrive(10); /* no receive: lost */
	expect_none();
	flow_destroy(fa);
	flow_destroy(fb);
	post_recv(a, 3, 0, 100);
	arrive(10);
	expect_none();
	destroy(a);
	destroy(b);
}

static void priority_and_kind_say_who_is_asked_first(void **state)
{
	struct qp *qps[5];
	struct rule rules[5] = {rule(IBV_FLOW_ATTR_ALL_DEFAULT, 0),
				rule(IBV_FLOW_ATTR_MC_DEFAULT, 0), rule(IBV_FLOW_ATTR_NORMAL, 9),
				rule(IBV_FLOW_ATTR_NORMAL, 1), rule(IBV_FLOW_ATTR_SNIFFER, 0)};
	struct flow *flows[5];

	add_udp(&rules[2], 10);
	add_udp(&rules[3], 10);
	for (uint64_t i = 0; i < 5; i++) {
		qps[i] = create_ready();
		flows[i] = flow(qps[i], &rules[i]);
		post_recv(qps[i], i, 0, 100);
		post_recv(qps[i], 10 + i, 0, 100);
	}
	arrive(10);
	expect(4); /* sees all */
	expect(3); /* the lower number */
	expect_none();
	arrive(99); /* to a group: the first byte is odd */
	expect(14);
	expect(1);
	expect_none();
	for (int i = 0; i < 5; i++) {
		flow_destroy(flows[i]);
		destroy(qps[i]);
	}
}

static void a_flow_that_does_not_trap_lets_go_on(void **state)
{
	struct qp *a = create_ready(), *b = create_ready();
	struct rule first = rule(IBV_FLOW_ATTR_NORMAL, 0);
	struct flow *fa, *fb;

	first.attr.flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
	fa = flow(a, &first);
	fb = udp_flow(b, 10);
	post_recv(a, 1, 0, 100);
	post_recv(b, 2, 0, 100);
	arrive(10);
	expect(1);
	expect(2);
	flow_destroy(fa);
	flow_destroy(fb);
	destroy(a);
	destroy(b);
}

static void actions_tag_drop_and_count(void **state)
{
	struct ibv_counters_init_attr none = {0};
	struct ibv_counter_attach_attr packets = {.counter_desc = IBV_COUNTER_PACKETS, .index = 0},
				       bytes = {.counter_desc = IBV_COUNTER_BYTES, .index = 2};
	struct ibv_flow_spec_action_tag tag = {IBV_FLOW_SPEC_ACTION_TAG, sizeof(tag), 0x77};
	struct ibv_flow_spec_action_drop drop = {IBV_FLOW_SPEC_ACTION_DROP, sizeof(drop)};
	struct ibv_flow_spec_counter_action count = {.type = IBV_FLOW_SPEC_ACTION_COUNT,
						     .size = sizeof(count)};
	struct rule tagged = rule(IBV_FLOW_ATTR_NORMAL, 1), dropped = rule(IBV_FLOW_ATTR_NORMAL, 0);
	struct qp *qp = create_ready();
	struct counters *counters;
	struct flow *f1, *f2;
	uint64_t values[3];

	assert_int_equal(counters_create(&adapter, &none, &counters), 0);
	assert_int_equal(counters_attach(counters, &packets, NULL), 0);
	assert_int_equal(counters_attach(counters, &bytes, NULL), 0);
	count.counters = &counters->ibv;
	add_udp(&tagged, 10);
	add_spec(&tagged, &tag, sizeof(tag));
	add_spec(&tagged, &count, sizeof(count));
	add_udp(&dropped, 20);
	add_spec(&dropped, &drop, sizeof(drop));
	add_spec(&dropped, &count, sizeof(count));
	f1 = flow(qp, &tagged);
	f2 = flow(qp, &dropped);
	post_recv(qp, 1, 0, 100);
	arrive(20);
	expect_none();
	arrive(10);
	assert_int_equal(expect(1).flow_tag, 0x77);
	assert_int_equal(counters_read(counters, values, 3, 0), 0);
	assert_int_equal(values[0], 2);
	assert_int_equal(values[1], 0);
	assert_int_equal(values[2], 2 * FRAME);
	assert_refused(counters_destroy(counters), EBUSY, REASON_COUNTERS_BUSY, "2 flows");
	flow_destroy(f1);
	flow_destroy(f2);
	assert_int_equal(counters_destroy(counters), 0);
	destroy(qp);
}

static void counters_and_flow_are_of_one_device(void **state)
{
	static struct adapter other = {.name = "other"};
	struct ibv_counters_init_attr none = {0};
	struct ibv_counter_attach_attr packets = {.counter_desc = IBV_COUNTER_PACKETS};
	struct qp *qp = create_ready();
	struct flow *f = udp_flow(qp, 10);
	struct counters *counters;

	assert_int_equal(counters_create(&other, &none, &counters), 0);
	assert_refused(counters_attach(counters, &packets, f), EINVAL, REASON_FLOW_COUNTERS,
		       "other");
	flow_destroy(f);
	assert_int_equal(counters_destroy(counters), 0);
	destroy(qp);
}

/* Those who wrote for older libraries may say nothing of the specs in the flow's size. */
static void a_size_of_the_attributes_alone_says_nothing_of_specs(void **state)
{
	struct qp *qp = create_ready();
	struct rule r = rule(IBV_FLOW_ATTR_NORMAL, 0);
	struct flow *f;

	add_udp(&r, 10);
	r.attr.size = sizeof(r.attr);
	f = flow(qp, &r);
	post_recv(qp, 1, 0, 100);
	arrive(10);
	expect(1);
	flow_destroy(f);
	destroy(qp);
}

static void a_tag_is_stripped_where_asked_for(void **state)
{
	struct qp *qp = create_ready();
	struct rule all = rule(IBV_FLOW_ATTR_ALL_DEFAULT, 0);
	struct flow *f = flow(qp, &all);
	uint8_t frame[FRAME] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x81, 0, 0xa1, 0x23, 8, 0};
	struct cqe cqe;

	qp->strips_vlan = true;
	post_recv(qp, 1, 0, 100);
	transport_receive_frame(&adapter, frame, FRAME, 5);
	cqe = expect(1);
	assert_int_equal(cqe.cvlan, 0xa123);
	assert_int_equal(cqe.wc.byte_len, FRAME - 4);
	assert_memory_equal(memory, frame, 12);
	assert_memory_equal(memory + 12, frame + 16, 2);
	flow_destroy(f);
	destroy(qp);
}

static void a_receive_that_is_too_small_fails(void **state)
{
	struct qp *qp = create_ready();
	struct flow *f = udp_flow(qp, 10);
	struct cqe cqe;

	post_recv(qp, 1, 0, FRAME - 1);
	arrive(10);
	cqe = expect(1);
	assert_int_equal(cqe.wc.status, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(cqe.wc.vendor_err, REASON_RECEIVE_TOO_SMALL);
	assert_int_equal(memory[0], 0);
	flow_destroy(f);
	destroy(qp);
}

static void refused(struct qp *qp, struct rule *r, int error, enum reason reason, const char *word)
{
	struct flow *made;

	assert_refused(flow_create(qp, &r->attr, &made), error, reason, word);
}

static void rules_that_cannot_be_are_refused(void **state)
{
	struct objects o = {pd, cq, cq};
	struct qp *raw = create_ready(), *rc = qp_new(&o, IBV_QPT_RC);
	struct rule r = rule(IBV_FLOW_ATTR_NORMAL, 0);
	struct ibv_flow_spec_action_handle handle = {.type = IBV_FLOW_SPEC_ACTION_HANDLE,
						     .size = sizeof(handle)};
	struct ibv_flow_spec_gre gre = {
	    .type = IBV_FLOW_SPEC_GRE, .size = sizeof(gre), .mask.key = 1};
	struct flow *f;

	refused(rc, &r, EINVAL, REASON_FLOW_QP, "QP");
	r.attr.port = 2;
	refused(raw, &r, EINVAL, REASON_PORT_NUMBER, "2");
	r = rule(IBV_FLOW_ATTR_NORMAL, 0);
	r.attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS;
	refused(raw, &r, EINVAL, REASON_FLOW_ATTR, "flags 0x4");
	r = rule((enum ibv_flow_attr_type)4, 0);
	refused(raw, &r, EINVAL, REASON_FLOW_ATTR, "type 4");
	r = rule(IBV_FLOW_ATTR_SNIFFER, 0);
	add_udp(&r, 1);
	refused(raw, &r, EINVAL, REASON_FLOW_ATTR, "1 specs");
	r = rule(IBV_FLOW_ATTR_NORMAL, 0);
	r.attr.num_of_specs = 17;
	refused(raw, &r, EINVAL, REASON_FLOW_SPECS, "17");
	r = rule(IBV_FLOW_ATTR_NORMAL, 0);
	add_spec(&r, &handle, sizeof(handle));
	refused(raw, &r, EOPNOTSUPP, REASON_FLOW_SPEC_TYPE, "0x1002");
	r = rule(IBV_FLOW_ATTR_NORMAL, 0);
	add_spec(&r, &gre, sizeof(gre));
	refused(raw, &r, EOPNOTSUPP, REASON_FLOW_SPEC_TYPE, "key");
	r = rule(IBV_FLOW_ATTR_NORMAL, 0);
	gre.size--;
	add_spec(&r, &gre, sizeof(gre));
	refused(raw, &r, EINVAL, REASON_FLOW_SPEC_SIZE, "0x51");
	r = rule(IBV_FLOW_ATTR_NORMAL, 0);
	add_udp(&r, 1);
	r.attr.size--;
	refused(raw, &r, EINVAL, REASON_FLOW_SIZE, "spec 0 of 1");
	r.attr.size++;
	r.attr.num_of_specs = 2;
	refused(raw, &r, EINVAL, REASON_FLOW_SIZE, "spec 1 of 2");
	f = udp_flow(raw, 1);
	assert_refused(qp_unlist(raw), EBUSY, REASON_QP_FLOWS, "1 flows");
	flow_destroy(f);
	destroy(raw);
	qp_end(rc);
}

/* ---- work queues ---- */

static struct wq *create_wq(void)
{
	struct ibv_wq_init_attr attr = {
	    .wq_type = IBV_WQT_RQ, .max_wr = 8, .max_sge = 1, .pd = &pd->ibv, .cq = &cq->ibv};
	struct wq *wq;

	assert_int_equal(wq_create(pd, &attr, &wq), 0);
	return wq;
}

static int to_state(struct wq *wq, enum ibv_wq_state to)
{
	struct ibv_wq_attr attr = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = to};

	return wq_modify(wq, &attr, 9);
}

static int post_wq(struct wq *wq, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)memory, 100, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	return wq_post(wq, &wr, &bad);
}

static struct ibv_qp_init_attr_ex rss_attr(struct wq_table *table, uint8_t *key)
{
	return (struct ibv_qp_init_attr_ex){
	    .qp_type = IBV_QPT_RAW_PACKET,
	    .comp_mask =
		IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
	    .pd = &pd->ibv,
	    .rwq_ind_tbl = &table->ibv,
	    .rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
			     .rx_hash_key_len = TOEPLITZ_KEY,
			     .rx_hash_key = key,
			     .rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4}};
}

static void a_hash_spreads_over_work_queues(void **state)
{
	uint8_t key[TOEPLITZ_KEY], frame[FRAME];
	struct wq *wqs[4];
	struct ibv_wq *list[4];
	struct ibv_rwq_ind_table_init_attr init = {.log_ind_tbl_size = 2, .ind_tbl = list};
	struct rule all = rule(IBV_FLOW_ATTR_ALL_DEFAULT, 0);
	struct ibv_qp_init_attr_ex attr;
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send;
	struct ibv_recv_wr recv = {.wr_id = 1}, *bad_recv;
	unsigned int got[4] = {0};
	struct wq_table *table;
	struct flow *f;
	struct qp *qp;
	struct cqe cqe;

	for (size_t i = 0; i < sizeof(key); i++)
		key[i] = (uint8_t)(i * 37 + 11);
	for (uint64_t i = 0; i < 4; i++) {
		wqs[i] = create_wq();
		list[i] = &wqs[i]->ibv;
		assert_int_equal(to_state(wqs[i], IBV_WQS_RDY), 0);
		for (int n = 0; n < 8; n++)
			assert_int_equal(post_wq(wqs[i], i), 0);
	}
	assert_int_equal(wq_table_create(&adapter, &init, &table), 0);
	attr = rss_attr(table, key);
	assert_int_equal(transport_create_qp(pd, &attr, &qp), 0);
	assert_refused(qp_post_send(qp, &send, &bad_send), EINVAL, REASON_RSS_SENDS, "QP");
	assert_refused(qp_post_recv(qp, &recv, &bad_recv), EINVAL, REASON_RECV_HAS_TABLE, "QP");
	f = flow(qp, &all);
	for (uint32_t i = 0; i < 16; i++) {
		build(frame, i * 0x01010101, 9);
		transport_receive_frame(&adapter, frame, FRAME, 5);
	}
	while (cq_poll_one(cq, &cqe) == 0) {
		assert_int_equal(cqe.wc.status, IBV_WC_SUCCESS);
		assert_int_equal(cqe.wc.qp_num, wqs[cqe.wc.wr_id]->ibv.wq_num);
		got[cqe.wc.wr_id]++;
	}
	assert_int_equal(got[0] + got[1] + got[2] + got[3], 16);
	for (int i = 0; i < 4; i++)
		assert_in_range(got[i], 1, 8);
	assert_refused(wq_table_destroy(table), EBUSY, REASON_WQ_TABLE_BUSY, "1 QPs");
	assert_refused(wq_check_idle(wqs[0]), EBUSY, REASON_WQ_BUSY, "1 places");
	flow_destroy(f);
	destroy(qp);
	assert_int_equal(wq_table_destroy(table), 0);
	for (int i = 0; i < 4; i++)
		wq_destroy(wqs[i]);
}

static void a_work_queue_goes_through_its_states(void **state)
{
	struct wq *wq = create_wq();
	struct ibv_wq_attr attr = {.attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE,
				   .wq_state = IBV_WQS_RDY,
				   .curr_wq_state = IBV_WQS_ERR};

	assert_refused(post_wq(wq, 1), EINVAL, REASON_WQ_STATE, "state 0");
	assert_refused(to_state(wq, IBV_WQS_ERR), EINVAL, REASON_WQ_STATE, "0 to 2");
	assert_refused(wq_modify(wq, &attr, 0), EINVAL, REASON_WQ_STATE, "curr_wq_state says 2");
	assert_int_equal(to_state(wq, IBV_WQS_RDY), 0);
	assert_int_equal(post_wq(wq, 1), 0);
	assert_int_equal(post_wq(wq, 2), 0);
	assert_int_equal(to_state(wq, IBV_WQS_ERR), 0);
	assert_int_equal(expect(1).wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(expect(2).wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_refused(to_state(wq, IBV_WQS_RDY), EINVAL, REASON_WQ_STATE, "2 to 1");
	assert_int_equal(to_state(wq, IBV_WQS_RESET), 0);
	attr = (struct ibv_wq_attr){.attr_mask = 8};
	assert_refused(wq_modify(wq, &attr, 0), EINVAL, REASON_WQ_ATTR, "0x8");
	attr =
	    (struct ibv_wq_attr){.attr_mask = IBV_WQ_ATTR_FLAGS, .flags = IBV_WQ_FLAGS_SCATTER_FCS};
	assert_refused(wq_modify(wq, &attr, 0), EINVAL, REASON_WQ_ATTR, "0x2");
	wq_fail(wq);
	assert_int_equal(fixture_event_count, 1);
	assert_int_equal(fixture_events[0].event_type, IBV_EVENT_WQ_FATAL);
	assert_ptr_equal(fixture_events[0].element.wq, &wq->ibv);
	wq_destroy(wq);
}

static void queues_and_tables_that_cannot_be_are_refused(void **state)
{
	struct ibv_wq_init_attr attr = {.wq_type = IBV_WQT_RQ, .max_wr = 8, .pd = &pd->ibv};
	struct ibv_wq *list[1] = {NULL};
	struct ibv_rwq_ind_table_init_attr init = {.log_ind_tbl_size = 11, .ind_tbl = list};
	struct ibv_qp_init_attr_ex rss;
	struct wq_table *table;
	uint8_t key[TOEPLITZ_KEY] = {0};
	struct wq *wq;
	struct qp *qp;

	assert_refused(wq_create(pd, &attr, &wq), EINVAL, REASON_WQ_CQ, "rxe0");
	attr.cq = &cq->ibv;
	attr.max_wr = 0;
	assert_refused(wq_create(pd, &attr, &wq), EINVAL, REASON_WQ_SIZE, "max_wr 0");
	attr.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
	attr.create_flags = IBV_WQ_FLAGS_DELAY_DROP;
	assert_refused(wq_create(pd, &attr, &wq), EINVAL, REASON_WQ_ATTR, "0x4");
	assert_refused(wq_table_create(&adapter, &init, &table), EINVAL, REASON_WQ_TABLE, "11");
	init.log_ind_tbl_size = 0;
	assert_refused(wq_table_create(&adapter, &init, &table), EINVAL, REASON_WQ_TABLE, "0");
	wq = create_wq();
	list[0] = &wq->ibv;
	assert_int_equal(wq_table_create(&adapter, &init, &table), 0);
	rss = rss_attr(table, key);
	rss.comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_RX_HASH;
	assert_refused(qp_create(pd, &rss, &qp), EINVAL, REASON_QP_TABLE, "comp_mask");
	rss = rss_attr(table, key);
	rss.qp_type = IBV_QPT_UD;
	assert_refused(qp_create(pd, &rss, &qp), EINVAL, REASON_QP_TABLE, "4");
	rss = rss_attr(table, key);
	rss.rx_hash_conf.rx_hash_key_len = 39;
	assert_refused(qp_create(pd, &rss, &qp), EINVAL, REASON_QP_HASH, "39 bytes");
	assert_int_equal(wq_table_destroy(table), 0);
	wq_destroy(wq);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    RAW_TEST(a_frame_goes_out_as_it_is),
	    RAW_TEST(frames_of_no_length_that_is_one_fail),
	    RAW_TEST(a_busy_interface_is_waited_for),
	    RAW_TEST(a_frame_goes_where_its_flow_leads),
	    RAW_TEST(priority_and_kind_say_who_is_asked_first),
	    RAW_TEST(a_flow_that_does_not_trap_lets_go_on),
	    RAW_TEST(actions_tag_drop_and_count),
	    RAW_TEST(counters_and_flow_are_of_one_device),
	    RAW_TEST(a_size_of_the_attributes_alone_says_nothing_of_specs),
	    RAW_TEST(a_tag_is_stripped_where_asked_for),
	    RAW_TEST(a_receive_that_is_too_small_fails),
	    RAW_TEST(rules_that_cannot_be_are_refused),
	    RAW_TEST(a_hash_spreads_over_work_queues),
	    RAW_TEST(a_work_queue_goes_through_its_states),
	    RAW_TEST(queues_and_tables_that_cannot_be_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
