/* SPDX-License-Identifier: BSD-2-Clause */
/* The tag list: order, masks, deletion, keeping step with the program, and each refusal. */
#include "fixture.h"

enum { TAGS = 4 };

static struct pd *pd;
static struct cq *cq;
static struct srq *srq;

static int setup(void **state)
{
	struct ibv_srq_init_attr_ex attr = {
	    .attr = {.max_wr = 4, .max_sge = 2},
	    .comp_mask = IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
	    .srq_type = IBV_SRQT_TM,
	    .tm_cap = {.max_num_tags = TAGS, .max_ops = 1},
	};

	if (fixture_setup(state) || pd_create(&adapter, &pd) || cq_create(&adapter, 64, &cq))
		return -1;
	attr.cq = &cq->ibv;
	return srq_create_ex(pd, &attr, &srq);
}

static int teardown(void **state)
{
	return srq_destroy(srq) || cq_destroy(cq) || pd_destroy(pd) || fixture_teardown(state);
}

#define TAG_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static int post(struct ibv_ops_wr *op)
{
	struct ibv_ops_wr *bad = NULL;
	int ret = tag_post(srq, op, &bad, 5);

	assert_ptr_equal(bad, ret ? op : NULL);
	return ret;
}

static uint32_t add(uint64_t wr_id, uint64_t tag, uint64_t mask)
{
	struct ibv_sge sge[2] = {{.addr = 1, .length = 10}, {.addr = 2, .length = 20}};
	struct ibv_ops_wr op = {
	    .opcode = IBV_WR_TAG_ADD,
	    .tm.add = {.recv_wr_id = wr_id, .sg_list = sge, .num_sge = 2, .tag = tag, .mask = mask},
	};

	assert_int_equal(post(&op), 0);
	return op.tm.handle;
}

/* The wr_id of the buffer that a message of this tag finds, 0 for none. */
static uint64_t match(uint64_t tag)
{
	union {
		struct recv_wqe wqe;
		char room[sizeof(struct recv_wqe) + 2 * sizeof(struct ibv_sge)];
	} taken;

	if (!tag_match(srq, tag, &taken.wqe))
		return 0;
	assert_int_equal(taken.wqe.num_sge, 2);
	assert_int_equal(taken.wqe.length, 30);
	assert_int_equal(taken.wqe.sge[1].length, 20);
	return taken.wqe.wr_id;
}

static struct ibv_wc completion(uint64_t wr_id, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;

	assert_int_equal(cq_poll(cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.opcode, opcode);
	return wc;
}

static void the_oldest_that_matches_is_taken(void **state)
{
	add(1, 7, UINT64_MAX);
	add(2, 8, UINT64_MAX);
	add(3, 7, UINT64_MAX);
	assert_int_equal(match(8), 2);
	assert_int_equal(match(7), 1);
	assert_int_equal(match(7), 3);
	assert_int_equal(match(7), 0);
}

/* TMH.tag & entry.mask == entry.tag */
static void the_mask_says_which_bits_count(void **state)
{
	add(1, 0x1200, 0xff00);
	add(2, 0, 0);
	assert_int_equal(match(0x1234), 1);
	assert_int_equal(match(0x1234), 2);
	add(3, 0x34, 0xff00); /* bits outside of the mask: nothing matches */
	assert_int_equal(match(0x34), 0);
}

static void a_deleted_tag_is_not_found(void **state)
{
	uint32_t handle = add(1, 7, UINT64_MAX);
	struct ibv_ops_wr op = {.wr_id = 9, .opcode = IBV_WR_TAG_DEL, .flags = IBV_OPS_SIGNALED};

	op.tm.handle = handle;
	assert_int_equal(post(&op), 0);
	assert_int_equal(completion(9, IBV_WC_TM_DEL).status, IBV_WC_SUCCESS);
	assert_int_equal(match(7), 0);
}

/* The completion comes unasked for: the buffer is somebody else's now. */
static void deleting_what_a_message_took_fails(void **state)
{
	struct ibv_ops_wr op = {.wr_id = 9, .opcode = IBV_WR_TAG_DEL};
	struct ibv_wc wc;

	op.tm.handle = add(1, 7, UINT64_MAX);
	assert_int_equal(match(7), 1);
	add(2, 7, UINT64_MAX); /* perhaps in the same place */
	add(3, 8, UINT64_MAX);
	add(4, 8, UINT64_MAX);
	add(5, 8, UINT64_MAX);
	assert_int_equal(post(&op), 0);
	wc = completion(9, IBV_WC_TM_DEL);
	assert_int_equal(wc.status, IBV_WC_TM_ERR);
	assert_int_equal(wc.vendor_err, REASON_TAG_GONE);
	assert_int_equal(match(7), 2);
}

static void only_signaled_operations_complete(void **state)
{
	struct ibv_ops_wr op = {.wr_id = 5, .opcode = IBV_WR_TAG_ADD, .flags = IBV_OPS_SIGNALED};
	struct ibv_wc wc;

	add(1, 7, UINT64_MAX);
	assert_int_equal(cq_poll(cq, 1, &wc), 0);
	assert_int_equal(post(&op), 0);
	wc = completion(5, IBV_WC_TM_ADD);
	assert_int_equal(wc.wc_flags, 0);
}

/* m1 is unexpected, then b1 is added for it, then m2 comes: m2 must not have b1. */
static void tags_added_out_of_step_wait_for_the_program(void **state)
{
	struct ibv_ops_wr op = {.wr_id = 6, .opcode = IBV_WR_TAG_ADD, .flags = IBV_OPS_SIGNALED};
	struct ibv_sge sge[2] = {{.length = 10}, {.length = 20}};

	add(1, 1, UINT64_MAX);
	assert_int_equal(match(7), 0); /* m1 */
	op.tm.add.tag = 7;
	op.tm.add.mask = UINT64_MAX;
	op.tm.add.recv_wr_id = 2;
	op.tm.add.sg_list = sge;
	op.tm.add.num_sge = 2;
	assert_int_equal(post(&op), 0); /* b1 */
	assert_int_equal(completion(6, IBV_WC_TM_ADD).wc_flags, IBV_WC_TM_SYNC_REQ);
	assert_int_equal(match(7), 0); /* m2 */
	assert_int_equal(match(1), 1); /* older tags go on */

	op = (struct ibv_ops_wr){
	    .wr_id = 7, .opcode = IBV_WR_TAG_SYNC, .flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC};
	op.tm.unexpected_cnt = 1; /* m2 was not seen yet */
	assert_int_equal(post(&op), 0);
	assert_int_equal(completion(7, IBV_WC_TM_SYNC).wc_flags, IBV_WC_TM_SYNC_REQ);
	op.tm.unexpected_cnt = 2;
	assert_int_equal(post(&op), 0);
	assert_int_equal(completion(7, IBV_WC_TM_SYNC).wc_flags, 0);
	assert_int_equal(match(7), 2);
}

static void what_was_not_delivered_is_not_counted(void **state)
{
	assert_int_equal(match(7), 0);
	tag_unexpected_undo(srq);
	add(1, 7, UINT64_MAX);
	assert_int_equal(match(7), 1);
}

static void counts_of_16_bits_are_enough(void **state)
{
	struct ibv_ops_wr op = {.opcode = IBV_WR_TAG_SYNC, .flags = IBV_OPS_TM_SYNC};

	for (int i = 0; i < 65537; i++)
		assert_int_equal(match(7), 0);
	op.tm.unexpected_cnt = 1;
	assert_int_equal(post(&op), 0);
	add(1, 7, UINT64_MAX);
	assert_int_equal(match(7), 1);
}

static void a_full_list_refuses(void **state)
{
	struct ibv_ops_wr op = {.wr_id = 0x99, .opcode = IBV_WR_TAG_ADD}, *bad;

	for (uint64_t i = 0; i < TAGS; i++)
		add(i + 1, i, UINT64_MAX);
	assert_refused(tag_post(srq, &op, &bad, 0), ENOMEM, REASON_TAG_LIST_FULL, "0x99");
	assert_int_equal(match(2), 3);
	assert_int_equal(post(&op), 0);
}

static void bad_operations_are_refused(void **state)
{
	struct ibv_ops_wr good = {.opcode = IBV_WR_TAG_SYNC}, op, *bad;
	struct ibv_srq_init_attr basic_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct srq *basic;

	op = (struct ibv_ops_wr){.wr_id = 3, .opcode = 3};
	good.next = &op;
	assert_refused(tag_post(srq, &good, &bad, 0), EINVAL, REASON_TAG_OPCODE, "opcode is 3");
	assert_ptr_equal(bad, &op);
	op = (struct ibv_ops_wr){.opcode = IBV_WR_TAG_SYNC, .flags = 4};
	assert_refused(tag_post(srq, &op, &bad, 0), EINVAL, REASON_TAG_FLAGS, "0x4");
	op = (struct ibv_ops_wr){.opcode = IBV_WR_TAG_ADD, .tm.add = {.num_sge = 3}};
	assert_refused(tag_post(srq, &op, &bad, 0), EINVAL, REASON_TAG_SGE, "3 elements");
	op.tm.add.num_sge = -1;
	assert_refused(tag_post(srq, &op, &bad, 0), EINVAL, REASON_TAG_SGE, "-1 elements");
	assert_int_equal(srq_create(pd, &basic_attr, &basic), 0);
	op.tm.add.num_sge = 0;
	assert_refused(tag_post(basic, &op, &bad, 0), EINVAL, REASON_SRQ_NOT_TM, "SRQ");
	assert_ptr_equal(bad, &op);
	assert_int_equal(srq_destroy(basic), 0);
}

static void a_list_without_tags_or_with_too_many_is_refused(void **state)
{
	struct ibv_srq_init_attr_ex attr = {
	    .attr = {.max_wr = 4, .max_sge = 1},
	    .comp_mask = IBV_SRQ_INIT_ATTR_CQ,
	    .srq_type = IBV_SRQT_TM,
	    .cq = &cq->ibv,
	    .tm_cap = {.max_num_tags = 1, .max_ops = 1},
	};
	struct srq *other;

	assert_refused(srq_create_ex(pd, &attr, &other), EINVAL, REASON_SRQ_NO_TM, "0x8");
	attr.comp_mask = IBV_SRQ_INIT_ATTR_TM;
	assert_refused(srq_create_ex(pd, &attr, &other), EINVAL, REASON_SRQ_NO_CQ, "0x10");
	attr.comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
	attr.tm_cap.max_num_tags = 0;
	assert_refused(srq_create_ex(pd, &attr, &other), EINVAL, REASON_SRQ_TM_SIZE, "tags 0");
	attr.tm_cap.max_num_tags = MAX_TAGS + 1;
	assert_refused(srq_create_ex(pd, &attr, &other), EINVAL, REASON_SRQ_TM_SIZE, "8193");
	attr.tm_cap.max_num_tags = 1;
	attr.tm_cap.max_ops = 0;
	assert_refused(srq_create_ex(pd, &attr, &other), EINVAL, REASON_SRQ_TM_SIZE, "ops 0");
}

static void only_rc_receives_from_it(void **state)
{
	struct objects o = {pd, cq, cq};
	struct ibv_qp_init_attr_ex attr = qp_attr(&o, IBV_QPT_UD);
	struct qp *qp;

	attr.srq = &srq->ibv;
	assert_refused(qp_create(pd, &attr, &qp), EINVAL, REASON_QP_TM_TYPE, "4");
	attr.qp_type = IBV_QPT_RC;
	assert_int_equal(qp_create(pd, &attr, &qp), 0);
	qp_end(qp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TAG_TEST(the_oldest_that_matches_is_taken),
	    TAG_TEST(the_mask_says_which_bits_count),
	    TAG_TEST(a_deleted_tag_is_not_found),
	    TAG_TEST(deleting_what_a_message_took_fails),
	    TAG_TEST(only_signaled_operations_complete),
	    TAG_TEST(tags_added_out_of_step_wait_for_the_program),
	    TAG_TEST(what_was_not_delivered_is_not_counted),
	    TAG_TEST(counts_of_16_bits_are_enough),
	    TAG_TEST(a_full_list_refuses),
	    TAG_TEST(bad_operations_are_refused),
	    TAG_TEST(a_list_without_tags_or_with_too_many_is_refused),
	    TAG_TEST(only_rc_receives_from_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
