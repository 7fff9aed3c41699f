/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QPs: creation, and the states. The table of the specification is tried whole: each pair of
 * states, each required attribute left out, each attribute that has no place there put in.
 */
#include "fixture.h"

static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};

static const struct {
	int bit;
	const char *name;
} attributes[] = {
    {IBV_QP_CUR_STATE, "IBV_QP_CUR_STATE"},
    {IBV_QP_EN_SQD_ASYNC_NOTIFY, "IBV_QP_EN_SQD_ASYNC_NOTIFY"},
    {IBV_QP_ACCESS_FLAGS, "IBV_QP_ACCESS_FLAGS"},
    {IBV_QP_PKEY_INDEX, "IBV_QP_PKEY_INDEX"},
    {IBV_QP_PORT, "IBV_QP_PORT"},
    {IBV_QP_QKEY, "IBV_QP_QKEY"},
    {IBV_QP_AV, "IBV_QP_AV"},
    {IBV_QP_PATH_MTU, "IBV_QP_PATH_MTU"},
    {IBV_QP_TIMEOUT, "IBV_QP_TIMEOUT"},
    {IBV_QP_RETRY_CNT, "IBV_QP_RETRY_CNT"},
    {IBV_QP_RNR_RETRY, "IBV_QP_RNR_RETRY"},
    {IBV_QP_RQ_PSN, "IBV_QP_RQ_PSN"},
    {IBV_QP_MAX_QP_RD_ATOMIC, "IBV_QP_MAX_QP_RD_ATOMIC"},
    {IBV_QP_MIN_RNR_TIMER, "IBV_QP_MIN_RNR_TIMER"},
    {IBV_QP_SQ_PSN, "IBV_QP_SQ_PSN"},
    {IBV_QP_MAX_DEST_RD_ATOMIC, "IBV_QP_MAX_DEST_RD_ATOMIC"},
    {IBV_QP_CAP, "IBV_QP_CAP"},
    {IBV_QP_DEST_QPN, "IBV_QP_DEST_QPN"},
    {IBV_QP_RATE_LIMIT, "IBV_QP_RATE_LIMIT"},
};

enum { ATTRIBUTES = sizeof(attributes) / sizeof(attributes[0]) };

/* Which attributes a transition may have besides those it must have, by ibv_modify_qp(3); -1: there
 * is no such way. */
static int optional_of(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to)
{
	const int cur = IBV_QP_CUR_STATE | IBV_QP_RATE_LIMIT;
	const int connected = IBV_QP_ACCESS_FLAGS;
	const int running = type == IBV_QPT_UD	 ? cur | IBV_QP_QKEY
			    : type == IBV_QPT_UC ? cur | connected
						 : cur | connected | IBV_QP_MIN_RNR_TIMER;

	if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET))
		return 0;
	if (from == IBV_QPS_RESET && to == IBV_QPS_INIT)
		return 0;
	if (from == IBV_QPS_INIT && to == IBV_QPS_INIT)
		return init_mask(type) & ~IBV_QP_STATE;
	if (from == IBV_QPS_INIT && to == IBV_QPS_RTR)
		return IBV_QP_PKEY_INDEX | (type == IBV_QPT_UD ? IBV_QP_QKEY : connected);
	if ((from == IBV_QPS_RTR || from == IBV_QPS_RTS || from == IBV_QPS_SQD) &&
	    to == IBV_QPS_RTS)
		return running;
	if (from == IBV_QPS_RTS && to == IBV_QPS_SQD)
		return IBV_QP_EN_SQD_ASYNC_NOTIFY;
	if (from == IBV_QPS_SQE && to == IBV_QPS_RTS && type != IBV_QPT_RC)
		return cur | (type == IBV_QPT_UD ? IBV_QP_QKEY : connected);
	if (from == IBV_QPS_SQD && to == IBV_QPS_SQD)
		return type == IBV_QPT_UD ? IBV_QP_PKEY_INDEX | IBV_QP_QKEY
		       : type == IBV_QPT_UC
			   ? IBV_QP_AV | connected | IBV_QP_PKEY_INDEX
			   : IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
				 IBV_QP_MAX_DEST_RD_ATOMIC | connected | IBV_QP_PKEY_INDEX |
				 IBV_QP_MIN_RNR_TIMER;
	return -1;
}

static int required_of(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to)
{
	if (from == IBV_QPS_RESET && to == IBV_QPS_INIT)
		return init_mask(type) & ~IBV_QP_STATE;
	if (from == IBV_QPS_INIT && to == IBV_QPS_RTR)
		return rtr_mask(type) & ~IBV_QP_STATE;
	if (from == IBV_QPS_RTR && to == IBV_QPS_RTS)
		return rts_mask(type) & ~IBV_QP_STATE;
	return 0;
}

static struct qp *qp_in(const struct objects *o, enum ibv_qp_type type, enum ibv_qp_state state)
{
	struct qp *qp = qp_new(o, type);

	if (state != IBV_QPS_RESET)
		qp_bring_to(qp, state);
	return qp;
}

/* Calls `each` for every type and pair of states, with a fresh QP in the first. */
static void for_each_pair(void (*each)(struct qp *qp, enum ibv_qp_state from, enum ibv_qp_state to))
{
	struct objects o = objects_create();

	for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++)
		for (int from = IBV_QPS_RESET; from <= IBV_QPS_ERR; from++)
			for (int to = IBV_QPS_RESET; to <= IBV_QPS_ERR; to++) {
				struct qp *qp = qp_in(&o, types[t], (enum ibv_qp_state)from);

				each(qp, (enum ibv_qp_state)from, (enum ibv_qp_state)to);
				qp_end(qp);
			}
	objects_destroy(&o);
}

static void try_pair(struct qp *qp, enum ibv_qp_state from, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = good_attr(to);
	int mask = IBV_QP_STATE | required_of(qp->type, from, to);

	if (optional_of(qp->type, from, to) < 0) {
		assert_refused(qp_modify(qp, &attr, mask), EINVAL, REASON_QP_TRANSITION,
			       qp_state_name(to));
		assert_int_equal(qp->state, from);
	} else {
		assert_int_equal(qp_modify(qp, &attr, mask), 0);
		assert_int_equal(qp->state, to);
	}
}

static void try_each_missing(struct qp *qp, enum ibv_qp_state from, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = good_attr(to);
	int required = required_of(qp->type, from, to);

	for (int i = 0; i < ATTRIBUTES; i++) {
		if (!(required & attributes[i].bit))
			continue;
		assert_refused(qp_modify(qp, &attr, IBV_QP_STATE | (required & ~attributes[i].bit)),
			       EINVAL, REASON_QP_ATTR_MISSING, attributes[i].name);
		assert_int_equal(qp->state, from);
	}
}

static void try_each_attribute(struct qp *qp, enum ibv_qp_state from, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = good_attr(to);
	int required = required_of(qp->type, from, to), optional = optional_of(qp->type, from, to);

	if (optional < 0)
		return;
	for (int i = 0; i < ATTRIBUTES; i++) {
		int mask = IBV_QP_STATE | required | attributes[i].bit;

		attr.cur_qp_state = from;
		if ((required | optional) & attributes[i].bit) {
			assert_int_equal(qp_modify(qp, &attr, mask), 0);
			qp->state = from; /* for the next */
		} else {
			assert_refused(qp_modify(qp, &attr, mask), EINVAL, REASON_QP_ATTR_FORBIDDEN,
				       attributes[i].name);
			assert_int_equal(qp->state, from);
		}
	}
}

static void every_pair_of_states_is_as_the_table_has_it(void **state)
{
	for_each_pair(try_pair);
}

static void every_required_attribute_is_missed_by_its_name(void **state)
{
	for_each_pair(try_each_missing);
}

static void every_attribute_without_a_place_is_refused_by_its_name(void **state)
{
	for_each_pair(try_each_attribute);
}

/* ---- values ---- */

struct range {
	enum ibv_qp_state from; /* the transition: to the next one */
	const char *word;
	enum reason reason;
	void (*spoil)(struct ibv_qp_attr *attr);
};

#define SPOIL(name, statement)                                                                     \
	static void name(struct ibv_qp_attr *attr)                                                 \
	{                                                                                          \
		statement;                                                                         \
	}

SPOIL(spoil_port, attr->port_num = 2)
SPOIL(spoil_pkey, attr->pkey_index = 1)
SPOIL(spoil_pkey_far, attr->pkey_index = 0xffff)
SPOIL(spoil_access, attr->qp_access_flags = 1 << 15)
SPOIL(spoil_mtu_0, attr->path_mtu = 0)
SPOIL(spoil_mtu_6, attr->path_mtu = 6)
SPOIL(spoil_mtu_large, attr->path_mtu = IBV_MTU_2048)
SPOIL(spoil_dest, attr->dest_qp_num = 1 << 24)
SPOIL(spoil_rnr_timer, attr->min_rnr_timer = 32)
SPOIL(spoil_dest_rd, attr->max_dest_rd_atomic = 129)
SPOIL(spoil_grh, attr->ah_attr.is_global = 0)
SPOIL(spoil_sgid, attr->ah_attr.grh.sgid_index = 99)
SPOIL(spoil_family, attr->ah_attr.grh.sgid_index = GID_IPV6)
SPOIL(spoil_group, attr->ah_attr.grh.dgid = group_ipv4)
SPOIL(spoil_timeout, attr->timeout = 32)
SPOIL(spoil_retry, attr->retry_cnt = 8)
SPOIL(spoil_rnr_retry, attr->rnr_retry = 8)
SPOIL(spoil_rd, attr->max_rd_atomic = 129)

static void every_value_out_of_range_is_named(void **state)
{
	static const struct range ranges[] = {
	    {IBV_QPS_RESET, "port_num is 2", REASON_QP_ATTR_RANGE, spoil_port},
	    {IBV_QPS_RESET, "pkey_index is 1", REASON_QP_PKEY_INDEX, spoil_pkey},
	    {IBV_QPS_RESET, "pkey_index is 65535", REASON_QP_PKEY_INDEX, spoil_pkey_far},
	    {IBV_QPS_RESET, "0x8000", REASON_QP_ACCESS, spoil_access},
	    {IBV_QPS_INIT, "path_mtu is 0", REASON_QP_ATTR_RANGE, spoil_mtu_0},
	    {IBV_QPS_INIT, "path_mtu is 6", REASON_QP_ATTR_RANGE, spoil_mtu_6},
	    {IBV_QPS_INIT, "2048 bytes, rxe0 has 1024", REASON_QP_MTU, spoil_mtu_large},
	    {IBV_QPS_INIT, "dest_qp_num", REASON_QP_ATTR_RANGE, spoil_dest},
	    {IBV_QPS_INIT, "min_rnr_timer is 32", REASON_QP_ATTR_RANGE, spoil_rnr_timer},
	    {IBV_QPS_INIT, "max_dest_rd_atomic is 129", REASON_QP_ATTR_RANGE, spoil_dest_rd},
	    {IBV_QPS_INIT, "is_global", REASON_AV_NO_GRH, spoil_grh},
	    {IBV_QPS_INIT, "sgid_index is 99", REASON_AV_SGID_INDEX, spoil_sgid},
	    {IBV_QPS_INIT, "::ffff:192.0.2.9", REASON_AV_FAMILY, spoil_family},
	    {IBV_QPS_INIT, "multicast", REASON_AV_MULTICAST, spoil_group},
	    {IBV_QPS_RTR, "timeout is 32", REASON_QP_ATTR_RANGE, spoil_timeout},
	    {IBV_QPS_RTR, "retry_cnt is 8", REASON_QP_ATTR_RANGE, spoil_retry},
	    {IBV_QPS_RTR, "rnr_retry is 8", REASON_QP_ATTR_RANGE, spoil_rnr_retry},
	    {IBV_QPS_RTR, "max_rd_atomic is 129", REASON_QP_ATTR_RANGE, spoil_rd},
	};
	struct objects o = objects_create();

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		struct qp *qp = qp_in(&o, IBV_QPT_RC, ranges[i].from);
		enum ibv_qp_state to = (enum ibv_qp_state)(ranges[i].from + 1);
		struct ibv_qp_attr attr = good_attr(to);
		int mask = IBV_QP_STATE | required_of(IBV_QPT_RC, ranges[i].from, to);

		ranges[i].spoil(&attr);
		assert_refused(qp_modify(qp, &attr, mask), EINVAL, ranges[i].reason,
			       ranges[i].word);
		assert_int_equal(qp->state, ranges[i].from);
		qp_end(qp);
	}
	objects_destroy(&o);
}

static void a_state_that_is_none_is_refused(void **state)
{
	struct objects o = objects_create();
	struct qp *qp = qp_new(&o, IBV_QPT_RC);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_UNKNOWN};

	assert_refused(qp_modify(qp, &attr, IBV_QP_STATE), EINVAL, REASON_QP_ATTR_RANGE,
		       "qp_state is 7");
	qp_end(qp);
	objects_destroy(&o);
}

static void a_wrong_current_state_is_refused(void **state)
{
	struct objects o = objects_create();
	struct qp *qp = qp_in(&o, IBV_QPT_RC, IBV_QPS_RTS);
	struct ibv_qp_attr attr = good_attr(IBV_QPS_RTS);

	attr.cur_qp_state = IBV_QPS_SQD;
	assert_refused(qp_modify(qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL,
		       REASON_QP_CUR_STATE, "is in RTS, cur_qp_state says SQD");
	qp_end(qp);
	objects_destroy(&o);
}

static void an_alternate_path_is_refused(void **state)
{
	struct objects o = objects_create();
	struct qp *qp = qp_in(&o, IBV_QPT_RC, IBV_QPS_INIT);
	struct ibv_qp_attr attr = good_attr(IBV_QPS_RTR);

	assert_refused(qp_modify(qp, &attr, rtr_mask(IBV_QPT_RC) | IBV_QP_ALT_PATH), EINVAL,
		       REASON_QP_ALT_PATH, "QP");
	qp_end(qp);
	objects_destroy(&o);
}

static void psns_are_cut_to_24_bits(void **state)
{
	struct objects o = objects_create();
	struct qp *qp = qp_in(&o, IBV_QPT_RC, IBV_QPS_INIT);
	struct ibv_qp_attr attr = good_attr(IBV_QPS_RTR);

	attr.rq_psn = 0x12345678;
	assert_int_equal(qp_modify(qp, &attr, rtr_mask(IBV_QPT_RC)), 0);
	assert_int_equal(qp->attr.rq_psn, 0x345678);
	qp_end(qp);
	objects_destroy(&o);
}

static void what_was_set_is_told(void **state)
{
	struct objects o = objects_create();
	struct qp *qp = qp_in(&o, IBV_QPT_RC, IBV_QPS_RTS);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	qp_describe(qp, &attr, &init);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.path_mtu, IBV_MTU_1024);
	assert_int_equal(attr.dest_qp_num, 0x1234);
	assert_int_equal(attr.timeout, 14);
	assert_int_equal(attr.retry_cnt, 7);
	assert_int_equal(attr.rnr_retry, 7);
	assert_int_equal(attr.min_rnr_timer, 12);
	assert_int_equal(attr.ah_attr.grh.sgid_index, GID_IPV4);
	assert_memory_equal(&attr.ah_attr.grh.dgid, &peer_ipv4, sizeof(peer_ipv4));
	assert_int_equal(attr.cap.max_send_wr, 4);
	assert_int_equal(init.qp_type, IBV_QPT_RC);
	assert_ptr_equal(init.send_cq, &o.send_cq->ibv);
	qp_end(qp);
	objects_destroy(&o);
}

static void reset_forgets_the_queues_and_their_completions(void **state)
{
	struct objects o = objects_create();
	struct qp *qp = qp_in(&o, IBV_QPT_RC, IBV_QPS_RTS);
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send;
	struct ibv_recv_wr recv = {.wr_id = 1}, *bad_recv;
	struct ibv_wc wc = {.qp_num = qp->number};

	assert_int_equal(qp_post_send(qp, &send, &bad_send), 0);
	assert_int_equal(qp_post_recv(qp, &recv, &bad_recv), 0);
	cq_push(o.send_cq, &wc, false, 0);
	qp_to(qp, IBV_QPS_RESET, IBV_QP_STATE);
	assert_int_equal(qp->sq.head, qp->sq.tail);
	assert_null(recv_queue_first(&qp->rq));
	assert_int_equal(cq_poll(o.send_cq, 1, &wc), 0);
	assert_int_equal(qp->attr.dest_qp_num, 0);
	qp_end(qp);
	objects_destroy(&o);
}

/* ---- creation ---- */

static void a_qp_is_found_by_its_number_while_it_is_there(void **state)
{
	struct objects o = objects_create();
	struct qp *qp = qp_new(&o, IBV_QPT_RC);

	assert_int_equal(qp->number >> QPN_SLOT_SHIFT, FIXTURE_SLOT);
	assert_true((qp->number & 0xffff) >= 2);
	assert_ptr_equal(adapter_find_qp(&adapter, qp->number), qp);
	assert_null(adapter_find_qp(&adapter, qp->number ^ 1 << QPN_SLOT_SHIFT));
	assert_int_equal(qp_unlist(qp), 0);
	assert_null(adapter_find_qp(&adapter, qp->number));
	qp_free(qp);
	objects_destroy(&o);
}

static void each_change_and_its_end_are_counted(void **state)
{
	struct ibv_qp_rate_limit_attr limit = {.rate_limit = 1000};
	struct ibv_qp_attr attr = {.min_rnr_timer = 40};
	struct objects o = objects_create();
	struct qp *qp = qp_new(&o, IBV_QPT_RC);
	unsigned long before = atomic_load(&adapter.qp_changes);

	qp_bring_to(qp, IBV_QPS_RTS);
	assert_true(atomic_load(&adapter.qp_changes) > before);
	before = atomic_load(&adapter.qp_changes);
	assert_int_equal(qp_modify(qp, &attr, IBV_QP_MIN_RNR_TIMER), EINVAL);
	assert_int_equal(atomic_load(&adapter.qp_changes), before);
	attr.min_rnr_timer = 4;
	assert_int_equal(qp_modify(qp, &attr, IBV_QP_MIN_RNR_TIMER), 0);
	assert_int_equal(atomic_load(&adapter.qp_changes), ++before);
	assert_int_equal(qp_limit_rate(qp, &limit), 0);
	assert_int_equal(atomic_load(&adapter.qp_changes), ++before);
	assert_int_equal(qp_unlist(qp), 0);
	assert_int_equal(atomic_load(&adapter.qp_changes), ++before);
	qp_free(qp);
	objects_destroy(&o);
}

static void a_qp_holds_what_it_is_made_of(void **state)
{
	struct objects o = objects_create();
	struct qp *qp = qp_new(&o, IBV_QPT_RC);

	assert_refused(cq_destroy(o.send_cq), EBUSY, REASON_CQ_BUSY, "1 queues");
	assert_refused(cq_destroy(o.recv_cq), EBUSY, REASON_CQ_BUSY, "1 queues");
	assert_refused(pd_destroy(o.pd), EBUSY, REASON_PD_BUSY, "1 MR");
	qp_end(qp);
	objects_destroy(&o);
}

static void sizes_are_rounded_up_and_told(void **state)
{
	struct objects o = objects_create();
	struct ibv_qp_init_attr_ex attr = qp_attr(&o, IBV_QPT_RC);
	struct qp *qp;

	attr.cap.max_send_wr = 5;
	attr.cap.max_recv_wr = 0;
	assert_int_equal(qp_create(o.pd, &attr, &qp), 0);
	assert_int_equal(attr.cap.max_send_wr, 8);
	assert_int_equal(attr.cap.max_recv_wr, 0);
	assert_true(attr.cap.max_inline_data >= 64);
	qp_end(qp);
	objects_destroy(&o);
}

static void create_refused(struct objects *o, struct ibv_qp_init_attr_ex *attr, int error,
			   enum reason reason, const char *word)
{
	struct qp *qp;

	assert_refused(qp_create(o->pd, attr, &qp), error, reason, word);
}

static void every_bad_attribute_of_creation_is_refused(void **state)
{
	struct objects o = objects_create();
	struct ibv_qp_init_attr_ex attr;

	attr = qp_attr(&o, IBV_QPT_DRIVER);
	create_refused(&o, &attr, EOPNOTSUPP, REASON_QP_TYPE, "255");
	attr = qp_attr(&o, IBV_QPT_RC);
	attr.recv_cq = NULL;
	create_refused(&o, &attr, EINVAL, REASON_QP_NO_CQ, "recv_cq");
	attr = qp_attr(&o, IBV_QPT_RC);
	attr.send_cq = NULL;
	create_refused(&o, &attr, EINVAL, REASON_QP_NO_CQ, "send_cq");
	attr = qp_attr(&o, IBV_QPT_RC);
	attr.cap.max_send_wr = MAX_QP_WR + 1;
	create_refused(&o, &attr, EINVAL, REASON_QP_SIZE, "max_send_wr 65537");
	attr = qp_attr(&o, IBV_QPT_RC);
	attr.cap.max_recv_wr = UINT32_MAX;
	create_refused(&o, &attr, EINVAL, REASON_QP_SIZE, "max_recv_wr 4294967295");
	attr = qp_attr(&o, IBV_QPT_RC);
	attr.cap.max_send_sge = MAX_SGE + 1;
	create_refused(&o, &attr, EINVAL, REASON_QP_SGE, "max_send_sge 33");
	attr = qp_attr(&o, IBV_QPT_RC);
	attr.cap.max_inline_data = MAX_INLINE + 1;
	create_refused(&o, &attr, EINVAL, REASON_QP_INLINE, "1025");
	attr = qp_attr(&o, IBV_QPT_RC);
	attr.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
	create_refused(&o, &attr, EOPNOTSUPP, REASON_QP_EXTENSION, "0x8");
	attr = qp_attr(&o, IBV_QPT_RC);
	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	attr.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	create_refused(&o, &attr, EOPNOTSUPP, REASON_QP_EXTENSION, "create_flags");
	attr = qp_attr(&o, IBV_QPT_UD);
	attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ;
	create_refused(&o, &attr, EOPNOTSUPP, REASON_QP_SEND_OPS, "0x10");
	objects_destroy(&o);
}

static void a_cq_of_another_device_is_refused(void **state)
{
	static struct adapter other;
	struct objects o = objects_create();
	struct ibv_qp_init_attr_ex attr = qp_attr(&o, IBV_QPT_RC);
	struct cq *cq;

	assert_int_equal(adapter_init(&other, "rxe7", 1, 1, &fixture_host, NULL), 0);
	assert_int_equal(cq_create(&other, 1, &cq), 0);
	attr.recv_cq = &cq->ibv;
	create_refused(&o, &attr, EINVAL, REASON_QP_OTHER_DEVICE, "rxe7");
	cq_destroy(cq);
	adapter_fini(&other);
	objects_destroy(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(every_pair_of_states_is_as_the_table_has_it),
	    TEST(every_required_attribute_is_missed_by_its_name),
	    TEST(every_attribute_without_a_place_is_refused_by_its_name),
	    TEST(every_value_out_of_range_is_named),
	    TEST(a_state_that_is_none_is_refused),
	    TEST(a_wrong_current_state_is_refused),
	    TEST(an_alternate_path_is_refused),
	    TEST(psns_are_cut_to_24_bits),
	    TEST(what_was_set_is_told),
	    TEST(reset_forgets_the_queues_and_their_completions),
	    TEST(a_qp_is_found_by_its_number_while_it_is_there),
	    TEST(each_change_and_its_end_are_counted),
	    TEST(a_qp_holds_what_it_is_made_of),
	    TEST(sizes_are_rounded_up_and_told),
	    TEST(every_bad_attribute_of_creation_is_refused),
	    TEST(a_cq_of_another_device_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
