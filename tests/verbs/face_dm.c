/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory: how much there is of it, copies, regions on it as the target of peers, and what
 * goes out of the process.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "live.h"

enum {
	SIZE = 4096,
	ACCESS = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
};

static struct ibv_dm *dm_of_size(size_t size)
{
	struct ibv_alloc_dm_attr attr = {.length = size};

	return ibv_alloc_dm(context, &attr);
}

static size_t max_dm_size(void)
{
	struct ibv_device_attr_ex attr;

	assert_int_equal(ibv_query_device_ex(context, NULL, &attr), 0);
	return attr.max_dm_size;
}

static void copies_go_in_and_come_out(void **state)
{
	struct ibv_dm *dm = dm_of_size(SIZE);
	char in[64] = "device memory", out[64] = {0}, zeroes[64] = {0};

	assert_non_null(dm);
	assert_true(dm->comp_mask & IBV_DM_MASK_HANDLE);
	assert_int_equal(ibv_memcpy_from_dm(out, dm, 0, 64), 0);
	assert_memory_equal(out, zeroes, 64);
	assert_int_equal(ibv_memcpy_to_dm(dm, 8, in, 64), 0);
	assert_int_equal(ibv_memcpy_from_dm(out, dm, 8, 64), 0);
	assert_memory_equal(in, out, 64);
	assert_int_equal(ibv_memcpy_to_dm(dm, SIZE - 4, in, 4), 0);
	assert_int_equal(ibv_memcpy_to_dm(dm, SIZE, in, 0), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
}

static void copies_past_the_end_or_off_the_unit(void **state)
{
	struct ibv_dm *dm = dm_of_size(100);
	char some[256] = {0};

	assert_refused(ibv_memcpy_to_dm(dm, 0, some, 104), EFAULT, REASON_DM_RANGE, "104 bytes");
	assert_refused(ibv_memcpy_to_dm(dm, 104, some, 4), EFAULT, REASON_DM_RANGE, "of 100");
	assert_refused(ibv_memcpy_from_dm(some, dm, UINT64_MAX - 3, 8), EFAULT, REASON_DM_RANGE,
		       "8 bytes");
	assert_refused(ibv_memcpy_to_dm(dm, 2, some, 4), EINVAL, REASON_DM_ALIGNMENT, "at 2");
	assert_refused(ibv_memcpy_from_dm(some, dm, 0, 3), EINVAL, REASON_DM_ALIGNMENT, "3 bytes");
	assert_int_equal(ibv_free_dm(dm), 0);
}

static void there_is_so_much_and_no_more(void **state)
{
	size_t most = max_dm_size();
	struct ibv_dm *half = dm_of_size(most / 2), *rest;

	assert_true(most >= 1 << 20);
	assert_refused_null(dm_of_size(most + 1), EINVAL, REASON_DM_SIZE, "max_dm_size");
	assert_refused_null(dm_of_size(most / 2 + 1), ENOMEM, REASON_DM_FULL, "in use");
	rest = dm_of_size(most / 2);
	assert_non_null(rest);
	assert_int_equal(ibv_free_dm(half), 0);
	half = dm_of_size(most / 2);
	assert_non_null(half);
	assert_int_equal(ibv_free_dm(half), 0);
	assert_int_equal(ibv_free_dm(rest), 0);
}

static void attributes_that_make_no_sense(void **state)
{
	struct ibv_alloc_dm_attr attr = {.length = SIZE, .comp_mask = 1};

	assert_refused_null(ibv_alloc_dm(context, &attr), EINVAL, REASON_DM_ATTR, "comp_mask 0x1");
	attr = (struct ibv_alloc_dm_attr){.length = SIZE, .log_align_req = 40};
	assert_refused_null(ibv_alloc_dm(context, &attr), EINVAL, REASON_DM_ATTR, "40");
	assert_refused_null(dm_of_size(0), EINVAL, REASON_DM_ATTR, "length 0");
}

static void a_region_of_it_is_the_target_of_peers(void **state)
{
	struct ibv_dm *dm = dm_of_size(SIZE);
	struct ibv_mr *mr = ibv_reg_dm_mr(pd, dm, 256, 1024, ACCESS);
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct end a, b;
	uint64_t word;
	char seen[8];

	assert_non_null(mr);
	assert_null(mr->addr);
	assert_int_equal(mr->length, 1024);
	pair_create(&a, &b, IBV_QPT_RC);
	strcpy(a.buffer, "written");
	sge = end_sge(&a, 0, 8);
	wr = make_send(IBV_WR_RDMA_WRITE, &sge);
	wr.wr.rdma.remote_addr = 16;
	wr.wr.rdma.rkey = mr->rkey;
	post_send_wr(&a, &wr);
	assert_wc(next_wc(a.cq), wr.wr_id, IBV_WC_SUCCESS);
	assert_int_equal(ibv_memcpy_from_dm(seen, dm, 256 + 16, 8), 0);
	assert_string_equal(seen, "written");

	wr = make_send(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge);
	wr.wr.atomic.remote_addr = 64;
	wr.wr.atomic.rkey = mr->rkey;
	wr.wr.atomic.compare_add = 7;
	post_send_wr(&a, &wr);
	assert_wc(next_wc(a.cq), wr.wr_id, IBV_WC_SUCCESS);
	assert_int_equal(ibv_memcpy_from_dm(&word, dm, 256 + 64, 8), 0);
	assert_int_equal(word, 7);

	/* as the source, by its lkey */
	assert_int_equal(post_recv(&b, 3, 8), 0);
	sge = (struct ibv_sge){.addr = 16, .length = 8, .lkey = mr->lkey};
	wr = make_send(IBV_WR_SEND, &sge);
	post_send_wr(&a, &wr);
	assert_wc(next_wc(a.cq), wr.wr_id, IBV_WC_SUCCESS);
	assert_wc(next_wc(b.cq), 3, IBV_WC_SUCCESS);
	assert_string_equal(b.buffer, "written");
	assert_refused(ibv_free_dm(dm), EBUSY, REASON_DM_BUSY, "1 regions");
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
	pair_destroy(&a, &b);
}

static void regions_that_cannot_be(void **state)
{
	struct ibv_context *second = open_loopback();
	struct ibv_pd *far = ibv_alloc_pd(second);
	struct ibv_dm *dm = dm_of_size(SIZE);

	assert_refused_null(ibv_reg_dm_mr(pd, dm, 0, SIZE + 4, ACCESS), EINVAL, REASON_DM_MR_RANGE,
			    "4100");
	assert_refused_null(ibv_reg_dm_mr(pd, dm, UINT64_MAX, 4, ACCESS), EINVAL,
			    REASON_DM_MR_RANGE, "4 bytes");
	assert_refused_null(ibv_reg_dm_mr(pd, dm, 0, 8, IBV_ACCESS_LOCAL_WRITE), EINVAL,
			    REASON_DM_ACCESS, "0x1");
	assert_refused_null(ibv_reg_dm_mr(pd, dm, 0, 8, ACCESS | IBV_ACCESS_ON_DEMAND), EINVAL,
			    REASON_DM_ACCESS, "access");
	assert_refused_null(
	    ibv_reg_dm_mr(pd, dm, 0, 8, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_WRITE), EINVAL,
	    REASON_MR_NEEDS_LOCAL_WRITE, "REMOTE_WRITE");
	assert_refused_null(ibv_reg_dm_mr(far, dm, 0, 8, ACCESS), EINVAL, REASON_MR_OTHER_CONTEXT,
			    "PD");
	assert_int_equal(ibv_free_dm(dm), 0);
	assert_int_equal(ibv_dealloc_pd(far), 0);
	assert_int_equal(ibv_close_device(second), 0);
}

static void what_is_exported_is_the_memory_itself(void **state)
{
	struct ibv_alloc_dm_attr attr = {.length = SIZE, .log_align_req = 21};
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr);
	int fd = ibv_dm_export_dmabuf_fd(dm);
	char *seen = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	char some[8];

	assert_true(fd >= 0);
	assert_ptr_not_equal(seen, MAP_FAILED);
	assert_int_equal(ibv_memcpy_to_dm(dm, 0, "exported", 8), 0);
	assert_memory_equal(seen, "exported", 8);
	strcpy(seen + 16, "back");
	assert_int_equal(ibv_memcpy_from_dm(some, dm, 16, 8), 0);
	assert_string_equal(some, "back");
	close(fd);
	munmap(seen, SIZE);
	assert_int_equal(ibv_free_dm(dm), 0);
}

static void a_device_with_memory_of_its_own_left_stays_open(void **state)
{
	struct ibv_context *second = open_loopback();
	struct ibv_alloc_dm_attr attr = {.length = SIZE};
	struct ibv_dm *dm = ibv_alloc_dm(second, &attr);

	assert_refused(ibv_close_device(second), 0, REASON_CLOSE_WITH_OBJECTS, "1");
	assert_int_equal(ibv_free_dm(dm), 0);
	assert_int_equal(ibv_close_device(second), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(copies_go_in_and_come_out),
	    cmocka_unit_test(copies_past_the_end_or_off_the_unit),
	    cmocka_unit_test(there_is_so_much_and_no_more),
	    cmocka_unit_test(attributes_that_make_no_sense),
	    cmocka_unit_test(a_region_of_it_is_the_target_of_peers),
	    cmocka_unit_test(regions_that_cannot_be),
	    cmocka_unit_test(what_is_exported_is_the_memory_itself),
	    cmocka_unit_test(a_device_with_memory_of_its_own_left_stays_open),
	};

	return cmocka_run_group_tests(tests, live_open, live_close);
}
