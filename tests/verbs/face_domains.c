/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Thread domains and parent domains: traffic over queues in memory of the program's, and what
 * cannot be made or ended.
 */
#define _GNU_SOURCE
#include <infiniband/verbatim.h>

#include "live.h"

static int allocs, frees;
static uint64_t types; /* bit mask of those asked for */

static void *on_alloc(struct ibv_pd *parent, void *pd_context, size_t size, size_t alignment,
		      uint64_t type)
{
	assert_ptr_equal(pd_context, &allocs);
	allocs++;
	types |= 1u << type;
	return type == VERBATIM_RESOURCE_RECV_QUEUE
		   ? IBV_ALLOCATOR_USE_DEFAULT
		   : aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
}

static void on_free(struct ibv_pd *parent, void *pd_context, void *place, uint64_t type)
{
	assert_int_not_equal(type, VERBATIM_RESOURCE_RECV_QUEUE);
	frees++;
	free(place);
}

static struct ibv_parent_domain_init_attr with_allocators(void)
{
	struct ibv_parent_domain_init_attr attr = {
	    .pd = pd,
	    .comp_mask =
		IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
	    .alloc = on_alloc,
	    .free = on_free,
	    .pd_context = &allocs,
	};

	return attr;
}

static struct ibv_cq *cq_of(struct ibv_pd *parent)
{
	struct ibv_cq_init_attr_ex attr = {
	    .cqe = CQE, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = parent};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &attr);

	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

/* An end whose queues are all the parent domain's, and whose region is the plain PD's. */
static void end_of(struct end *end, struct ibv_pd *parent)
{
	struct ibv_qp_init_attr attr;

	end_make_buffer(end);
	end->cq = cq_of(parent);
	assert_non_null(end->cq);
	attr = end_qp_attr(end->cq, IBV_QPT_RC);
	end->qp = ibv_create_qp(parent, &attr);
	assert_non_null(end->qp);
	qp_init(end->qp, live_access);
}

static void traffic_over_queues_of_the_program(void **state)
{
	struct ibv_parent_domain_init_attr attr = with_allocators();
	struct ibv_td_init_attr td_attr = {0};
	struct ibv_pd *parent;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct end a, b;

	attr.td = ibv_alloc_td(context, &td_attr);
	assert_non_null(attr.td);
	parent = ibv_alloc_parent_domain(context, &attr);
	assert_non_null(parent);
	allocs = frees = 0;
	end_of(&a, parent);
	end_of(&b, parent);
	assert_int_equal(allocs, 6);
	assert_int_equal(types, 1u << VERBATIM_RESOURCE_SEND_QUEUE |
				    1u << VERBATIM_RESOURCE_RECV_QUEUE |
				    1u << VERBATIM_RESOURCE_CQ);
	qp_connect(a.qp, b.qp->qp_num);
	qp_connect(b.qp, a.qp->qp_num);
	for (uint64_t i = 0; i < 100; i++) {
		assert_int_equal(post_recv(&b, i, 64), 0);
		sge = end_sge(&a, 0, 64);
		wr = make_send(IBV_WR_SEND, &sge);
		post_send_wr(&a, &wr);
		assert_wc(next_wc(a.cq), wr.wr_id, IBV_WC_SUCCESS);
		assert_wc(next_wc(b.cq), i, IBV_WC_SUCCESS);
	}
	assert_refused(ibv_dealloc_td(attr.td), EBUSY, REASON_TD_BUSY, "1 parent");
	assert_refused(ibv_dealloc_pd(parent), EBUSY, REASON_PD_BUSY, "4");
	end_destroy(&a);
	end_destroy(&b);
	assert_int_equal(frees, 4);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_td(attr.td), 0);
}

static void all_objects_can_be_made_from_a_parent(void **state)
{
	struct ibv_parent_domain_init_attr attr = {.pd = pd};
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &attr);
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_ah_attr ah_attr = rtr_attr(0).ah_attr;
	static char memory[64];
	struct ibv_srq *srq = ibv_create_srq(parent, &srq_attr);
	struct ibv_ah *ah = ibv_create_ah(parent, &ah_attr);
	struct ibv_mr *mr = ibv_reg_mr(parent, memory, 64, 0);
	struct ibv_mw *mw = ibv_alloc_mw(parent, IBV_MW_TYPE_2);

	assert_non_null(srq);
	assert_non_null(ah);
	assert_non_null(mr);
	assert_non_null(mw);
	assert_ptr_equal(mr->pd, parent);
	assert_refused(ibv_dealloc_pd(parent), EBUSY, REASON_PD_BUSY, "4");
	assert_refused(ibv_dealloc_pd(pd), EBUSY, REASON_PD_BUSY, "1");
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

static void domains_that_cannot_be(void **state)
{
	struct ibv_context *second = open_loopback();
	struct ibv_pd *far = ibv_alloc_pd(second);
	struct ibv_parent_domain_init_attr attr = {.pd = NULL};
	struct ibv_td_init_attr td_attr = {.comp_mask = 4};
	struct ibv_pd *parent;

	assert_refused_null(ibv_alloc_td(context, &td_attr), EINVAL, REASON_COMP_MASK, "0x4");
	assert_refused_null(ibv_alloc_parent_domain(context, &attr), EINVAL, REASON_PARENT_PD,
			    "NULL");
	attr.pd = far;
	assert_refused_null(ibv_alloc_parent_domain(context, &attr), EINVAL, REASON_PARENT_CONTEXT,
			    "pd");
	attr = with_allocators();
	attr.free = NULL;
	assert_refused_null(ibv_alloc_parent_domain(context, &attr), EINVAL,
			    REASON_PARENT_ALLOCATORS, "free");
	attr.comp_mask = 1 << 6;
	assert_refused_null(ibv_alloc_parent_domain(context, &attr), EINVAL, REASON_COMP_MASK,
			    "0x40");
	attr.comp_mask = 0;
	td_attr.comp_mask = 0;
	attr.td = ibv_alloc_td(second, &td_attr);
	assert_refused_null(ibv_alloc_parent_domain(context, &attr), EINVAL, REASON_PARENT_CONTEXT,
			    "td");
	assert_int_equal(ibv_dealloc_td(attr.td), 0);
	attr.td = NULL;
	parent = ibv_alloc_parent_domain(context, &attr);
	attr.pd = parent;
	assert_refused_null(ibv_alloc_parent_domain(context, &attr), EINVAL, REASON_PARENT_PD,
			    "a parent");
	assert_refused_null(cq_of(NULL), EINVAL, REASON_CQ_PD, "NULL");
	assert_refused_null(cq_of(far), EINVAL, REASON_CQ_PD, "context");
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_pd(far), 0);
	assert_int_equal(ibv_close_device(second), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(traffic_over_queues_of_the_program),
	    cmocka_unit_test(all_objects_can_be_made_from_a_parent),
	    cmocka_unit_test(domains_that_cannot_be),
	};

	return cmocka_run_group_tests(tests, live_open, live_close);
}
