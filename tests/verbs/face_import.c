/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Import: a context by its cmd_fd and objects by their handles, within the process, and from
 * another one that hands its descriptor over a socket.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "live.h"

enum { PAGE = 4096 };

static struct ibv_context *imported;

static int setup(void **state)
{
	imported = ibv_import_device(dup(context->cmd_fd));
	return imported ? 0 : -1;
}

static int teardown(void **state)
{
	return ibv_close_device(imported);
}

#define IMPORT_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* An end in `domain`, whose buffer is another's. */
static void end_in(struct end *end, struct ibv_pd *domain)
{
	struct ibv_qp_init_attr attr;

	end->cq = ibv_create_cq(domain->context, CQE, end, NULL, 0);
	assert_non_null(end->cq);
	attr = end_qp_attr(end->cq, IBV_QPT_RC);
	end->qp = ibv_create_qp(domain, &attr);
	assert_non_null(end->qp);
	qp_init(end->qp, live_access);
}

static void end_out(struct end *end)
{
	assert_int_equal(ibv_destroy_qp(end->qp), 0);
	assert_int_equal(ibv_destroy_cq(end->cq), 0);
}

/* A peer of this process writes to `addr` by `rkey`, through a QP in `domain`. */
static struct ibv_wc write_through(struct ibv_pd *domain, uint64_t addr, uint32_t rkey)
{
	struct end peer, end;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_wc wc;

	end_create(&peer, IBV_QPT_RC);
	qp_init(peer.qp, live_access);
	end_in(&end, domain);
	qp_connect(peer.qp, end.qp->qp_num);
	qp_connect(end.qp, peer.qp->qp_num);
	strcpy(peer.buffer, "imported");
	sge = end_sge(&peer, 0, 9);
	wr = make_send(IBV_WR_RDMA_WRITE, &sge);
	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	post_send_wr(&peer, &wr);
	wc = next_wc(peer.cq);
	end_out(&end);
	end_destroy(&peer);
	return wc;
}

/* ---- within the process ---- */

static void a_context_is_imported_by_its_descriptor(void **state)
{
	struct ibv_device_attr attr;

	assert_ptr_not_equal(imported, context);
	assert_ptr_equal(imported->device, context->device);
	assert_int_equal(ibv_query_device(imported, &attr), 0);
	assert_memory_equal(&attr, &device_attr, sizeof(attr));
	assert_int_not_equal(imported->cmd_fd, context->cmd_fd);
}

/* Devices are numbered anew when interfaces come and go. */
static void a_device_that_changed_its_name_is_imported(void **state)
{
	struct ibv_context *again;
	struct ibv_pd *pd2;

	assert_int_equal(setenv("VERBATIM_DEVICES", "renamed=lo", 1), 0);
	again = ibv_import_device(dup(context->cmd_fd));
	assert_int_equal(unsetenv("VERBATIM_DEVICES"), 0);
	assert_non_null(again);
	assert_string_equal(ibv_get_device_name(again->device), "renamed");
	assert_int_equal(ibv_get_device_index(again->device),
			 ibv_get_device_index(context->device));
	pd2 = ibv_import_pd(again, pd->handle);
	assert_non_null(pd2);
	ibv_unimport_pd(pd2);
	assert_int_equal(ibv_close_device(again), 0);
}

static void a_region_is_reached_through_its_import(void **state)
{
	static char memory[PAGE];
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, PAGE, live_access), *mr2;
	struct ibv_pd *pd2 = ibv_import_pd(imported, pd->handle);

	assert_non_null(pd2);
	assert_ptr_equal(pd2->context, imported);
	assert_int_equal(pd2->handle, pd->handle);
	mr2 = ibv_import_mr(pd2, mr->handle);
	assert_non_null(mr2);
	assert_null(mr2->addr);
	assert_int_equal(mr2->lkey, mr->lkey);
	assert_int_equal(mr2->rkey, mr->rkey);
	assert_int_equal(mr2->length, PAGE);
	assert_int_equal(mr2->handle, mr->handle);
	assert_wc(write_through(pd2, (uintptr_t)memory, mr2->rkey), 0x5e4d, IBV_WC_SUCCESS);
	assert_string_equal(memory, "imported");
	assert_refused(ibv_dealloc_pd(pd2), EBUSY, REASON_PD_BUSY, "1");
	ibv_unimport_mr(mr2);
	ibv_unimport_pd(pd2);
	memory[0] = 0;
	assert_wc(write_through(pd, (uintptr_t)memory, mr->rkey), 0x5e4d, IBV_WC_SUCCESS);
	assert_string_equal(memory, "imported");
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* Whoever destroys it, destroys it for all; the others only let go. */
static void either_may_end_the_region(void **state)
{
	struct ibv_pd *pd2 = ibv_import_pd(imported, pd->handle);
	char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, PAGE, live_access);
	struct ibv_mr *mr2 = ibv_import_mr(pd2, mr->handle);
	uint32_t handle = mr->handle;

	assert_int_equal(ibv_dereg_mr(mr2), 0);
	munmap(memory, PAGE);
	assert_failed(write_through(pd, (uintptr_t)memory, mr->rkey), 0x5e4d, IBV_WC_REM_ACCESS_ERR,
		      REASON_PEER_REFUSED_ACCESS);
	assert_refused_null(ibv_import_mr(pd2, handle), ENOENT, REASON_IMPORT_HANDLE, "MR");
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd2);
}

static void a_pd_is_the_same_for_all_who_import_it(void **state)
{
	struct ibv_pd *own = ibv_alloc_pd(context), *pd2 = ibv_import_pd(imported, own->handle);
	struct ibv_pd *pd3 = ibv_import_pd(imported, own->handle);
	static char memory[PAGE];
	struct ibv_mr *mr;

	assert_int_equal(ibv_dealloc_pd(own), 0);
	mr = ibv_reg_mr(pd2, memory, PAGE, live_access);
	assert_wc(write_through(pd3, (uintptr_t)memory, mr->rkey), 0x5e4d, IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ibv_unimport_pd(pd3);
	ibv_unimport_pd(pd2);
}

static void device_memory_is_one_for_both(void **state)
{
	struct ibv_alloc_dm_attr attr = {.length = PAGE};
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr),
		      *dm2 = ibv_import_dm(imported, dm->handle);
	char seen[8];

	assert_non_null(dm2);
	assert_ptr_equal(dm2->context, imported);
	assert_int_equal(ibv_memcpy_to_dm(dm, 8, "memory!", 8), 0);
	assert_int_equal(ibv_memcpy_from_dm(seen, dm2, 8, 8), 0);
	assert_string_equal(seen, "memory!");
	assert_refused(ibv_memcpy_to_dm(dm2, PAGE, seen, 8), EFAULT, REASON_DM_RANGE, "of 4096");
	assert_int_equal(ibv_free_dm(dm), 0);
	assert_int_equal(ibv_memcpy_from_dm(seen, dm2, 8, 8), 0);
	ibv_unimport_dm(dm2);
}

static void a_region_is_in_the_way_of_its_own_handle_alone(void **state)
{
	const int access = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE;
	struct ibv_context *other = ibv_import_device(dup(context->cmd_fd));
	struct ibv_alloc_dm_attr attr = {.length = PAGE};
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr), *dm2 = ibv_import_dm(other, dm->handle);
	struct ibv_mr *mr = ibv_reg_dm_mr(pd, dm, 0, PAGE, access);
	int fd = other->async_fd;

	assert_non_null(mr);
	ibv_unimport_dm(dm2);
	assert_int_equal(ibv_close_device(other), 0);
	assert_int_equal(fcntl(fd, F_GETFD), -1); /* with nothing left of it */
	assert_refused(ibv_free_dm(dm), EBUSY, REASON_DM_BUSY, "1 regions");
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
}

static void what_is_not_there_to_import(void **state)
{
	struct ibv_pd *pd2 = ibv_import_pd(imported, pd->handle), *other = ibv_alloc_pd(context);
	static char memory[PAGE];
	struct ibv_mr *mr = ibv_reg_mr(other, memory, PAGE, 0);
	int fd = open("/dev/null", O_RDWR), empty = memfd_create("empty", 0);

	assert_refused_null(ibv_import_device(9999), EINVAL, REASON_IMPORT_FD, "9999");
	assert_refused_null(ibv_import_device(fd), EINVAL, REASON_IMPORT_FD, "cmd_fd");
	assert_refused_null(ibv_import_device(empty), EINVAL, REASON_IMPORT_FD, "cmd_fd");
	assert_refused_null(ibv_import_pd(imported, 0x777777), ENOENT, REASON_IMPORT_HANDLE, "PD");
	assert_refused_null(ibv_import_mr(pd2, 0x777777), ENOENT, REASON_IMPORT_HANDLE, "MR");
	assert_refused_null(ibv_import_mr(pd2, mr->handle), EINVAL, REASON_IMPORT_PD, "PD");
	assert_refused_null(ibv_import_dm(imported, mr->handle), ENOENT, REASON_IMPORT_HANDLE,
			    "DM");
	assert_int_equal(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_CMD);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	ibv_unimport_pd(pd2);
	close(fd);
	close(empty);
}

/* ---- somebody's word ---- */

/* What a context's file is like, as far as these tests go. */
struct forged {
	char magic[8];
	uint32_t version;
	int32_t pid, cmd_fd;
	uint32_t high, ifindex;
	char device[IBV_SYSFS_NAME_MAX];
};

/* A copy of our context's file that says what `forge` makes of it. */
static int forged_file(void (*forge)(struct forged *head), unsigned int seals)
{
	int fd = memfd_create("forged", MFD_ALLOW_SEALING);
	off_t size = lseek(context->cmd_fd, 0, SEEK_END);
	struct forged head;

	assert_int_equal(ftruncate(fd, size), 0);
	assert_int_equal(pread(context->cmd_fd, &head, sizeof(head), 0), sizeof(head));
	head.cmd_fd = fd;
	if (forge)
		forge(&head);
	assert_int_equal(pwrite(fd, &head, sizeof(head), 0), sizeof(head));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void no_magic(struct forged *head)
{
	head->magic[0]++;
}

static void other_version(struct forged *head)
{
	head->version++;
}

static void endless_name(struct forged *head)
{
	memset(head->device, 'x', sizeof(head->device));
}

static void unknown_device(struct forged *head)
{
	strcpy(head->device, "mlx5_77");
	head->ifindex = 7777;
}

static void another_process(struct forged *head)
{
	head->pid = getppid();
}

static void a_file_that_somebody_forged(void **state)
{
	static const struct {
		void (*forge)(struct forged *head);
		int error;
		enum reason reason;
	} tries[] = {
	    {no_magic, EINVAL, REASON_IMPORT_FD},
	    {other_version, EINVAL, REASON_IMPORT_FD},
	    {endless_name, EINVAL, REASON_IMPORT_FD},
	    {unknown_device, ENODEV, REASON_IMPORT_DEVICE},
	    {another_process, EPERM, REASON_IMPORT_MAKER},
	};
	int fd;

	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		fd = forged_file(tries[i].forge, F_SEAL_SHRINK);
		assert_refused_null(ibv_import_device(fd), tries[i].error, tries[i].reason, "");
		close(fd);
	}
	fd = forged_file(NULL, F_SEAL_GROW); /* it could be cut off under our eyes */
	assert_refused_null(ibv_import_device(fd), EINVAL, REASON_IMPORT_FD, "cmd_fd");
	close(fd);
}

/* One that is well made opens, and its objects are taken at their word only as far as that goes. */
static void objects_that_somebody_made_up(void **state)
{
	struct {
		uint32_t kind, handle, pd_handle, access, lkey, rkey;
		uint64_t iova, length, addr;
		int32_t fd;
		uint32_t reserved;
		uint64_t inode, offset;
	} entries[] = {
	    {0},
	    {.kind = 1, .handle = 1},
	    {.kind = 2, .handle = 2, .pd_handle = 1, .length = UINT64_MAX, .addr = 4096, .fd = -1},
	    {.kind = 2, .handle = 3, .pd_handle = 1, .length = 64, .fd = 1 << 20},
	    {.kind = 3, .handle = 4, .length = UINT64_MAX, .fd = -1},
	    {.kind = 3, .handle = 5, .length = 4096, .fd = 0},
	};
	enum { ENTRIES = sizeof(entries) / sizeof(entries[0]) };
	int fd = memfd_create("made up", MFD_ALLOW_SEALING);
	off_t size = lseek(context->cmd_fd, 0, SEEK_END);
	struct ibv_context *made_up;
	struct forged head;
	struct ibv_pd *domain;
	struct stat file;

	assert_int_equal(pread(context->cmd_fd, &head, sizeof(head), 0), sizeof(head));
	head.cmd_fd = fd;
	head.high = UINT32_MAX;
	assert_int_equal(fstat(fd, &file), 0);
	entries[3].inode = entries[5].inode = file.st_ino;
	assert_int_equal(ftruncate(fd, size), 0);
	assert_int_equal(pwrite(fd, &head, sizeof(head), 0), sizeof(head));
	assert_int_equal(pwrite(fd, entries, sizeof(entries), (sizeof(head) + 7) & ~7ul),
			 sizeof(entries));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	made_up = ibv_import_device(dup(fd));
	assert_non_null(made_up);
	domain = ibv_import_pd(made_up, 1);
	assert_non_null(domain);
	assert_refused_null(ibv_import_mr(domain, 2), EOPNOTSUPP, REASON_IMPORT_MEMORY, "MR 2");
	assert_refused_null(ibv_import_mr(domain, 3), EOPNOTSUPP, REASON_IMPORT_MEMORY, "MR 3");
	assert_refused_null(ibv_import_dm(made_up, 4), EOPNOTSUPP, REASON_IMPORT_MEMORY, "DM 4");
	assert_refused_null(ibv_import_dm(made_up, 5), EOPNOTSUPP, REASON_IMPORT_MEMORY, "DM 5");
	assert_refused_null(ibv_import_mr(domain, 99), ENOENT, REASON_IMPORT_HANDLE, "MR 99");
	ibv_unimport_pd(domain);
	assert_int_equal(ibv_close_device(made_up), 0);
	close(fd);
}

/* ---- from another process ---- */

struct offer {
	uint32_t pd, other_pd, buf_mr, shared_mr, private_mr, dm, dm_mr;
	uint64_t buf_addr, shared_addr;
	uint32_t buf_rkey, buf_lkey, dm_rkey;
};

static void send_offer(int socket, const struct offer *offer, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {(void *)(uintptr_t)offer, sizeof(*offer)};
	struct msghdr message = {.msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	sendmsg(socket, &message, 0);
}

static int take_offer(int socket, struct offer *offer)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {offer, sizeof(*offer)};
	struct msghdr message = {.msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};
	int fd;

	assert_int_equal(recvmsg(socket, &message, MSG_CMSG_CLOEXEC), sizeof(*offer));
	assert_non_null(CMSG_FIRSTHDR(&message));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	return fd;
}

/* The other process: offers a buffer of the library's, a file mapped shared, private memory and
 * device memory; when it is told to, tells whether its memory was written. */
static void offer_and_wait(int socket)
{
	struct ibv_alloc_dm_attr dm_attr = {.length = PAGE};
	struct ibv_context *own = open_loopback();
	struct ibv_pd *domain = ibv_alloc_pd(own);
	struct ibv_buf *buf;
	char *place = ibv_alloc_buf(domain, PAGE, &buf), told[3];
	int fd = memfd_create("mine", 0);
	static char private[PAGE];
	struct offer offer;
	struct ibv_mr *mr;
	struct ibv_dm *dm = ibv_alloc_dm(own, &dm_attr);
	char *shared;

	if (ftruncate(fd, 3 * PAGE))
		_exit(1);
	shared = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, PAGE);
	memset(&offer, 0, sizeof(offer));
	offer.pd = domain->handle;
	offer.other_pd = ibv_alloc_pd(own)->handle;
	mr = ibv_reg_buf_mr(domain, buf, place, PAGE, live_access);
	offer.buf_mr = mr->handle;
	offer.buf_addr = (uintptr_t)place;
	offer.buf_rkey = mr->rkey;
	offer.buf_lkey = mr->lkey;
	offer.shared_addr = (uintptr_t)shared + 100;
	offer.shared_mr = ibv_reg_mr(domain, shared + 100, PAGE, live_access)->handle;
	offer.private_mr = ibv_reg_mr(domain, private, PAGE, live_access)->handle;
	offer.dm = dm->handle;
	mr = ibv_reg_dm_mr(domain, dm, 0, PAGE, live_access | IBV_ACCESS_ZERO_BASED);
	offer.dm_mr = mr->handle;
	send_offer(socket, &offer, own->cmd_fd);
	while (read(socket, told, 1) == 1) {
		char seen[16] = {0};

		ibv_memcpy_from_dm(seen, dm, 64, 12);
		told[0] = !strcmp(place + 32, "imported");
		told[1] = !strcmp(shared + 100 + 8, "imported");
		told[2] = !strcmp(seen, "imported");
		if (write(socket, told, 3) != 3)
			break;
	}
	_exit(0);
}

static struct offer offer;
static int other = -1;
static pid_t other_pid;
static struct ibv_context *theirs;

static int start_other(void **state)
{
	int sockets[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		return -1;
	other_pid = fork();
	if (!other_pid) {
		close(sockets[0]);
		offer_and_wait(sockets[1]);
	}
	close(sockets[1]);
	other = sockets[0];
	theirs = ibv_import_device(take_offer(other, &offer));
	return theirs ? 0 : -1;
}

static int end_other(void **state)
{
	int status;

	close(other);
	waitpid(other_pid, &status, 0);
	return ibv_close_device(theirs) || status;
}

#define OTHER_TEST(name) cmocka_unit_test_setup_teardown(name, start_other, end_other)

static void other_sees(int which)
{
	char told[3];

	assert_int_equal(write(other, "?", 1), 1);
	assert_int_equal(read(other, told, 3), 3);
	assert_int_equal(told[which], 1);
}

static void a_buffer_of_another_process(void **state)
{
	struct ibv_pd *domain = ibv_import_pd(theirs, offer.pd);
	struct ibv_mr *mr;

	assert_non_null(domain);
	assert_int_equal(domain->handle, offer.pd);
	mr = ibv_import_mr(domain, offer.buf_mr);
	assert_non_null(mr);
	assert_null(mr->addr);
	assert_int_equal(mr->rkey, offer.buf_rkey);
	assert_int_equal(mr->lkey, offer.buf_lkey);
	assert_int_equal(mr->handle, offer.buf_mr);
	assert_wc(write_through(domain, offer.buf_addr + 32, mr->rkey), 0x5e4d, IBV_WC_SUCCESS);
	other_sees(0);
	ibv_unimport_mr(mr);
	ibv_unimport_pd(domain);
}

static void shared_memory_of_another_process(void **state)
{
	struct ibv_pd *domain = ibv_import_pd(theirs, offer.pd);
	struct ibv_mr *mr = ibv_import_mr(domain, offer.shared_mr);

	assert_non_null(mr);
	assert_wc(write_through(domain, offer.shared_addr + 8, mr->rkey), 0x5e4d, IBV_WC_SUCCESS);
	other_sees(1);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(domain), 0);
}

static void device_memory_of_another_process(void **state)
{
	struct ibv_pd *domain = ibv_import_pd(theirs, offer.pd);
	struct ibv_dm *dm = ibv_import_dm(theirs, offer.dm);
	struct ibv_mr *mr = ibv_import_mr(domain, offer.dm_mr);
	char seen[12];

	assert_non_null(dm);
	assert_non_null(mr);
	assert_wc(write_through(domain, 64, mr->rkey), 0x5e4d, IBV_WC_SUCCESS);
	assert_int_equal(ibv_memcpy_from_dm(seen, dm, 64, 12), 0);
	assert_string_equal(seen, "imported");
	other_sees(2);
	ibv_unimport_mr(mr);
	ibv_unimport_dm(dm);
	ibv_unimport_pd(domain);
}

static void an_imported_pd_is_one_here_too(void **state)
{
	struct ibv_pd *one = ibv_import_pd(theirs, offer.pd);
	struct ibv_pd *two = ibv_import_pd(theirs, offer.pd);
	struct ibv_mr *mr = ibv_import_mr(one, offer.buf_mr),
		      *again = ibv_import_mr(two, offer.buf_mr);

	assert_non_null(again);
	assert_int_equal(mr->rkey, again->rkey);
	assert_wc(write_through(two, offer.buf_addr, mr->rkey), 0x5e4d, IBV_WC_SUCCESS);
	ibv_unimport_mr(mr);
	assert_wc(write_through(two, offer.buf_addr, again->rkey), 0x5e4d, IBV_WC_SUCCESS);
	ibv_unimport_mr(again);
	ibv_unimport_pd(two);
	ibv_unimport_pd(one);
}

static void what_another_process_does_not_share(void **state)
{
	struct ibv_pd *domain = ibv_import_pd(theirs, offer.pd);
	struct ibv_pd *wrong = ibv_import_pd(theirs, offer.other_pd);

	assert_refused_null(ibv_import_mr(domain, offer.private_mr), EOPNOTSUPP,
			    REASON_IMPORT_MEMORY, "4096 bytes");
	assert_refused_null(ibv_import_mr(wrong, offer.buf_mr), EINVAL, REASON_IMPORT_PD, "PD");
	assert_refused_null(ibv_import_mr(domain, offer.pd), ENOENT, REASON_IMPORT_HANDLE, "MR");
	assert_refused_null(ibv_import_dm(theirs, offer.pd), ENOENT, REASON_IMPORT_HANDLE, "DM");
	ibv_unimport_pd(wrong);
	ibv_unimport_pd(domain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    IMPORT_TEST(a_context_is_imported_by_its_descriptor),
	    cmocka_unit_test(a_device_that_changed_its_name_is_imported),
	    IMPORT_TEST(a_region_is_reached_through_its_import),
	    IMPORT_TEST(either_may_end_the_region),
	    IMPORT_TEST(a_pd_is_the_same_for_all_who_import_it),
	    IMPORT_TEST(device_memory_is_one_for_both),
	    IMPORT_TEST(a_region_is_in_the_way_of_its_own_handle_alone),
	    IMPORT_TEST(what_is_not_there_to_import),
	    cmocka_unit_test(a_file_that_somebody_forged),
	    cmocka_unit_test(objects_that_somebody_made_up),
	    OTHER_TEST(a_buffer_of_another_process),
	    OTHER_TEST(shared_memory_of_another_process),
	    OTHER_TEST(device_memory_of_another_process),
	    OTHER_TEST(an_imported_pd_is_one_here_too),
	    OTHER_TEST(what_another_process_does_not_share),
	};

	return cmocka_run_group_tests(tests, live_open, live_close);
}
