/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions: keys that fit one region, one side and one PD; bounds to the byte; rights. */
#include "fixture.h"

enum {
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	      IBV_ACCESS_REMOTE_ATOMIC,
	SIZE = 256,
};

static char memory[SIZE];

static struct pd *pd_new(void)
{
	struct pd *pd;

	assert_int_equal(pd_create(&adapter, &pd), 0);
	return pd;
}

static struct mr *mr_new(struct pd *pd, unsigned int access)
{
	struct mr *mr;

	assert_int_equal(mr_create(pd, memory, SIZE, (uintptr_t)memory, access, &mr), 0);
	return mr;
}

static enum reason local(struct pd *pd, uint32_t key, uint64_t addr, uint64_t length,
			 unsigned int need)
{
	struct mr_memo *memo = &adapter.mr_memos[0].sends;
	char *place;
	enum reason reason = mr_resolve_local(&adapter, pd, key, addr, length, need, &place);

	/* what is remembered says the same: of what was before, and then of this */
	for (int i = 0; i < 2 && length; i++)
		assert_ptr_equal(mr_place(&adapter, memo, pd, key, addr, length, need), place);
	if (!reason && length)
		assert_ptr_equal(place, (char *)(uintptr_t)addr);
	return reason;
}

static enum reason remote(struct pd *pd, uint32_t key, uint64_t addr, uint64_t length,
			  unsigned int need)
{
	struct mr_memo *memo = &adapter.mr_memos[0].reached;
	char *place;
	enum reason reason = mr_resolve_remote(&adapter, pd, key, addr, length, need, &place);

	for (int i = 0; i < 2 && length; i++)
		assert_ptr_equal(mr_remote_place(&adapter, memo, pd, key, addr, length, need),
				 reason ? NULL : place);
	return reason;
}

static void a_region_is_found_by_its_keys(void **state)
{
	struct pd *pd = pd_new();
	struct mr *mr = mr_new(pd, ALL);
	uint64_t at = (uintptr_t)memory;

	assert_int_equal(local(pd, mr->lkey, at, SIZE, IBV_ACCESS_LOCAL_WRITE), REASON_NONE);
	assert_int_equal(remote(pd, mr->rkey, at, SIZE, IBV_ACCESS_REMOTE_WRITE), REASON_NONE);
	assert_int_equal(mr->ibv.lkey, mr->lkey);
	assert_int_equal(mr->ibv.rkey, mr->rkey);
	mr_destroy(mr);
	pd_destroy(pd);
}

static void lkey_and_rkey_are_never_each_other(void **state)
{
	struct pd *pd = pd_new();
	uint64_t at = (uintptr_t)memory;

	for (int i = 0; i < 20000; i++) {
		struct mr *mr = mr_new(pd, ALL);

		assert_int_not_equal(mr->lkey, mr->rkey);
		assert_int_not_equal(mr->lkey, 0);
		assert_int_equal(local(pd, mr->rkey, at, 1, 0), REASON_LKEY_IS_RKEY);
		assert_int_equal(remote(pd, mr->lkey, at, 1, IBV_ACCESS_REMOTE_READ),
				 REASON_RKEY_IS_LKEY);
		mr_destroy(mr);
	}
	pd_destroy(pd);
}

static void a_key_ends_with_its_region(void **state)
{
	struct pd *pd = pd_new();
	struct mr *mr = mr_new(pd, ALL);
	uint32_t lkey = mr->lkey, rkey = mr->rkey;
	unsigned int quiesces = fixture_quiesces;

	mr_destroy(mr);
	assert_int_equal(fixture_quiesces, quiesces + 1);
	assert_int_equal(local(pd, lkey, (uintptr_t)memory, 1, 0), REASON_LKEY_UNKNOWN);
	assert_int_equal(remote(pd, rkey, (uintptr_t)memory, 1, 0), REASON_RKEY_UNKNOWN);
	pd_destroy(pd);
}

static char *recall(struct pd *pd, const struct mr *mr)
{
	return mr_recall(&adapter.mr_memos[0].sends, atomic_load(&adapter.mr_changes),
			 pd->protection, mr->lkey, (uintptr_t)memory, SIZE, 0);
}

static void a_region_is_remembered_until_any_ends_or_changes(void **state)
{
	struct pd *pd = pd_new();
	struct mr *mr = mr_new(pd, ALL), *other = mr_new(pd, 0);
	struct mr_change change = {.flags = IBV_REREG_MR_CHANGE_ACCESS};

	assert_null(recall(pd, mr));
	local(pd, mr->lkey, (uintptr_t)memory, SIZE, 0);
	assert_ptr_equal(recall(pd, mr), memory);
	assert_null(recall(pd, other));
	assert_int_equal(mr_change(other, &change), 0);
	assert_null(recall(pd, mr));
	local(pd, mr->lkey, (uintptr_t)memory, SIZE, 0);
	assert_ptr_equal(recall(pd, mr), memory);
	mr_destroy(other);
	assert_null(recall(pd, mr));
	mr_destroy(mr);
	pd_destroy(pd);
}

static void a_garbled_key_is_told_from_an_unknown_one(void **state)
{
	struct pd *pd = pd_new();
	struct mr *mr = mr_new(pd, ALL);
	uint32_t other = 1;

	while ((mr->lkey ^ other) == mr->rkey || (mr->rkey ^ other) == mr->lkey)
		other++;
	assert_int_equal(local(pd, mr->lkey ^ other, (uintptr_t)memory, 1, 0), REASON_LKEY_STALE);
	assert_int_equal(remote(pd, mr->rkey ^ other, (uintptr_t)memory, 1, 0), REASON_RKEY_STALE);
	mr_destroy(mr);
	pd_destroy(pd);
}

static void bounds_hold_to_the_byte(void **state)
{
	struct pd *pd = pd_new();
	struct mr *mr = mr_new(pd, ALL);
	uint64_t at = (uintptr_t)memory;

	assert_int_equal(local(pd, mr->lkey, at + SIZE - 1, 1, 0), REASON_NONE);
	assert_int_equal(local(pd, mr->lkey, at + SIZE - 1, 2, 0), REASON_LKEY_RANGE);
	assert_int_equal(local(pd, mr->lkey, at + SIZE, 1, 0), REASON_LKEY_RANGE);
	assert_int_equal(local(pd, mr->lkey, at - 1, 1, 0), REASON_LKEY_RANGE);
	assert_int_equal(local(pd, mr->lkey, at, SIZE + 1, 0), REASON_LKEY_RANGE);
	assert_int_equal(local(pd, mr->lkey, at + 1, UINT64_MAX, 0), REASON_LKEY_RANGE);
	assert_int_equal(local(pd, mr->lkey, UINT64_MAX, 2, 0), REASON_LKEY_RANGE);
	assert_int_equal(remote(pd, mr->rkey, at + SIZE, 1, 0), REASON_RKEY_RANGE);
	assert_int_equal(remote(pd, mr->rkey, at - 1, 2, 0), REASON_RKEY_RANGE);
	mr_destroy(mr);
	pd_destroy(pd);
}

static void nothing_is_checked_for_no_bytes(void **state)
{
	struct pd *pd = pd_new();

	assert_int_equal(local(pd, 0xdeadbeef, 0x1234, 0, IBV_ACCESS_LOCAL_WRITE), REASON_NONE);
	assert_int_equal(remote(pd, 0xdeadbeef, 0x1234, 0, IBV_ACCESS_REMOTE_WRITE), REASON_NONE);
	pd_destroy(pd);
}

static void another_pd_is_refused(void **state)
{
	struct pd *pd = pd_new(), *other = pd_new();
	struct mr *mr = mr_new(pd, ALL);

	assert_int_equal(local(other, mr->lkey, (uintptr_t)memory, 1, 0), REASON_LKEY_PD);
	assert_int_equal(remote(other, mr->rkey, (uintptr_t)memory, 1, 0), REASON_RKEY_PD);
	mr_destroy(mr);
	pd_destroy(other);
	pd_destroy(pd);
}

static void each_right_is_asked_for(void **state)
{
	static const unsigned int rights[] = {IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE,
					      IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_FLUSH_GLOBAL,
					      IBV_ACCESS_FLUSH_PERSISTENT};
	struct pd *pd = pd_new();
	uint64_t at = (uintptr_t)memory;

	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++)
		for (size_t j = 0; j < sizeof(rights) / sizeof(rights[0]); j++) {
			struct mr *mr = mr_new(pd, IBV_ACCESS_LOCAL_WRITE | rights[i]);

			assert_int_equal(remote(pd, mr->rkey, at, 1, rights[j]),
					 i == j ? REASON_NONE : REASON_RKEY_ACCESS);
			mr_destroy(mr);
		}
	pd_destroy(pd);
}

static void without_local_write_nothing_is_received(void **state)
{
	struct pd *pd = pd_new();
	struct mr *mr = mr_new(pd, 0);

	assert_int_equal(local(pd, mr->lkey, (uintptr_t)memory, 1, 0), REASON_NONE);
	assert_int_equal(local(pd, mr->lkey, (uintptr_t)memory, 1, IBV_ACCESS_LOCAL_WRITE),
			 REASON_LKEY_ACCESS);
	mr_destroy(mr);
	pd_destroy(pd);
}

static void zero_based_and_iova_regions_count_from_there(void **state)
{
	struct pd *pd = pd_new();
	char *place;
	struct mr *mr;

	assert_int_equal(mr_create(pd, memory, SIZE, 777, ALL | IBV_ACCESS_ZERO_BASED, &mr), 0);
	assert_int_equal(mr_resolve_local(&adapter, pd, mr->lkey, 16, 8, 0, &place), REASON_NONE);
	assert_ptr_equal(place, memory + 16);
	mr_destroy(mr);
	assert_int_equal(mr_create(pd, memory, SIZE, 0x10000, ALL, &mr), 0);
	assert_int_equal(mr_resolve_remote(&adapter, pd, mr->rkey, 0x10001, 8, 0, &place),
			 REASON_NONE);
	assert_ptr_equal(place, memory + 1);
	assert_int_equal(mr_resolve_remote(&adapter, pd, mr->rkey, 0xffff, 8, 0, &place),
			 REASON_RKEY_RANGE);
	mr_destroy(mr);
	pd_destroy(pd);
}

static void the_whole_address_space_can_be_one_region(void **state)
{
	struct pd *pd = pd_new();
	struct mr *mr;

	assert_int_equal(mr_create(pd, NULL, SIZE_MAX, 0, ALL | IBV_ACCESS_ON_DEMAND, &mr), 0);
	assert_int_equal(local(pd, mr->lkey, (uintptr_t)memory, SIZE, 0), REASON_NONE);
	mr_destroy(mr);
	pd_destroy(pd);
}

static void a_region_of_no_bytes_names_none(void **state)
{
	struct pd *pd = pd_new();
	struct mr *mr;

	assert_int_equal(mr_create(pd, memory, 0, (uintptr_t)memory, ALL, &mr), 0);
	assert_int_equal(local(pd, mr->lkey, (uintptr_t)memory, 1, 0), REASON_LKEY_RANGE);
	mr_destroy(mr);
	pd_destroy(pd);
}

static void optional_access_flags_are_always_taken(void **state)
{
	struct pd *pd = pd_new();
	struct mr *mr = mr_new(pd, IBV_ACCESS_RELAXED_ORDERING | 1u << 29);

	mr_destroy(mr);
	pd_destroy(pd);
}

static void what_ibv_reg_mr_made_cannot_be_invalidated(void **state)
{
	struct pd *pd = pd_new(), *other = pd_new();
	struct mr *mr = mr_new(pd, ALL);

	assert_int_equal(mr_invalidate(&adapter, pd, mr->rkey), REASON_INVALIDATE_MR);
	assert_int_equal(mr_invalidate(&adapter, pd, mr->lkey), REASON_RKEY_IS_LKEY);
	assert_int_equal(mr_invalidate(&adapter, other, mr->rkey), REASON_RKEY_PD);
	assert_int_equal(mr_invalidate(&adapter, pd, 1), REASON_RKEY_UNKNOWN);
	mr_destroy(mr);
	pd_destroy(other);
	pd_destroy(pd);
}

/* ---- other regions ---- */

static void a_null_region_holds_every_local_address_and_no_place(void **state)
{
	struct pd *pd = pd_new(), *other = pd_new();
	char *place = memory;
	struct mr *mr;

	assert_int_equal(mr_create_null(pd, &mr), 0);
	assert_int_equal(
	    mr_resolve_local(&adapter, pd, mr->lkey, 0, UINT32_MAX, IBV_ACCESS_LOCAL_WRITE, &place),
	    REASON_NONE);
	assert_null(place);
	assert_int_equal(mr_resolve_local(&adapter, pd, mr->lkey, UINT64_MAX - 8, 8, 0, &place),
			 REASON_NONE);
	assert_int_equal(mr_resolve_local(&adapter, other, mr->lkey, 0, 1, 0, &place),
			 REASON_LKEY_PD);
	assert_int_equal(mr->ibv.rkey, 0);
	assert_int_equal(remote(pd, 0, 0, 1, IBV_ACCESS_REMOTE_READ), REASON_RKEY_UNKNOWN);
	assert_int_equal(remote(pd, mr->rkey, 0, 1, IBV_ACCESS_REMOTE_READ), REASON_RKEY_ACCESS);
	mr_destroy(mr);
	pd_destroy(other);
	pd_destroy(pd);
}

static void a_change_keeps_what_it_does_not_name(void **state)
{
	struct pd *pd = pd_new(), *other = pd_new();
	struct mr *mr = mr_new(pd, ALL);
	uint64_t at = (uintptr_t)memory;
	struct mr_change change = {.flags = IBV_REREG_MR_CHANGE_ACCESS};
	unsigned int quiesces = fixture_quiesces;

	assert_int_equal(mr_change(mr, &change), 0);
	assert_int_equal(fixture_quiesces, quiesces + 1);
	assert_int_equal(local(pd, mr->lkey, at, SIZE, 0), REASON_NONE);
	assert_int_equal(local(pd, mr->lkey, at, 1, IBV_ACCESS_LOCAL_WRITE), REASON_LKEY_ACCESS);
	change = (struct mr_change){.flags = IBV_REREG_MR_CHANGE_PD, .pd = other};
	assert_int_equal(mr_change(mr, &change), 0);
	assert_int_equal(local(pd, mr->lkey, at, 1, 0), REASON_LKEY_PD);
	assert_int_equal(local(other, mr->lkey, at, SIZE, 0), REASON_NONE);
	assert_int_equal(pd_destroy(pd), 0);
	assert_refused(pd_destroy(other), EBUSY, REASON_PD_BUSY, "1");
	change = (struct mr_change){
	    .flags = IBV_REREG_MR_CHANGE_TRANSLATION, .addr = memory + 8, .length = 16};
	assert_int_equal(mr_change(mr, &change), 0);
	assert_int_equal(local(other, mr->lkey, at, 1, 0), REASON_LKEY_RANGE);
	assert_int_equal(local(other, mr->lkey, at + 8, 16, 0), REASON_NONE);
	assert_int_equal(local(other, mr->lkey, at + 8, 17, 0), REASON_LKEY_RANGE);
	mr_destroy(mr);
	assert_int_equal(pd_destroy(other), 0);
}

static void a_refused_change_changes_nothing(void **state)
{
	struct pd *pd = pd_new(), *other = pd_new();
	struct mr *mr = mr_new(pd, ALL);
	struct mr_change change = {.flags = IBV_REREG_MR_FLAGS_SUPPORTED,
				   .pd = other,
				   .addr = memory,
				   .length = 1,
				   .access = IBV_ACCESS_REMOTE_WRITE};

	assert_refused(mr_change(mr, &change), EINVAL, REASON_MR_NEEDS_LOCAL_WRITE, "access");
	change.access = ALL;
	change.length = SIZE_MAX;
	assert_refused(mr_change(mr, &change), EINVAL, REASON_MR_RANGE, "bytes");
	assert_int_equal(local(pd, mr->lkey, (uintptr_t)memory, SIZE, IBV_ACCESS_LOCAL_WRITE),
			 REASON_NONE);
	assert_int_equal(pd_destroy(other), 0);
	mr_destroy(mr);
	pd_destroy(pd);
}

/* ---- refusals of registration ---- */

static void remote_write_without_local_write_is_refused(void **state)
{
	struct pd *pd = pd_new();
	struct mr *mr;

	assert_refused(mr_create(pd, memory, SIZE, 0, IBV_ACCESS_REMOTE_WRITE, &mr), EINVAL,
		       REASON_MR_NEEDS_LOCAL_WRITE, "REMOTE_WRITE");
	assert_refused(mr_create(pd, memory, SIZE, 0, IBV_ACCESS_REMOTE_ATOMIC, &mr), EINVAL,
		       REASON_MR_NEEDS_LOCAL_WRITE, "REMOTE_ATOMIC");
	assert_int_equal(pd_destroy(pd), 0);
}

static void an_unknown_access_flag_is_refused(void **state)
{
	struct pd *pd = pd_new();
	struct mr *mr;

	assert_refused(mr_create(pd, memory, SIZE, 0, 1 << 15, &mr), EINVAL,
		       REASON_MR_ACCESS_UNKNOWN, "0x8000");
	assert_int_equal(pd_destroy(pd), 0);
}

static void a_range_past_the_end_is_refused(void **state)
{
	struct pd *pd = pd_new();
	struct mr *mr;

	assert_refused(mr_create(pd, memory, SIZE_MAX, 0, 0, &mr), EINVAL, REASON_MR_RANGE,
		       "18446744073709551615 bytes");
	assert_refused(mr_create(pd, memory, SIZE, UINT64_MAX - 10, 0, &mr), EINVAL,
		       REASON_MR_RANGE, "iova");
	assert_int_equal(pd_destroy(pd), 0);
}

static void a_pd_with_a_region_cannot_go(void **state)
{
	struct pd *pd = pd_new();
	struct mr *mr = mr_new(pd, 0);

	assert_refused(pd_destroy(pd), EBUSY, REASON_PD_BUSY, "1 MR");
	mr_destroy(mr);
	assert_int_equal(pd_destroy(pd), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(a_region_is_found_by_its_keys),
	    TEST(lkey_and_rkey_are_never_each_other),
	    TEST(a_key_ends_with_its_region),
	    TEST(a_region_is_remembered_until_any_ends_or_changes),
	    TEST(a_garbled_key_is_told_from_an_unknown_one),
	    TEST(bounds_hold_to_the_byte),
	    TEST(nothing_is_checked_for_no_bytes),
	    TEST(another_pd_is_refused),
	    TEST(each_right_is_asked_for),
	    TEST(without_local_write_nothing_is_received),
	    TEST(zero_based_and_iova_regions_count_from_there),
	    TEST(the_whole_address_space_can_be_one_region),
	    TEST(a_region_of_no_bytes_names_none),
	    TEST(optional_access_flags_are_always_taken),
	    TEST(what_ibv_reg_mr_made_cannot_be_invalidated),
	    TEST(a_null_region_holds_every_local_address_and_no_place),
	    TEST(a_change_keeps_what_it_does_not_name),
	    TEST(a_refused_change_changes_nothing),
	    TEST(remote_write_without_local_write_is_refused),
	    TEST(an_unknown_access_flag_is_refused),
	    TEST(a_range_past_the_end_is_refused),
	    TEST(a_pd_with_a_region_cannot_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
