/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that is registered in other ways than by its address, and regions that change: anew, null,
 * on demand, behind descriptors, from the library.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>

#include <infiniband/verbatim.h>

#include "live.h"

enum { PAGE = 4096 };

static struct end a, b;

static int setup(void **state)
{
	pair_create(&a, &b, IBV_QPT_RC);
	strcpy(a.buffer, "sent");
	return 0;
}

static int teardown(void **state)
{
	pair_destroy(&a, &b);
	return 0;
}

#define MEMORY_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static struct ibv_wc rdma(enum ibv_wr_opcode opcode, struct ibv_sge sge, uint64_t addr,
			  uint32_t rkey)
{
	struct ibv_send_wr wr = make_send(opcode, &sge);

	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	post_send_wr(&a, &wr);
	return next_wc(a.cq);
}

/* Five bytes of a's come to `place`, which the peer calls `addr`. */
static void arrives(uint64_t addr, uint32_t rkey, const char *place)
{
	assert_wc(rdma(IBV_WR_RDMA_WRITE, end_sge(&a, 0, 5), addr, rkey), 0x5e4d, IBV_WC_SUCCESS);
	assert_string_equal(place, "sent");
}

static void drop_event(void)
{
	struct ibv_async_event event;

	assert_int_equal(ibv_get_async_event(context, &event), 0);
	ibv_ack_async_event(&event);
}

static void is_kept_out(uint64_t addr, uint32_t rkey)
{
	assert_failed(rdma(IBV_WR_RDMA_WRITE, end_sge(&a, 0, 5), addr, rkey), 0x5e4d,
		      IBV_WC_REM_ACCESS_ERR, REASON_PEER_REFUSED_ACCESS);
	drop_event();
}

/* ---- anew ---- */

static void a_region_moves_under_its_keys(void **state)
{
	uint32_t lkey = b.mr->lkey, rkey = b.mr->rkey;
	char *elsewhere = aligned_alloc(PAGE, PAGE);

	assert_int_equal(
	    ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, elsewhere, PAGE, 0), 0);
	assert_int_equal(b.mr->lkey, lkey);
	assert_int_equal(b.mr->rkey, rkey);
	assert_ptr_equal(b.mr->addr, elsewhere);
	assert_int_equal(b.mr->length, PAGE);
	arrives((uintptr_t)elsewhere + 8, rkey, elsewhere + 8);
	is_kept_out((uintptr_t)b.buffer, rkey);
	free(elsewhere);
}

static void a_region_loses_a_right(void **state)
{
	arrives((uintptr_t)b.buffer, b.mr->rkey, b.buffer);
	assert_int_equal(ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
			 0);
	is_kept_out((uintptr_t)b.buffer, b.mr->rkey);
}

static void a_region_goes_to_another_pd(void **state)
{
	struct ibv_pd *other = ibv_alloc_pd(context);

	assert_int_equal(ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), 0);
	assert_ptr_equal(b.mr->pd, other);
	assert_refused(ibv_dealloc_pd(other), EBUSY, REASON_PD_BUSY, "1");
	is_kept_out((uintptr_t)b.buffer, b.mr->rkey);
	assert_int_equal(ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
}

static void all_changes_at_once(void **state)
{
	struct ibv_pd *other = ibv_alloc_pd(context);
	char *elsewhere = aligned_alloc(PAGE, PAGE);

	assert_int_equal(
	    ibv_rereg_mr(b.mr, IBV_REREG_MR_FLAGS_SUPPORTED, other, elsewhere, PAGE,
			 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_WRITE),
	    0);
	assert_int_equal(ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), 0);
	arrives(16, b.mr->rkey, elsewhere + 16);
	assert_int_equal(ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, live_access),
			 0);
	arrives((uintptr_t)elsewhere, b.mr->rkey, elsewhere);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	free(elsewhere);
}

/* The codes are rdma-core's; errno and the reason say more. */
static void what_cannot_be_changed(void **state)
{
	struct ibv_context *second = open_loopback();
	struct ibv_pd *far = ibv_alloc_pd(second);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	struct ibv_mr *held = ibv_reg_mr(pd, b.buffer, PAGE, live_access | IBV_ACCESS_MW_BIND);
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED,
				   .bind_info = {held, (uintptr_t)b.buffer, 8, 0}};
	struct ibv_mr *null = ibv_alloc_null_mr(pd);
	char *hole = lonely_pages(PAGE);

#define REFUSED(code, error, reason, word, ...)                                                    \
	do {                                                                                       \
		assert_refused(ibv_rereg_mr(__VA_ARGS__), code, reason, word);                     \
		assert_int_equal(errno, error);                                                    \
	} while (0)
	munmap(hole, PAGE);
	REFUSED(IBV_REREG_MR_ERR_INPUT, EINVAL, REASON_REREG_ARGUMENT, "0x8", b.mr, 8, NULL, NULL,
		0, 0);
	REFUSED(IBV_REREG_MR_ERR_INPUT, EINVAL, REASON_REREG_ARGUMENT, "length 0", b.mr,
		IBV_REREG_MR_CHANGE_TRANSLATION, NULL, b.buffer, 0, 0);
	REFUSED(IBV_REREG_MR_ERR_INPUT, EINVAL, REASON_REREG_ARGUMENT, "length 8", b.mr,
		IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 8, 0);
	REFUSED(IBV_REREG_MR_ERR_INPUT, EINVAL, REASON_REREG_ARGUMENT, "access 0x1", b.mr,
		IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, IBV_ACCESS_LOCAL_WRITE);
	REFUSED(IBV_REREG_MR_ERR_CMD, EINVAL, REASON_REREG_ARGUMENT, "flags 0", b.mr, 0, NULL, NULL,
		0, 0);
	REFUSED(IBV_REREG_MR_ERR_CMD, EINVAL, REASON_REREG_ARGUMENT, "pd", b.mr,
		IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0);
	REFUSED(IBV_REREG_MR_ERR_CMD, EINVAL, REASON_MR_OTHER_CONTEXT, "PD", b.mr,
		IBV_REREG_MR_CHANGE_PD, far, NULL, 0, 0);
	REFUSED(IBV_REREG_MR_ERR_CMD, EINVAL, REASON_MR_NEEDS_LOCAL_WRITE, "REMOTE_WRITE", b.mr,
		IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE);
	REFUSED(IBV_REREG_MR_ERR_CMD, EFAULT, REASON_MR_UNMAPPED, "8 bytes", b.mr,
		IBV_REREG_MR_CHANGE_TRANSLATION, NULL, hole, 8, 0);
	REFUSED(IBV_REREG_MR_ERR_CMD, EOPNOTSUPP, REASON_REREG_KIND, "MR", null,
		IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0);
	assert_int_equal(ibv_bind_mw(b.qp, mw, &bind), 0);
	assert_wc(next_wc(b.cq), 0, IBV_WC_SUCCESS);
	REFUSED(IBV_REREG_MR_ERR_CMD, EBUSY, REASON_MR_HAS_WINDOWS, "1 windows", held,
		IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0);
	arrives((uintptr_t)b.buffer, b.mr->rkey, b.buffer); /* as it was */
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(held), 0);
	assert_int_equal(ibv_dereg_mr(null), 0);
	assert_int_equal(ibv_dealloc_pd(far), 0);
	assert_int_equal(ibv_close_device(second), 0);
}

/* ---- null regions ---- */

static void a_null_region_reads_as_zeroes_and_swallows(void **state)
{
	struct ibv_mr *null = ibv_alloc_null_mr(pd);
	struct ibv_sge sge = {.addr = 0x1234567, .length = 3000, .lkey = null->lkey};

	assert_non_null(null);
	memset(b.buffer, 0x55, BUFFER);
	assert_wc(rdma(IBV_WR_RDMA_WRITE, sge, (uintptr_t)b.buffer, b.mr->rkey), 0x5e4d,
		  IBV_WC_SUCCESS);
	for (int i = 0; i < 3000; i++)
		assert_int_equal(b.buffer[i], 0);
	assert_int_equal(b.buffer[3000], 0x55);
	assert_wc(rdma(IBV_WR_RDMA_READ, sge, (uintptr_t)b.buffer, b.mr->rkey), 0x5e4d,
		  IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(null), 0);
}

/* Parts of a message may go nowhere. */
static void a_null_element_between_others(void **state)
{
	struct ibv_mr *null = ibv_alloc_null_mr(pd);
	struct ibv_sge list[3] = {
	    end_sge(&a, 0, 2), {.length = 2, .lkey = null->lkey}, end_sge(&a, 4096, 2)};
	struct ibv_send_wr wr = make_send(IBV_WR_RDMA_READ, list);

	strcpy(b.buffer, "abcdef");
	wr.num_sge = 3;
	wr.wr.rdma.remote_addr = (uintptr_t)b.buffer;
	wr.wr.rdma.rkey = b.mr->rkey;
	post_send_wr(&a, &wr);
	assert_wc(next_wc(a.cq), wr.wr_id, IBV_WC_SUCCESS);
	assert_memory_equal(a.buffer, "abnt", 4);
	assert_memory_equal(a.buffer + 4096, "ef", 2);
	assert_int_equal(ibv_dereg_mr(null), 0);
}

static void a_null_region_lets_no_peer_in(void **state)
{
	struct ibv_mr *null = ibv_alloc_null_mr(pd);

	assert_int_equal(null->rkey, 0);
	is_kept_out(0, null->rkey);
	assert_int_equal(ibv_dereg_mr(null), 0);
}

/* ---- behind a descriptor ---- */

static int memfd_of(size_t size)
{
	int fd = memfd_create("test", 0);

	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	return fd;
}

static void a_region_on_a_descriptor(void **state)
{
	int fd = memfd_of(3 * PAGE);
	char *mine = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(pd, 100, 2 * PAGE, 0x5000, fd,
					      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	assert_non_null(mr);
	assert_ptr_equal(mr->addr, (void *)100);
	close(fd);
	arrives(0x5000, mr->rkey, mine + 100);
	arrives(0x5000 + 2 * PAGE - 5, mr->rkey, mine + 100 + 2 * PAGE - 5);
	is_kept_out(0x5000 + 2 * PAGE - 4, mr->rkey);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(mine, 3 * PAGE);
}

static void descriptors_of_no_use(void **state)
{
	const int write = IBV_ACCESS_LOCAL_WRITE;
	int fd = memfd_of(PAGE), pipes[2], reader;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	reader = open(path, O_RDONLY);
	assert_int_equal(pipe(pipes), 0);
	assert_refused_null(ibv_reg_dmabuf_mr(pd, 0, 8, 0, 9999, 0), EBADF, REASON_DMABUF_FD,
			    "9999");
	assert_refused_null(ibv_reg_dmabuf_mr(pd, 0, 8, 0, pipes[0], 0), EINVAL,
			    REASON_DMABUF_NOT_MAPPED, "fd is");
	assert_refused_null(ibv_reg_dmabuf_mr(pd, 0, 8, 0, reader, write), EINVAL,
			    REASON_DMABUF_NOT_MAPPED, "access 0x1");
	assert_refused_null(ibv_reg_dmabuf_mr(pd, 1, PAGE, 0, fd, write), EINVAL,
			    REASON_DMABUF_RANGE, "of 4096");
	assert_refused_null(ibv_reg_dmabuf_mr(pd, UINT64_MAX, 1, 0, fd, write), EINVAL,
			    REASON_DMABUF_RANGE, "1 bytes");
	assert_refused_null(ibv_reg_dmabuf_mr(pd, 0, 0, 0, fd, write), EINVAL, REASON_DMABUF_RANGE,
			    "0 bytes");
	assert_refused_null(ibv_reg_dmabuf_mr(pd, 0, 8, 0, fd, write | IBV_ACCESS_ON_DEMAND),
			    EINVAL, REASON_DMABUF_ACCESS, "0x41");
	assert_refused_null(ibv_reg_dmabuf_mr(pd, 0, 8, 0, fd, IBV_ACCESS_REMOTE_WRITE), EINVAL,
			    REASON_MR_NEEDS_LOCAL_WRITE, "REMOTE_WRITE");
	close(reader);
	close(pipes[0]);
	close(pipes[1]);
	close(fd);
}

/* ---- from the library ---- */

static void a_buffer_is_registered_exported_and_outlives_its_end(void **state)
{
	struct ibv_buf *buf;
	char *place = ibv_alloc_buf(pd, 10000, &buf), *seen;
	struct ibv_mr *mr;
	int fd;

	assert_non_null(place);
	assert_int_equal((uintptr_t)place % PAGE, 0);
	mr = ibv_reg_buf_mr(pd, buf, place + 1000, 9000, live_access);
	assert_non_null(mr);
	fd = ibv_export_buf_dmabuf_fd(buf);
	assert_true(fd >= 0);
	seen = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	arrives((uintptr_t)place + 1000, mr->rkey, seen + 1000);
	ibv_free_buf(buf);
	arrives((uintptr_t)place + 2000, mr->rkey, seen + 2000);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(seen, PAGE);
	close(fd);
}

static void an_exported_buffer_is_a_region_elsewhere(void **state)
{
	struct ibv_buf *buf;
	char *place = ibv_alloc_buf(pd, PAGE, &buf);
	int fd = ibv_export_buf_dmabuf_fd(buf);
	struct ibv_mr *mr =
	    ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, fd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	assert_non_null(mr);
	assert_int_not_equal(ftruncate(fd, 1), 0); /* its size stays: nothing can fault */
	close(fd);
	arrives(8, mr->rkey, place + 8);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ibv_free_buf(buf);
}

static void what_is_no_part_of_a_buffer(void **state)
{
	struct ibv_pd *own = ibv_alloc_pd(context);
	struct ibv_buf *buf, *none;
	char *place = ibv_alloc_buf(own, 100, &buf);

	assert_refused_null(ibv_alloc_buf(pd, 0, &none), EINVAL, REASON_BUF_SIZE, "0");
	assert_refused_null(ibv_alloc_buf(pd, SIZE_MAX, &none), ENOMEM, REASON_NO_MEMORY, "buffer");
	assert_refused_null(ibv_reg_buf_mr(pd, buf, place + 1, 100, 0), EINVAL, REASON_BUF_RANGE,
			    "100 bytes");
	assert_refused_null(ibv_reg_buf_mr(pd, buf, place - 1, 1, 0), EINVAL, REASON_BUF_RANGE,
			    "1 bytes");
	assert_refused_null(ibv_reg_buf_mr(pd, buf, place, 8, IBV_ACCESS_REMOTE_WRITE), EINVAL,
			    REASON_MR_NEEDS_LOCAL_WRITE, "REMOTE_WRITE");
	assert_refused(ibv_dealloc_pd(own), EBUSY, REASON_PD_BUSY, "1");
	ibv_free_buf(buf);
	assert_int_equal(ibv_dealloc_pd(own), 0);
}

/* ---- all ways in one call ---- */

static void every_source_by_attributes(void **state)
{
	struct ibv_dmah_init_attr hints = {.comp_mask = IBV_DMAH_INIT_ATTR_MASK_PH, .ph = 2};
	struct ibv_dmah *dmah = ibv_alloc_dmah(context, &hints);
	struct ibv_mr_init_attr attr = {
	    .length = PAGE,
	    .access = live_access,
	    .comp_mask = IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_DMAH,
	    .dmah = dmah};
	struct ibv_mr *mr;
	char *place;

	assert_non_null(dmah);
	attr.fd = memfd_of(PAGE);
	mr = ibv_reg_mr_ex(pd, &attr);
	assert_non_null(mr);
	assert_refused(ibv_dealloc_dmah(dmah), EBUSY, REASON_DMAH_BUSY, "1 regions");
	assert_int_equal(ibv_dereg_mr(mr), 0);
	close(attr.fd);

	attr.comp_mask = IBV_REG_MR_MASK_BUF | IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_IOVA |
			 IBV_REG_MR_MASK_DMAH;
	attr.iova = 0x9000;
	attr.addr = place = ibv_alloc_buf(pd, PAGE, &attr.buf);
	mr = ibv_reg_mr_ex(pd, &attr);
	assert_non_null(mr);
	arrives(0x9000, mr->rkey, place);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ibv_free_buf(attr.buf);

	attr.comp_mask = IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_DMAH;
	attr.addr = b.buffer;
	mr = ibv_reg_mr_ex(pd, &attr);
	assert_non_null(mr);
	arrives((uintptr_t)b.buffer, mr->rkey, b.buffer);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_dmah(dmah), 0);
}

static void sources_that_do_not_fit_together(void **state)
{
	static const uint64_t masks[] = {
	    0,
	    IBV_REG_MR_MASK_IOVA,
	    IBV_REG_MR_MASK_FD,
	    IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_ADDR,
	    IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_ADDR,
	    IBV_REG_MR_MASK_BUF,
	    IBV_REG_MR_MASK_BUF | IBV_REG_MR_MASK_ADDR,	 /* but buf is NULL */
	    IBV_REG_MR_MASK_DMAH | IBV_REG_MR_MASK_ADDR, /* as is dmah */
	};
	struct ibv_mr_init_attr attr = {.length = 8, .addr = b.buffer};
	struct ibv_dmah_init_attr hints = {.comp_mask = IBV_DMAH_INIT_ATTR_MASK_PH, .ph = 4};

	for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
		attr.comp_mask = masks[i];
		assert_refused_null(ibv_reg_mr_ex(pd, &attr), EINVAL, REASON_MR_SOURCE,
				    "comp_mask");
	}
	attr.comp_mask = 1 << 6;
	assert_refused_null(ibv_reg_mr_ex(pd, &attr), EOPNOTSUPP, REASON_MR_EXTENSION, "0x40");
	assert_refused_null(ibv_alloc_dmah(context, &hints), EINVAL, REASON_DMAH_ATTR, "ph 4");
	hints = (struct ibv_dmah_init_attr){.comp_mask = IBV_DMAH_INIT_ATTR_MASK_CPU_ID,
					    .cpu_id = 1 << 30};
	assert_refused_null(ibv_alloc_dmah(context, &hints), EINVAL, REASON_DMAH_ATTR, "cpu_id");
	hints.comp_mask = 1 << 7;
	assert_refused_null(ibv_alloc_dmah(context, &hints), EINVAL, REASON_COMP_MASK, "0x80");
}

/* ---- on demand ---- */

static bool is_there(void *page)
{
	unsigned char there;

	assert_int_equal(mincore(page, PAGE, &there), 0);
	return there & 1;
}

static void prefetching_brings_pages_in(void **state)
{
	char *pages =
	    mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr =
	    ibv_reg_mr(pd, pages, 4 * PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sge = {(uintptr_t)pages + PAGE, PAGE + 1, mr->lkey};

	assert_int_equal(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, &sge, 1), 0);
	assert_false(is_there(pages + PAGE));
	assert_int_equal(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				       IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
			 0);
	assert_false(is_there(pages));
	assert_true(is_there(pages + PAGE));
	assert_true(is_there(pages + 2 * PAGE));
	assert_false(is_there(pages + 3 * PAGE));
	assert_int_equal(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(pages, 4 * PAGE);
}

static void advice_that_cannot_be_taken(void **state)
{
	const enum ibv_advise_mr_advice read = IBV_ADVISE_MR_ADVICE_PREFETCH,
					write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	char *pages = lonely_pages(2 * PAGE);
	struct ibv_mr *mr = ibv_reg_mr(pd, pages, 2 * PAGE, IBV_ACCESS_ON_DEMAND);
	struct ibv_pd *other = ibv_alloc_pd(context);
	struct ibv_sge sge = {(uintptr_t)pages, PAGE, mr->lkey}, plain = end_sge(&a, 0, 8);

	assert_refused(ibv_advise_mr(pd, 3, 0, &sge, 1), EOPNOTSUPP, REASON_ADVICE, "3");
	assert_refused(ibv_advise_mr(pd, read, 2, &sge, 1), EINVAL, REASON_ADVICE_FLAGS, "0x2");
	assert_refused(ibv_advise_mr(pd, write, 0, &sge, 1), EPERM, REASON_ADVICE_WRITE, "lkey");
	assert_refused(ibv_advise_mr(other, read, 0, &sge, 1), EPERM, REASON_ADVICE_PD, "PD");
	assert_refused(ibv_advise_mr(pd, read, 0, &plain, 1), ENOENT, REASON_ADVICE_NOT_ON_DEMAND,
		       "access");
	sge.lkey ^= 1;
	assert_refused(ibv_advise_mr(pd, read, 0, &sge, 1), ENOENT, REASON_ADVICE_LKEY, "lkey");
	sge.lkey ^= 1;
	sge.length = 2 * PAGE + 1;
	assert_refused(ibv_advise_mr(pd, read, 0, &sge, 1), EFAULT, REASON_ADVICE_RANGE, "8193");
	munmap(pages + PAGE, PAGE);
	sge.length = 2 * PAGE;
	assert_int_equal(ibv_advise_mr(pd, read, 0, &sge, 1), 0); /* nobody waits to hear */
	assert_refused(ibv_advise_mr(pd, read, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1), EFAULT,
		       REASON_ADVICE_RANGE, "not all there");
	assert_int_equal(ibv_advise_mr(pd, read, 0, NULL, 0), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	munmap(pages, PAGE);
}

static void the_whole_address_space_is_one_region(void **state)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ON_DEMAND |
			   IBV_ACCESS_RELAXED_ORDERING;
	struct ibv_mr *mr = ibv_reg_mr(pd, NULL, SIZE_MAX, access);
	struct ibv_sge sge = {(uintptr_t)b.buffer, BUFFER, mr->lkey};
	char *later = lonely_pages(PAGE);

	assert_int_equal(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				       IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
			 0);
	arrives((uintptr_t)later, mr->rkey, later);
	munmap(later, PAGE);
	is_kept_out((uintptr_t)later, mr->rkey);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* ---- what Linux never had ---- */

static void a_region_tells_of_itself(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr_iova(pd, b.buffer, 100, 0x7000, IBV_ACCESS_LOCAL_WRITE);
	struct verbatim_mr_attr attr;

	assert_int_equal(verbatim_query_mr(mr, &attr), 0);
	assert_ptr_equal(attr.pd, pd);
	assert_int_equal(attr.iova, 0x7000);
	assert_int_equal(attr.length, 100);
	assert_int_equal(attr.access, IBV_ACCESS_LOCAL_WRITE);
	assert_int_equal(attr.lkey, mr->lkey);
	assert_int_equal(attr.rkey, mr->rkey);
	assert_int_equal(attr.windows, 0);
	assert_int_equal(attr.is_ended, 0);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, a.buffer, 200, 0),
			 0);
	assert_int_equal(verbatim_query_mr(mr, &attr), 0);
	assert_int_equal(attr.iova, (uintptr_t)a.buffer);
	assert_int_equal(attr.length, 200);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void a_window_tells_what_it_is_bound_to(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, b.buffer, PAGE, live_access | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {
	    .send_flags = IBV_SEND_SIGNALED,
	    .bind_info = {mr, (uintptr_t)b.buffer + 8, 64, IBV_ACCESS_REMOTE_READ}};
	struct verbatim_mw_attr attr;
	struct verbatim_mr_attr of_region;

	assert_int_equal(verbatim_query_mw(mw, &attr), 0);
	assert_ptr_equal(attr.pd, pd);
	assert_int_equal(attr.type, IBV_MW_TYPE_1);
	assert_int_equal(attr.is_bound, 0);
	assert_int_equal(attr.rkey, 0);
	assert_int_equal(ibv_bind_mw(b.qp, mw, &bind), 0);
	assert_wc(next_wc(b.cq), 0, IBV_WC_SUCCESS);
	assert_int_equal(verbatim_query_mw(mw, &attr), 0);
	assert_int_equal(attr.is_bound, 1);
	assert_int_equal(attr.rkey, mw->rkey);
	assert_int_equal(attr.lkey, mr->lkey);
	assert_int_equal(attr.qp_num, b.qp->qp_num);
	assert_int_equal(attr.addr, (uintptr_t)b.buffer + 8);
	assert_int_equal(attr.length, 64);
	assert_int_equal(attr.access, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(verbatim_query_mr(mr, &of_region), 0);
	assert_int_equal(of_region.windows, 1);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void a_shared_region_is_another_on_the_same_memory(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, b.buffer, PAGE, 0);
	struct ibv_mr *shared = verbatim_reg_shared_mr(mr, pd, 0x3000, live_access);

	assert_non_null(shared);
	assert_int_not_equal(shared->rkey, mr->rkey);
	assert_int_equal(shared->length, PAGE);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	arrives(0x3000, shared->rkey, b.buffer);
	assert_int_equal(ibv_dereg_mr(shared), 0);
}

/* What is behind the first stays for the second. */
static void a_shared_region_on_a_buffer(void **state)
{
	struct ibv_buf *buf;
	char *place = ibv_alloc_buf(pd, PAGE, &buf);
	struct ibv_mr *mr = ibv_reg_buf_mr(pd, buf, place, PAGE, live_access);
	struct ibv_mr *shared = verbatim_reg_shared_mr(mr, pd, 0, live_access);

	ibv_free_buf(buf);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	arrives(8, shared->rkey, place + 8);
	assert_int_equal(ibv_dereg_mr(shared), 0);
}

static void what_cannot_be_shared(void **state)
{
	struct ibv_context *second = open_loopback();
	struct ibv_pd *far = ibv_alloc_pd(second);
	struct ibv_mr *null = ibv_alloc_null_mr(pd);

	assert_refused_null(verbatim_reg_shared_mr(null, pd, 0, 0), EINVAL, REASON_SHARED_NULL,
			    "MR");
	assert_refused_null(verbatim_reg_shared_mr(b.mr, far, 0, 0), EINVAL,
			    REASON_MR_OTHER_CONTEXT, "PD");
	assert_refused_null(verbatim_reg_shared_mr(b.mr, pd, 0, IBV_ACCESS_REMOTE_WRITE), EINVAL,
			    REASON_MR_NEEDS_LOCAL_WRITE, "REMOTE_WRITE");
	assert_refused_null(verbatim_reg_shared_mr(b.mr, pd, UINT64_MAX, 0), EINVAL,
			    REASON_MR_RANGE, "iova");
	assert_int_equal(ibv_dereg_mr(null), 0);
	assert_int_equal(ibv_dealloc_pd(far), 0);
	assert_int_equal(ibv_close_device(second), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    MEMORY_TEST(a_region_moves_under_its_keys),
	    MEMORY_TEST(a_region_loses_a_right),
	    MEMORY_TEST(a_region_goes_to_another_pd),
	    MEMORY_TEST(all_changes_at_once),
	    MEMORY_TEST(what_cannot_be_changed),
	    MEMORY_TEST(a_null_region_reads_as_zeroes_and_swallows),
	    MEMORY_TEST(a_null_element_between_others),
	    MEMORY_TEST(a_null_region_lets_no_peer_in),
	    MEMORY_TEST(a_region_on_a_descriptor),
	    MEMORY_TEST(descriptors_of_no_use),
	    MEMORY_TEST(a_buffer_is_registered_exported_and_outlives_its_end),
	    MEMORY_TEST(an_exported_buffer_is_a_region_elsewhere),
	    MEMORY_TEST(what_is_no_part_of_a_buffer),
	    MEMORY_TEST(every_source_by_attributes),
	    MEMORY_TEST(sources_that_do_not_fit_together),
	    MEMORY_TEST(prefetching_brings_pages_in),
	    MEMORY_TEST(advice_that_cannot_be_taken),
	    MEMORY_TEST(the_whole_address_space_is_one_region),
	    MEMORY_TEST(a_region_tells_of_itself),
	    MEMORY_TEST(a_window_tells_what_it_is_bound_to),
	    MEMORY_TEST(a_shared_region_is_another_on_the_same_memory),
	    MEMORY_TEST(a_shared_region_on_a_buffer),
	    MEMORY_TEST(what_cannot_be_shared),
	};

	return cmocka_run_group_tests(tests, live_open, live_close);
}
