// SPDX-License-Identifier: BSD-2-Clause
/*
 * What is not implemented refuses: EOPNOTSUPP in the way of each call, with the reason that names
 * the call, outputs untouched, nothing called through an empty slot.
 */
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdarg.h>
#include <cmocka.h>
#include "explain/reason.h"
#include "verbs/unsupported.h"

/* A context, all entry points refusing, and objects on it. */
static struct verbs_context extended;
static struct ibv_context *context = &extended.context;
static struct ibv_pd pd = {.context = &extended.context};
static struct ibv_mw mw = {.context = &extended.context, .pd = &pd, .type = IBV_MW_TYPE_1};
static struct ibv_cq cq = {.context = &extended.context};
static struct ibv_qp qp = {.context = &extended.context};
static struct ibv_srq srq = {.context = &extended.context};

static int fill(void **state)
{
	unsupported_ops(&extended);
	return 0;
}

/* The last refusal is NOT_IMPLEMENTED of this call. */
static void refused(const char *call)
{
	const char *live;

	assert_int_equal(reason_last(&live), REASON_NOT_IMPLEMENTED);
	assert_string_equal(live, call);
	reason_clear();
	errno = 0;
}

#define REFUSES_ERRNO(call, name)                                                                  \
	do {                                                                                       \
		assert_int_equal(call, EOPNOTSUPP);                                                \
		refused(name);                                                                     \
	} while (0)

#define REFUSES_NULL(call, name)                                                                   \
	do {                                                                                       \
		errno = 0;                                                                         \
		assert_null(call);                                                                 \
		assert_int_equal(errno, EOPNOTSUPP);                                               \
		refused(name);                                                                     \
	} while (0)

#define REFUSES_MINUS_1(call, name)                                                                \
	do {                                                                                       \
		errno = 0;                                                                         \
		assert_int_equal(call, -1);                                                        \
		assert_int_equal(errno, EOPNOTSUPP);                                               \
		refused(name);                                                                     \
	} while (0)

static void no_slot_is_empty(void **state)
{
	void *const *slot = (void *const *)&extended;
	size_t extended_slots = offsetof(struct verbs_context, _ABI_placeholder3) / sizeof(void *);
	size_t empty = 0;

	for (size_t i = 0; i < extended_slots; i++)
		empty += !slot[i];
	assert_int_equal(empty, 3); /* priv, and two that have no meaning */
	assert_null(extended.priv);
	assert_null(extended.ABI_placeholder1);
	assert_null(extended.ABI_placeholder2);
	assert_non_null(context->ops.alloc_mw);
	assert_non_null(context->ops.bind_mw);
	assert_non_null(context->ops.dealloc_mw);
	assert_non_null(context->ops.poll_cq);
	assert_non_null(context->ops.req_notify_cq);
	assert_non_null(context->ops.post_srq_recv);
	assert_non_null(context->ops.post_send);
	assert_non_null(context->ops.post_recv);
	assert_ptr_equal(verbs_get_ctx(context), &extended);
}

static void inline_calls_refuse_with_their_name(void **state)
{
	struct ibv_mw_bind bind = {.bind_info = {.mr = NULL}};
	struct ibv_xrcd xrcd = {.context = context};
	struct ibv_td td = {.context = context};
	struct ibv_dm dm = {.context = context};
	uint32_t number = 77;

	REFUSES_NULL(ibv_alloc_mw(&pd, IBV_MW_TYPE_1), "ibv_alloc_mw");
	REFUSES_ERRNO(ibv_bind_mw(&qp, &mw, &bind), "ibv_bind_mw");
	REFUSES_ERRNO(ibv_dealloc_mw(&mw), "ibv_dealloc_mw");
	REFUSES_NULL(ibv_open_xrcd(context, NULL), "ibv_open_xrcd");
	REFUSES_ERRNO(ibv_close_xrcd(&xrcd), "ibv_close_xrcd");
	REFUSES_NULL(ibv_alloc_td(context, NULL), "ibv_alloc_td");
	REFUSES_ERRNO(ibv_dealloc_td(&td), "ibv_dealloc_td");
	REFUSES_NULL(ibv_alloc_parent_domain(context, NULL), "ibv_alloc_parent_domain");
	REFUSES_NULL(ibv_alloc_dm(context, NULL), "ibv_alloc_dm");
	REFUSES_ERRNO(ibv_free_dm(&dm), "ibv_free_dm");
	REFUSES_NULL(ibv_reg_dm_mr(&pd, &dm, 0, 1, 0), "ibv_reg_dm_mr");
	REFUSES_NULL(ibv_alloc_null_mr(&pd), "ibv_alloc_null_mr");
	REFUSES_ERRNO(ibv_advise_mr(&pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 0),
		      "ibv_advise_mr");
	REFUSES_NULL(ibv_create_cq_ex(context, NULL), "ibv_create_cq_ex");
	REFUSES_ERRNO(ibv_modify_cq(&cq, NULL), "ibv_modify_cq");
	REFUSES_ERRNO(ibv_get_srq_num(&srq, &number), "ibv_get_srq_num");
	REFUSES_NULL(ibv_open_qp(context, NULL), "ibv_open_qp");
	REFUSES_ERRNO(ibv_modify_qp_rate_limit(&qp, NULL), "ibv_modify_qp_rate_limit");
	REFUSES_NULL(ibv_create_flow(&qp, NULL), "ibv_create_flow");
	REFUSES_NULL(ibv_create_flow_action_esp(context, NULL), "ibv_create_flow_action_esp");
	REFUSES_NULL(ibv_create_wq(context, &(struct ibv_wq_init_attr){0}), "ibv_create_wq");
	REFUSES_NULL(ibv_create_rwq_ind_table(context, NULL), "ibv_create_rwq_ind_table");
	REFUSES_NULL(ibv_create_counters(context, NULL), "ibv_create_counters");
	REFUSES_ERRNO(ibv_query_rt_values_ex(context, NULL), "ibv_query_rt_values");
	assert_int_equal(number, 77);
}

static void posting_refuses_at_the_first_request(void **state)
{
	struct ibv_send_wr send = {.next = NULL}, *bad_send = NULL;
	struct ibv_recv_wr recv = {.next = NULL}, *bad_recv = NULL;
	struct ibv_ops_wr op = {.next = NULL}, *bad_op = NULL;
	struct ibv_wc wc;

	REFUSES_ERRNO(ibv_post_send(&qp, &send, &bad_send), "ibv_post_send");
	assert_ptr_equal(bad_send, &send);
	REFUSES_ERRNO(ibv_post_recv(&qp, &recv, &bad_recv), "ibv_post_recv");
	assert_ptr_equal(bad_recv, &recv);
	bad_recv = NULL;
	REFUSES_ERRNO(ibv_post_srq_recv(&srq, &recv, &bad_recv), "ibv_post_srq_recv");
	assert_ptr_equal(bad_recv, &recv);
	REFUSES_ERRNO(ibv_post_srq_ops(&srq, &op, &bad_op), "ibv_post_srq_ops");
	assert_ptr_equal(bad_op, &op);
	assert_true(ibv_poll_cq(&cq, 1, &wc) < 0);
	refused("ibv_poll_cq");
}

/* What the inline functions decide themselves, before anybody is asked. */
static void a_window_that_cannot_be_bound_is_refused_at_once(void **state)
{
	struct ibv_pd other = {.context = context};
	struct ibv_mr mr = {.context = context, .pd = &other};
	struct ibv_mw two = {.context = context, .pd = &pd, .type = IBV_MW_TYPE_2};
	struct ibv_mw_bind bind = {.bind_info = {.mr = NULL, .length = 1}};

	reason_clear();
	assert_int_equal(ibv_bind_mw(&qp, &two, &bind), EINVAL);
	assert_int_equal(ibv_bind_mw(&qp, &mw, &bind), EINVAL);
	bind.bind_info.mr = &mr;
	assert_int_equal(ibv_bind_mw(&qp, &mw, &bind), EPERM);
	assert_int_equal(reason_last(NULL), REASON_NONE);
}

/* A context without extensions, or of a library that knew fewer: the header's own answer. */
static void an_older_context_has_no_extensions(void **state)
{
	struct verbs_context older = extended;

	older.sz = sizeof(older) - offsetof(struct verbs_context, query_port);
	assert_non_null(verbs_get_ctx_op(&older.context, query_port));
	assert_null(verbs_get_ctx_op(&older.context, alloc_dmah));
	older.context.abi_compat = NULL;
	assert_null(verbs_get_ctx_op(&older.context, query_port));
	errno = 0;
	assert_null(ibv_create_cq_ex(&older.context, NULL));
	assert_int_equal(errno, EOPNOTSUPP);
}

/* As a hardware provider calls them, with its own idea of the arguments. */
int ibv_cmd_create_cq(struct ibv_context *ctx, int cqe, void *channel, int vector, ...);
struct ibv_context *verbs_open_device(struct ibv_device *device, void *private_data);
void verbs_register_driver_34(const void *ops);

static void providers_register_and_are_refused_the_kernel(void **state)
{
	struct ibv_device device = {.name = "mlx5_0"};
	const char *live;

	verbs_register_driver_34(&device);
	assert_int_equal(ibv_cmd_create_cq(context, 1, NULL, 0), EOPNOTSUPP);
	assert_int_equal(reason_last(&live), REASON_PROVIDER_INTERFACE);
	assert_string_equal(live, "ibv_cmd_create_cq");
	errno = 0;
	assert_null(verbs_open_device(&device, NULL));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(reason_last(&live), REASON_PROVIDER_INTERFACE);
	assert_string_equal(live, "verbs_open_device of mlx5_0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(no_slot_is_empty),
	    cmocka_unit_test(inline_calls_refuse_with_their_name),
	    cmocka_unit_test(posting_refuses_at_the_first_request),
	    cmocka_unit_test(a_window_that_cannot_be_bound_is_refused_at_once),
	    cmocka_unit_test(an_older_context_has_no_extensions),
	    cmocka_unit_test(providers_register_and_are_refused_the_kernel),
	};

	return cmocka_run_group_tests(tests, fill, NULL);
}
