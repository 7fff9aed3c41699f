/* SPDX-License-Identifier: BSD-2-Clause */
/* Parent domains: whose objects go together, and allocators that are asked for each queue, may
 * leave some to us, and get back exactly what they gave. */
#include <infiniband/verbatim.h>

#include "fixture.h"
#include "device/buffer.h"

enum { MOST = 16 };

static struct {
	void *place;
	size_t size;
	uint64_t type;
} given[MOST];
static int alloc_count, free_count;
static bool use_default, has_none;

static void *on_alloc(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		      uint64_t type)
{
	void *place;

	assert_ptr_equal(pd_context, given);
	assert_true(alloc_count < MOST);
	if (has_none)
		return NULL;
	if (use_default)
		return IBV_ALLOCATOR_USE_DEFAULT;
	place = aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
	memset(place, 0x77, size);
	given[alloc_count].place = place;
	given[alloc_count].size = size;
	given[alloc_count++].type = type;
	return place;
}

static void on_free(struct ibv_pd *pd, void *pd_context, void *place, uint64_t type)
{
	assert_ptr_equal(pd_context, given);
	for (int i = 0; i < alloc_count; i++) {
		if (given[i].place != place)
			continue;
		assert_int_equal(given[i].type, type);
		given[i].place = NULL;
		free_count++;
		free(place);
		return;
	}
	fail_msg("%p was never given", place);
}

static struct objects o;
static struct pd *parent;

static int set_up(void **state)
{
	if (fixture_setup(state))
		return -1;
	alloc_count = free_count = 0;
	use_default = has_none = false;
	o = objects_create();
	if (pd_create_on(o.pd, &parent))
		return -1;
	parent->alloc = on_alloc;
	parent->free = on_free;
	parent->pd_context = given;
	return 0;
}

static int tear_down(void **state)
{
	assert_int_equal(alloc_count, free_count);
	assert_int_equal(pd_destroy(parent), 0);
	objects_destroy(&o);
	return fixture_teardown(state);
}

#define BUFFER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static struct qp *qp_of_parent(void)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(&o, IBV_QPT_RC);
	struct qp *qp;

	assert_int_equal(qp_create(parent, &attr, &qp), 0);
	return qp;
}

static void queues_are_where_the_program_wants_them(void **state)
{
	struct qp *qp = qp_of_parent();

	assert_int_equal(alloc_count, 2);
	assert_int_equal(given[0].type, VERBATIM_RESOURCE_SEND_QUEUE);
	assert_int_equal(given[1].type, VERBATIM_RESOURCE_RECV_QUEUE);
	assert_true(qp->sq.ring > (char *)given[0].place);
	assert_true(qp->sq.ring + qp->sq.max_wr * qp->sq.stride <=
		    (char *)given[0].place + given[0].size);
	assert_int_equal((uintptr_t)qp->sq.ring % 64, 0);
	for (size_t i = 0; i < qp->sq.stride; i++)
		assert_int_equal(qp->sq.ring[i], 0);
	qp_end(qp);
	assert_int_equal(free_count, 2);
}

static void an_srq_and_a_cq_too_and_when_they_grow(void **state)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq_attr larger = {.max_wr = 64};
	struct srq *srq;
	struct cq *cq;

	assert_int_equal(srq_create(parent, &attr, &srq), 0);
	assert_int_equal(given[0].type, VERBATIM_RESOURCE_SRQ);
	assert_int_equal(srq_modify(srq, &larger, IBV_SRQ_MAX_WR), 0);
	assert_int_equal(alloc_count, 2);
	assert_int_equal(free_count, 1);
	assert_int_equal(srq_destroy(srq), 0);
	assert_int_equal(cq_create_in(parent, 10, &cq), 0);
	assert_int_equal(given[2].type, VERBATIM_RESOURCE_CQ);
	assert_refused(pd_destroy(parent), EBUSY, REASON_PD_BUSY, "1");
	assert_int_equal(cq_resize(cq, 100), 0);
	assert_int_equal(alloc_count, 4);
	assert_int_equal(cq_destroy(cq), 0);
}

static void an_allocator_may_leave_it_to_us(void **state)
{
	struct qp *qp;

	use_default = true;
	qp = qp_of_parent();
	assert_int_equal(alloc_count, 0);
	qp_end(qp);
}

static void an_allocator_without_memory(void **state)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(&o, IBV_QPT_RC);
	struct qp *qp;
	struct cq *cq;

	has_none = true;
	assert_refused(qp_create(parent, &attr, &qp), ENOMEM, REASON_NO_MEMORY, "queues");
	assert_refused(cq_create_in(parent, 10, &cq), ENOMEM, REASON_NO_MEMORY, "10 entries");
}

static void sizes_beyond_measure(void **state)
{
	struct depot *const depots[] = {NULL, &adapter.depot, &adapter.depot};
	struct pd *const pds[] = {parent, parent, o.pd};

	for (int i = 0; i < 3; i++) {
		assert_null(buffer_alloc(pds[i], depots[i], SIZE_MAX / 2, 4, VERBATIM_RESOURCE_CQ));
		assert_null(buffer_alloc(pds[i], depots[i], 1, SIZE_MAX, VERBATIM_RESOURCE_CQ));
		buffer_free(pds[i], depots[i], NULL, SIZE_MAX, VERBATIM_RESOURCE_CQ);
	}
	assert_int_equal(alloc_count, 0);
}

static void objects_of_a_parent_and_of_its_pd_go_together(void **state)
{
	static char memory[64];
	struct pd *other;
	struct mr *mr;
	char *place;

	assert_int_equal(mr_create(parent, memory, 64, 0, 0, &mr), 0);
	assert_int_equal(mr_resolve_local(&adapter, o.pd, mr->lkey, 0, 64, 0, &place), REASON_NONE);
	assert_int_equal(mr_resolve_local(&adapter, parent, mr->lkey, 0, 64, 0, &place),
			 REASON_NONE);
	assert_int_equal(pd_create(&adapter, &other), 0);
	assert_int_equal(mr_resolve_local(&adapter, other, mr->lkey, 0, 64, 0, &place),
			 REASON_LKEY_PD);
	assert_refused(pd_destroy(parent), EBUSY, REASON_PD_BUSY, "1");
	assert_refused(pd_destroy(o.pd), EBUSY, REASON_PD_BUSY, "1");
	assert_int_equal(mr_destroy(mr), 0);
	assert_int_equal(pd_destroy(other), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    BUFFER_TEST(queues_are_where_the_program_wants_them),
	    BUFFER_TEST(an_srq_and_a_cq_too_and_when_they_grow),
	    BUFFER_TEST(an_allocator_may_leave_it_to_us),
	    BUFFER_TEST(an_allocator_without_memory),
	    BUFFER_TEST(sizes_beyond_measure),
	    BUFFER_TEST(objects_of_a_parent_and_of_its_pd_go_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
