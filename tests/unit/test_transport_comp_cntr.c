/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion counters: each kind of operation at both ends, by number and by bytes, and refusals.
 */
#include <errno.h>

#include "device/comp_cntr.h"
#include "transport_pair.h"

static struct pair_options options;
static struct comp_cntr *at_a[COMP_CNTR_OPS], *at_b[COMP_CNTR_OPS];

static struct comp_cntr *create(struct side *side, enum ibv_comp_cntr_type type)
{
	struct ibv_comp_cntr_init_attr attr = {.type = type};
	struct comp_cntr *cntr;

	assert_int_equal(comp_cntr_create(&side->adapter, &attr, &cntr), 0);
	return cntr;
}

static int attach(struct comp_cntr *cntr, struct side *side, uint32_t ops)
{
	struct ibv_qp_attach_comp_cntr_attr attr = {.op_mask = ops};
	unsigned long changes = atomic_load(&side->adapter.qp_changes);
	int ret = comp_cntr_attach(cntr, side->qp, &attr);

	assert_int_equal(atomic_load(&side->adapter.qp_changes), changes + !ret);
	return ret;
}

/* A counter for each operation of each side. */
static struct pair *counted(enum ibv_comp_cntr_type type)
{
	struct pair *pair;

	options = default_options;
	pair = pair_new(&options);
	for (int i = 0; i < COMP_CNTR_OPS; i++) {
		at_a[i] = create(&pair->a, type);
		at_b[i] = create(&pair->b, type);
		assert_int_equal(attach(at_a[i], &pair->a, 1u << i), 0);
		assert_int_equal(attach(at_b[i], &pair->b, 1u << i), 0);
	}
	pair_connect(pair, &options);
	return pair;
}

static void end(struct pair *pair)
{
	struct comp_cntr *all[2 * COMP_CNTR_OPS];

	memcpy(all, at_a, sizeof(at_a));
	memcpy(all + COMP_CNTR_OPS, at_b, sizeof(at_b));
	assert_int_equal(comp_cntr_destroy(all[0]), EBUSY);
	assert_int_equal(reason_last(NULL), REASON_COMP_CNTR_BUSY);
	for (int i = 0; i < COMP_CNTR_OPS; i++)
		pair->a.qp->counters[i] = pair->b.qp->counters[i] = NULL;
	for (int i = 0; i < 2 * COMP_CNTR_OPS; i++) {
		atomic_fetch_sub(&all[i]->users, 1);
		assert_int_equal(comp_cntr_destroy(all[i]), 0);
	}
	pair_free(pair);
}

static void expect(struct comp_cntr *const *cntrs, const uint64_t done[COMP_CNTR_OPS])
{
	for (int i = 0; i < COMP_CNTR_OPS; i++) {
		assert_int_equal(cntrs[i]->done, done[i]);
		assert_int_equal(cntrs[i]->failed, 0);
	}
}

static void some_of_each(struct pair *pair)
{
	side_post_recv(&pair->b, 7, 0, 100);
	side_post_recv(&pair->b, 8, 0, 100);
	side_request(&pair->a, IBV_WR_SEND, 1, 0, 10);
	side_request(&pair->a, IBV_WR_SEND_WITH_IMM, 2, 0, 20);
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 3, 0, 3000);
	side_request(&pair->a, IBV_WR_RDMA_READ, 4, 0, 4000);
	side_request(&pair->a, IBV_WR_RDMA_READ, 5, 0, 1);
	side_atomic(&pair->a, IBV_WR_ATOMIC_FETCH_AND_ADD, 6, 0, 0, 1, 1);
	pair_run(pair);
}

/* in the order of the bits: SEND, RECV, READ, REMOTE_READ, WRITE, REMOTE_WRITE */
static void work_requests_are_counted(void **state)
{
	struct pair *pair = counted(IBV_COMP_CNTR_TYPE_WRS);

	some_of_each(pair);
	expect(at_a, (uint64_t[]){2, 0, 2, 0, 1, 0});
	expect(at_b, (uint64_t[]){0, 2, 0, 2, 0, 1});
	end(pair);
}

static void bytes_are_counted(void **state)
{
	struct pair *pair = counted(IBV_COMP_CNTR_TYPE_BYTES);

	some_of_each(pair);
	expect(at_a, (uint64_t[]){30, 0, 4001, 0, 3000, 0});
	expect(at_b, (uint64_t[]){0, 30, 0, 4001, 0, 3000});
	end(pair);
}

static void errors_are_counted_apart(void **state)
{
	struct pair *pair = counted(IBV_COMP_CNTR_TYPE_WRS);

	struct ibv_sge sge = side_sge(&pair->a, 0, 10);
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1};

	side_post(&pair->a, &wr);		       /* rkey 0 is nobody's */
	side_request(&pair->a, IBV_WR_SEND, 2, 0, 10); /* flushed */
	pair_run(pair);
	assert_int_equal(at_a[4]->failed, 1);
	assert_int_equal(at_a[4]->done, 0);
	assert_int_equal(at_a[0]->failed, 1);
	assert_int_equal(at_b[5]->failed, 1);
	assert_int_equal(at_b[5]->done, 0);
	end(pair);
}

static void duplicates_are_counted_once(void **state)
{
	struct pair *pair = counted(IBV_COMP_CNTR_TYPE_WRS);

	pair->meddle = pair_double;
	some_of_each(pair);
	pair_run_out(pair);
	expect(at_a, (uint64_t[]){2, 0, 2, 0, 1, 0});
	expect(at_b, (uint64_t[]){0, 2, 0, 2, 0, 1});
	end(pair);
}

static void refused(int error, int expected, enum reason reason)
{
	assert_int_equal(error, expected);
	assert_int_equal(reason_last(NULL), reason);
}

static void what_cannot_be_attached_is_refused(void **state)
{
	struct ibv_comp_cntr_init_attr odd = {.type = 2};
	struct ibv_qp_attach_comp_cntr_attr mask = {.comp_mask = 1, .op_mask = 1};
	struct comp_cntr *cntr, *second;
	struct pair *pair;

	options = default_options;
	pair = pair_new(&options);
	refused(comp_cntr_create(&pair->a.adapter, &odd, &cntr), EINVAL, REASON_COMP_CNTR_ATTR);
	odd = (struct ibv_comp_cntr_init_attr){.flags = 1};
	refused(comp_cntr_create(&pair->a.adapter, &odd, &cntr), EINVAL, REASON_COMP_CNTR_ATTR);
	cntr = create(&pair->a, IBV_COMP_CNTR_TYPE_WRS);
	second = create(&pair->a, IBV_COMP_CNTR_TYPE_WRS);
	refused(attach(cntr, &pair->a, 0), EINVAL, REASON_COMP_CNTR_MASK);
	refused(comp_cntr_attach(cntr, pair->a.qp, &mask), EINVAL, REASON_COMP_CNTR_MASK);
	refused(attach(cntr, &pair->a, 1 << 6), ENOTSUP, REASON_COMP_CNTR_OPS);
	refused(attach(cntr, &pair->b, 1), EINVAL, REASON_QP_OTHER_DEVICE);
	assert_int_equal(attach(cntr, &pair->a, 3), 0);
	refused(attach(second, &pair->a, 2), EBUSY, REASON_COMP_CNTR_TAKEN);
	assert_int_equal(second->users, 0);
	assert_int_equal(attach(second, &pair->a, 4), 0);
	pair_connect(pair, &options);
	refused(attach(second, &pair->a, 8), EINVAL, REASON_COMP_CNTR_STATE);
	refused(comp_cntr_destroy(second), EBUSY, REASON_COMP_CNTR_BUSY);
	memset(pair->a.qp->counters, 0, sizeof(pair->a.qp->counters));
	cntr->users = second->users = 0;
	assert_int_equal(comp_cntr_destroy(cntr), 0);
	assert_int_equal(comp_cntr_destroy(second), 0);
	pair_free(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(work_requests_are_counted),
	    cmocka_unit_test(bytes_are_counted),
	    cmocka_unit_test(errors_are_counted_apart),
	    cmocka_unit_test(duplicates_are_counted_once),
	    cmocka_unit_test(what_cannot_be_attached_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
