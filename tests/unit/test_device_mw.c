/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows: what binds and what does not, who may come in by which key, and when it ends. */
#include <sched.h>

#include "fixture.h"
#include "device/access.h"
#include "device/mw.h"

enum {
	SIZE = 256,
	REGION = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND,
	RIGHTS = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
};

static char memory[SIZE] __attribute__((aligned(64)));
static struct objects o;
static struct qp *qp, *other;
static struct mr *mr;
static struct mw *one, *two;

static struct mr *region(struct pd *pd, uint64_t iova, unsigned int access)
{
	struct mr *new;

	assert_int_equal(mr_create(pd, memory, SIZE, iova, access, &new), 0);
	return new;
}

static int set_up(void **state)
{
	if (fixture_setup(state))
		return -1;
	o = objects_create();
	qp = qp_new(&o, IBV_QPT_RC);
	other = qp_new(&o, IBV_QPT_RC);
	mr = region(o.pd, (uintptr_t)memory, REGION);
	return mw_create(o.pd, IBV_MW_TYPE_1, &one) || mw_create(o.pd, IBV_MW_TYPE_2, &two);
}

static int tear_down(void **state)
{
	mw_destroy(one);
	mw_destroy(two);
	assert_int_equal(mr_destroy(mr), 0);
	qp_end(qp);
	qp_end(other);
	objects_destroy(&o);
	return fixture_teardown(state);
}

#define MW_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static uint64_t at(size_t offset)
{
	return (uintptr_t)memory + offset;
}

/* Bytes 64 to 127 of the region, under the window's next key. */
static struct mw_bind binding(const struct mw *mw)
{
	struct mw_bind bind = {
	    .index = mw->index,
	    .rkey = ibv_inc_rkey(mw->ibv.rkey),
	    .lkey = mr->lkey,
	    .access = RIGHTS,
	    .addr = at(64),
	    .length = 64,
	};

	return bind;
}

static uint32_t bound(struct mw *mw)
{
	struct mw_bind bind = binding(mw);

	assert_int_equal(mw_bind(qp, &bind), REASON_NONE);
	return bind.rkey;
}

static enum reason come(const struct qp *by, uint32_t rkey, uint64_t addr, uint64_t length,
			unsigned int need)
{
	return access_check(by, by->pd, rkey, addr, length, need);
}

static enum reason writes(const struct qp *by, uint32_t rkey)
{
	return come(by, rkey, at(64), 1, IBV_ACCESS_REMOTE_WRITE);
}

static void there_are_two_types(void **state)
{
	struct mw *mw;

	assert_refused(mw_create(o.pd, 0, &mw), EINVAL, REASON_MW_TYPE, "is 0");
	assert_refused(mw_create(o.pd, 3, &mw), EINVAL, REASON_MW_TYPE, "is 3");
}

static void a_pd_with_windows_stays(void **state)
{
	struct pd *pd;
	struct mw *mw;

	assert_int_equal(pd_create(&adapter, &pd), 0);
	assert_int_equal(mw_create(pd, IBV_MW_TYPE_2, &mw), 0);
	assert_refused(pd_destroy(pd), EBUSY, REASON_PD_BUSY, "1");
	assert_int_equal(mw_destroy(mw), 0);
	assert_int_equal(pd_destroy(pd), 0);
}

static void a_key_of_a_window_is_none_of_a_region(void **state)
{
	char *place;

	for (int i = 0; i < 2000; i++) {
		struct mr *some = region(o.pd, 0, REGION);

		assert_false(some->lkey & MW_KEY);
		assert_false(some->rkey & MW_KEY);
		mr_destroy(some);
	}
	assert_true(one->ibv.rkey & MW_KEY);
	assert_int_equal(mr_resolve_local(&adapter, o.pd, bound(two), at(64), 1, 0, &place),
			 REASON_LKEY_UNKNOWN);
}

static void bounds_of_a_window_hold_to_the_byte(void **state)
{
	uint32_t rkey = bound(two);
	struct access access;

	assert_int_equal(
	    access_begin(qp, qp->pd, rkey, at(64), 64, IBV_ACCESS_REMOTE_WRITE, &access),
	    REASON_NONE);
	assert_ptr_equal(access.place, memory + 64);
	access_end(&access);
	assert_int_equal(come(qp, rkey, at(63), 1, 0), REASON_MW_RANGE);
	assert_int_equal(come(qp, rkey, at(128), 1, 0), REASON_MW_RANGE);
	assert_int_equal(come(qp, rkey, at(127), 2, 0), REASON_MW_RANGE);
	assert_int_equal(come(qp, rkey, at(65), UINT64_MAX, 0), REASON_MW_RANGE);
	assert_int_equal(come(qp, rkey, UINT64_MAX, 2, 0), REASON_MW_RANGE);
	assert_int_equal(come(qp, rkey, 0, 0, IBV_ACCESS_REMOTE_ATOMIC), REASON_NONE);
}

static void rights_are_the_windows_own(void **state)
{
	uint32_t rkey = bound(two);

	assert_int_equal(come(qp, rkey, at(64), 8, IBV_ACCESS_REMOTE_READ), REASON_NONE);
	assert_int_equal(come(qp, rkey, at(64), 8, IBV_ACCESS_REMOTE_ATOMIC), REASON_MW_ACCESS);
	/* the region itself lets nobody in */
	assert_int_equal(come(qp, mr->rkey, at(64), 8, IBV_ACCESS_REMOTE_READ), REASON_RKEY_ACCESS);
}

static void a_whole_window_is_not_the_whole_region(void **state)
{
	struct mw_bind bind = binding(two);
	struct access access;

	bind.access = IBV_ACCESS_FLUSH_GLOBAL;
	assert_int_equal(mw_bind(qp, &bind), REASON_NONE);
	assert_int_equal(
	    access_begin_whole(qp, qp->pd, bind.rkey, IBV_ACCESS_FLUSH_GLOBAL, &access),
	    REASON_NONE);
	assert_ptr_equal(access.place, memory + 64);
	assert_int_equal(access.length, 64);
	access_end(&access);
	assert_int_equal(
	    access_begin_whole(qp, qp->pd, bind.rkey, IBV_ACCESS_FLUSH_PERSISTENT, &access),
	    REASON_MW_ACCESS);
}

static void type_1_serves_its_pd_and_type_2_its_qp(void **state)
{
	struct objects far = objects_create();
	struct qp *stranger = qp_new(&far, IBV_QPT_RC);
	uint32_t first = bound(one), second = bound(two);

	assert_int_equal(writes(qp, first), REASON_NONE);
	assert_int_equal(writes(other, first), REASON_NONE);
	assert_int_equal(writes(stranger, first), REASON_MW_PD);
	assert_int_equal(writes(qp, second), REASON_NONE);
	assert_int_equal(writes(other, second), REASON_MW_QP);
	assert_int_equal(writes(stranger, second), REASON_MW_PD);
	qp_end(stranger);
	objects_destroy(&far);
}

static void a_new_binding_of_type_1_ends_the_old(void **state)
{
	struct mw_bind bind = binding(one);
	uint32_t old = bound(one);

	bind.rkey = ibv_inc_rkey(old);
	bind.addr = at(0);
	assert_int_equal(mw_bind(other, &bind), REASON_NONE);
	assert_int_equal(writes(qp, old), REASON_MW_STALE);
	assert_int_equal(writes(qp, bind.rkey), REASON_MW_RANGE);
	assert_int_equal(come(qp, bind.rkey, at(0), 64, IBV_ACCESS_REMOTE_READ), REASON_NONE);
	assert_int_equal(mr->windows, 1);
	bind.rkey = ibv_inc_rkey(bind.rkey);
	bind.length = 0;
	assert_int_equal(mw_bind(qp, &bind), REASON_NONE);
	assert_int_equal(come(qp, bind.rkey, at(0), 1, 0), REASON_MW_NOT_BOUND);
	assert_int_equal(mr->windows, 0);
}

static void type_2_is_bound_once_until_it_is_invalidated(void **state)
{
	struct mw_bind bind = binding(two);
	uint32_t rkey = bound(two);

	bind.rkey = ibv_inc_rkey(rkey);
	assert_int_equal(mw_bind(qp, &bind), REASON_BIND_IS_BOUND);
	assert_int_equal(writes(qp, rkey), REASON_NONE);
	assert_int_equal(access_invalidate(qp, qp->pd, rkey), REASON_NONE);
	assert_int_equal(writes(qp, rkey), REASON_MW_NOT_BOUND);
	assert_int_equal(access_invalidate(qp, qp->pd, rkey), REASON_MW_NOT_BOUND);
	assert_int_equal(mw_bind(other, &bind), REASON_NONE);
	assert_int_equal(writes(other, bind.rkey), REASON_NONE);
	assert_int_equal(writes(other, rkey), REASON_MW_STALE);
}

static void who_may_invalidate(void **state)
{
	uint32_t first = bound(one), second = bound(two);

	assert_int_equal(access_invalidate(qp, qp->pd, first), REASON_INVALIDATE_TYPE_1);
	assert_int_equal(access_invalidate(other, other->pd, second), REASON_MW_QP);
	assert_int_equal(access_invalidate(qp, qp->pd, ibv_inc_rkey(second)), REASON_MW_STALE);
	assert_int_equal(access_invalidate(qp, qp->pd, MW_KEY | 0x700000), REASON_MW_UNKNOWN);
	assert_int_equal(access_invalidate(qp, qp->pd, mr->rkey), REASON_INVALIDATE_MR);
	assert_int_equal(access_invalidate(qp, qp->pd, second), REASON_NONE);
}

static void a_zero_based_window_counts_from_0(void **state)
{
	struct mw_bind bind = binding(two);
	struct access access;

	bind.access |= IBV_ACCESS_ZERO_BASED;
	assert_int_equal(mw_bind(qp, &bind), REASON_NONE);
	assert_int_equal(
	    access_begin(qp, qp->pd, bind.rkey, 8, 56, IBV_ACCESS_REMOTE_READ, &access),
	    REASON_NONE);
	assert_ptr_equal(access.place, memory + 72);
	access_end(&access);
	assert_int_equal(come(qp, bind.rkey, 0, 65, 0), REASON_MW_RANGE);
	assert_int_equal(writes(qp, bind.rkey), REASON_MW_RANGE);
	bind = binding(one);
	bind.access |= IBV_ACCESS_ZERO_BASED;
	assert_int_equal(mw_bind(qp, &bind), REASON_BIND_ACCESS);
}

static void a_window_follows_the_regions_own_addresses(void **state)
{
	struct mr *shifted = region(o.pd, 0x5000, REGION);
	struct mw_bind bind = binding(two);
	struct access access;

	bind.lkey = shifted->lkey;
	assert_int_equal(mw_bind(qp, &bind), REASON_BIND_RANGE);
	bind.addr = 0x5010;
	assert_int_equal(mw_bind(qp, &bind), REASON_NONE);
	assert_int_equal(access_begin(qp, qp->pd, bind.rkey, 0x5010, 1, 0, &access), REASON_NONE);
	assert_ptr_equal(access.place, memory + 16);
	access_end(&access);
	assert_int_equal(access_invalidate(qp, qp->pd, bind.rkey), REASON_NONE);
	assert_int_equal(mr_destroy(shifted), 0);
}

static void what_cannot_be_bound(void **state)
{
	struct mr *closed = region(o.pd, (uintptr_t)memory, IBV_ACCESS_LOCAL_WRITE);
	struct mr *read_only = region(o.pd, (uintptr_t)memory, IBV_ACCESS_MW_BIND);
	struct mw_bind good = binding(two), bad;

	bad = good;
	bad.lkey = closed->lkey;
	assert_int_equal(mw_bind(qp, &bad), REASON_BIND_NOT_ALLOWED);
	bad.lkey = read_only->lkey;
	assert_int_equal(mw_bind(qp, &bad), REASON_BIND_NEEDS_LOCAL_WRITE);
	bad.access = IBV_ACCESS_REMOTE_ATOMIC;
	assert_int_equal(mw_bind(qp, &bad), REASON_BIND_NEEDS_LOCAL_WRITE);
	bad = good;
	bad.length = 1 + SIZE - 64;
	assert_int_equal(mw_bind(qp, &bad), REASON_BIND_RANGE);
	bad.length = UINT64_MAX;
	assert_int_equal(mw_bind(qp, &bad), REASON_BIND_RANGE);
	bad = good;
	bad.access |= IBV_ACCESS_ON_DEMAND;
	assert_int_equal(mw_bind(qp, &bad), REASON_BIND_ACCESS);
	bad = good;
	bad.rkey ^= 0x100;
	assert_int_equal(mw_bind(qp, &bad), REASON_BIND_KEY);
	bad = good;
	bad.length = 0;
	assert_int_equal(mw_bind(qp, &bad), REASON_BIND_NOTHING);
	bad.length = 64;
	bad.lkey = 0;
	assert_int_equal(mw_bind(qp, &bad), REASON_BIND_NOTHING);
	assert_int_equal(writes(qp, good.rkey), REASON_MW_STALE);
	good.lkey = read_only->lkey;
	good.access = IBV_ACCESS_REMOTE_READ;
	assert_int_equal(mw_bind(qp, &good), REASON_NONE);
	assert_int_equal(access_invalidate(qp, qp->pd, good.rkey), REASON_NONE);
	assert_int_equal(mr_destroy(closed), 0);
	assert_int_equal(mr_destroy(read_only), 0);
}

static void regions_and_windows_of_other_pds(void **state)
{
	struct objects far = objects_create();
	struct mr *there = region(far.pd, (uintptr_t)memory, REGION);
	struct qp *stranger = qp_new(&far, IBV_QPT_RC);
	struct mw_bind bind = binding(two);

	bind.lkey = there->lkey;
	assert_int_equal(mw_bind(qp, &bind), REASON_BIND_MR_PD);
	assert_int_equal(mw_bind(stranger, &bind), REASON_BIND_MW_GONE);
	assert_int_equal(mr_destroy(there), 0);
	qp_end(stranger);
	objects_destroy(&far);
}

static void what_is_gone_is_not_bound(void **state)
{
	struct mr *gone = region(o.pd, (uintptr_t)memory, REGION);
	struct mw_bind bind = binding(two);
	struct mw *short_lived;

	bind.lkey = gone->lkey;
	assert_int_equal(mr_destroy(gone), 0);
	assert_int_equal(mw_bind(qp, &bind), REASON_BIND_MR_GONE);
	assert_int_equal(mw_create(o.pd, IBV_MW_TYPE_2, &short_lived), 0);
	bind = binding(short_lived);
	assert_int_equal(mw_destroy(short_lived), 0);
	assert_int_equal(mw_bind(qp, &bind), REASON_BIND_MW_GONE);
	assert_int_equal(writes(qp, bind.rkey), REASON_MW_UNKNOWN);
}

static void a_region_with_windows_stays(void **state)
{
	uint32_t rkey = bound(two);
	struct mw *third;

	assert_int_equal(mw_create(o.pd, IBV_MW_TYPE_2, &third), 0);
	bound(third);
	assert_refused(mr_destroy(mr), EBUSY, REASON_MR_HAS_WINDOWS, "2 windows");
	assert_int_equal(writes(qp, rkey), REASON_NONE);
	assert_int_equal(mw_destroy(third), 0);
	assert_refused(mr_destroy(mr), EBUSY, REASON_MR_HAS_WINDOWS, "1 windows");
	assert_int_equal(access_invalidate(qp, qp->pd, rkey), REASON_NONE);
	assert_int_equal(mr_destroy(mr), 0);
	mr = region(o.pd, (uintptr_t)memory, REGION);
}

/* A binding may come between the first look and the quiesce: it is then the region that stays. */
static struct mw_bind late;

static void bind_late(struct adapter *a)
{
	if (late.index)
		assert_int_equal(mw_bind(qp, &late), REASON_BIND_MR_GONE);
	late.index = 0;
}

static void no_window_gets_to_a_region_on_its_way_out(void **state)
{
	struct adapter_host host = fixture_host;

	host.quiesce = bind_late;
	adapter.host = &host;
	late = binding(two);
	assert_int_equal(mr_destroy(mr), 0);
	assert_int_equal(late.index, 0);
	adapter.host = &fixture_host;
	mr = region(o.pd, (uintptr_t)memory, REGION);
}

/* ---- several lanes ---- */

static atomic_uint current_key;
static atomic_bool is_over;
static atomic_uint written;

/* What a lane does for a peer that writes without pause, with a key that may be old. */
static void *write_without_pause(void *by)
{
	struct access access;

	while (!atomic_load(&is_over)) {
		uint32_t rkey = atomic_load(&current_key);

		for (unsigned int half = 0; half < 2; half++) {
			if (access_begin(by, ((struct qp *)by)->pd, rkey, at(half * 128), 128,
					 IBV_ACCESS_REMOTE_WRITE, &access))
				continue;
			sched_yield(); /* long copies are rare, but there are */
			for (int i = 0; i < 64; i++)
				access.place[by == qp ? i : 64 + i] = 1;
			access_end(&access);
			atomic_fetch_add(&written, 1);
		}
	}
	return NULL;
}

/* When a binding is done, nobody is still within the old one, and nobody gets there any more. */
static void who_was_within_is_out_when_the_window_goes(void **state)
{
	struct mw_bind bind = binding(one);
	pthread_t threads[2];

	atomic_store(&is_over, false);
	atomic_store(&written, 0);
	bind.length = 128;
	for (int i = 0; i < 2; i++)
		assert_int_equal(
		    pthread_create(&threads[i], NULL, write_without_pause, i ? other : qp), 0);
	for (int turn = 0; turn < 2000 || atomic_load(&written) < 1000; turn++) {
		unsigned int half = turn % 2, left = 1 - half;

		bind.rkey = ibv_inc_rkey(bind.rkey);
		bind.addr = at(half * 128);
		assert_int_equal(mw_bind(qp, &bind), REASON_NONE);
		atomic_store(&current_key, bind.rkey);
		memset(memory + left * 128, 0, 128);
		for (int look = 0; look < 20; look++)
			for (int i = 0; i < 128; i++)
				assert_int_equal(memory[left * 128 + i], 0);
	}
	atomic_store(&is_over, true);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

static void posting_finds_what_can_never_be(void **state)
{
	struct ibv_mw_bind_info info = {.mr = &mr->ibv, .addr = at(0), .length = 8};
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .bind_mw = {.bind_info = info}}, *bad;
	struct objects far = objects_create();
	struct qp *stranger = qp_new(&far, IBV_QPT_RC), *datagrams = qp_new(&o, IBV_QPT_UD);

	qp_bring_to(qp, IBV_QPS_RTS);
	qp_bring_to(stranger, IBV_QPS_RTS);
	qp_bring_to(datagrams, IBV_QPS_RTS);
	assert_refused(qp_post_send(qp, &wr, &bad), EINVAL, REASON_BIND_NO_MW, "wr_id");
	wr.bind_mw.mw = &one->ibv;
	assert_refused(qp_post_send(qp, &wr, &bad), EINVAL, REASON_BIND_TYPE, "type 1");
	wr.bind_mw.mw = &two->ibv;
	assert_refused(qp_post_send(stranger, &wr, &bad), EPERM, REASON_BIND_PD, "PD");
	wr.bind_mw.bind_info.mr = NULL;
	assert_refused(qp_post_send(qp, &wr, &bad), EINVAL, REASON_BIND_NO_MR, "8 bytes");
	assert_refused(qp_post_send(datagrams, &wr, &bad), EINVAL, REASON_SEND_OPCODE_TYPE,
		       "BIND_MW");
	wr.bind_mw.bind_info = info;
	wr.send_flags = IBV_SEND_INLINE;
	assert_refused(qp_post_send(qp, &wr, &bad), EINVAL, REASON_SEND_INLINE_OPCODE, "BIND_MW");
	wr.send_flags = 0;
	assert_int_equal(qp_post_send(qp, &wr, &bad), 0);
	qp_end(datagrams);
	qp_end(stranger);
	objects_destroy(&far);
}

static void the_device_says_that_it_has_windows(void **state)
{
	struct ibv_device_attr_ex attr;

	adapter_describe(&adapter, &attr);
	assert_int_equal(attr.orig_attr.max_mw, MAX_MW - 1);
	assert_true(attr.orig_attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW);
	assert_true(attr.orig_attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A);
	assert_true(attr.orig_attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    MW_TEST(there_are_two_types),
	    MW_TEST(a_pd_with_windows_stays),
	    MW_TEST(a_key_of_a_window_is_none_of_a_region),
	    MW_TEST(bounds_of_a_window_hold_to_the_byte),
	    MW_TEST(rights_are_the_windows_own),
	    MW_TEST(a_whole_window_is_not_the_whole_region),
	    MW_TEST(type_1_serves_its_pd_and_type_2_its_qp),
	    MW_TEST(a_new_binding_of_type_1_ends_the_old),
	    MW_TEST(type_2_is_bound_once_until_it_is_invalidated),
	    MW_TEST(who_may_invalidate),
	    MW_TEST(a_zero_based_window_counts_from_0),
	    MW_TEST(a_window_follows_the_regions_own_addresses),
	    MW_TEST(what_cannot_be_bound),
	    MW_TEST(regions_and_windows_of_other_pds),
	    MW_TEST(what_is_gone_is_not_bound),
	    MW_TEST(a_region_with_windows_stays),
	    MW_TEST(no_window_gets_to_a_region_on_its_way_out),
	    MW_TEST(who_was_within_is_out_when_the_window_goes),
	    MW_TEST(posting_finds_what_can_never_be),
	    MW_TEST(the_device_says_that_it_has_windows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
