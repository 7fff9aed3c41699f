/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups: who is told for a group, the first and the last of it, and each refusal. */
#include "fixture.h"

static struct objects o;

static int setup(void **state)
{
	if (fixture_setup(state))
		return -1;
	o = objects_create();
	return 0;
}

static int teardown(void **state)
{
	objects_destroy(&o);
	return fixture_teardown(state);
}

#define MCAST_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void count(struct qp *qp, void *data)
{
	++*(int *)data;
}

static int members(const union ibv_gid *group)
{
	int number = 0;

	mcast_for_each(&adapter.mcast, group, count, &number);
	return number;
}

static void the_first_joins_and_the_last_leaves(void **state)
{
	struct qp *a = qp_new(&o, IBV_QPT_UD), *b = qp_new(&o, IBV_QPT_UD);
	bool is_edge;

	assert_int_equal(members(&group_ipv4), 0);
	assert_int_equal(mcast_attach(&adapter, a, &group_ipv4, &is_edge), 0);
	assert_true(is_edge);
	assert_int_equal(mcast_attach(&adapter, b, &group_ipv4, &is_edge), 0);
	assert_false(is_edge);
	assert_int_equal(members(&group_ipv4), 2);
	assert_int_equal(mcast_detach(&adapter, a, &group_ipv4, &is_edge), 0);
	assert_false(is_edge);
	assert_int_equal(mcast_detach(&adapter, b, &group_ipv4, &is_edge), 0);
	assert_true(is_edge);
	assert_int_equal(members(&group_ipv4), 0);
	qp_end(a);
	qp_end(b);
}

static void attaching_twice_is_one_attachment(void **state)
{
	struct qp *qp = qp_new(&o, IBV_QPT_UD);
	bool is_edge;

	assert_int_equal(mcast_attach(&adapter, qp, &group_ipv4, &is_edge), 0);
	assert_int_equal(mcast_attach(&adapter, qp, &group_ipv4, &is_edge), 0);
	assert_int_equal(members(&group_ipv4), 1);
	assert_int_equal(mcast_detach(&adapter, qp, &group_ipv4, &is_edge), 0);
	assert_int_equal(members(&group_ipv4), 0);
	qp_end(qp);
}

static void only_ud_qps_join(void **state)
{
	struct qp *qp = qp_new(&o, IBV_QPT_RC);
	bool is_edge;

	assert_refused(mcast_attach(&adapter, qp, &group_ipv4, &is_edge), EINVAL,
		       REASON_MCAST_NOT_UD, "not of type UD");
	qp_end(qp);
}

static void only_multicast_addresses_are_groups(void **state)
{
	struct qp *qp = qp_new(&o, IBV_QPT_UD);
	bool is_edge;

	assert_refused(mcast_attach(&adapter, qp, &peer_ipv4, &is_edge), EINVAL, REASON_MCAST_GID,
		       "::ffff:192.0.2.9");
	qp_end(qp);
}

static void who_is_not_there_cannot_leave(void **state)
{
	struct qp *qp = qp_new(&o, IBV_QPT_UD);
	bool is_edge;

	assert_refused(mcast_detach(&adapter, qp, &group_ipv4, &is_edge), EINVAL,
		       REASON_MCAST_NOT_ATTACHED, "::ffff:239.1.2.3");
	qp_end(qp);
}

static void an_attached_qp_cannot_go(void **state)
{
	struct qp *qp = qp_new(&o, IBV_QPT_UD);
	bool is_edge;

	assert_int_equal(mcast_attach(&adapter, qp, &group_ipv4, &is_edge), 0);
	assert_refused(qp_unlist(qp), EBUSY, REASON_QP_ATTACHED, "1 groups");
	assert_ptr_equal(adapter_find_qp(&adapter, qp->number), qp);
	assert_int_equal(mcast_detach(&adapter, qp, &group_ipv4, &is_edge), 0);
	qp_end(qp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    MCAST_TEST(the_first_joins_and_the_last_leaves),
	    MCAST_TEST(attaching_twice_is_one_attachment),
	    MCAST_TEST(only_ud_qps_join),
	    MCAST_TEST(only_multicast_addresses_are_groups),
	    MCAST_TEST(who_is_not_there_cannot_leave),
	    MCAST_TEST(an_attached_qp_cannot_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
