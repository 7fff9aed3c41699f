/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers and keys: no two objects that are alive have the same, whichever threads and processes
 * make and end them at once, and one that has ended means nothing any more.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "live.h"

enum { THREADS = 4, ROUNDS = 60, BATCH = 8, ALONE = 64 };

enum kind { QP_NUMBER, KEY, CQ_HANDLE, SRQ_HANDLE, PD_HANDLE, KINDS };

/* A bit for each number; of half a gigabyte few pages are ever touched. */
static _Atomic(uint8_t) *alive[KINDS];
static atomic_uint twice;

static void begins(enum kind kind, uint32_t number)
{
	uint8_t bit = (uint8_t)(1u << number % 8);

	if (atomic_fetch_or(&alive[kind][number / 8], bit) & bit)
		atomic_fetch_add(&twice, 1);
}

static void ends(enum kind kind, uint32_t number)
{
	atomic_fetch_and(&alive[kind][number / 8], (uint8_t) ~(1u << number % 8));
}

static int setup(void **state)
{
	const size_t bytes = 1ul << 29;

	for (int i = 0; i < KINDS; i++) {
		alive[i] = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (alive[i] == MAP_FAILED)
			return -1;
	}
	return live_open(state);
}

/* What a thread has of one round. */
struct objects {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	char bytes[64];
};

static bool make(struct objects *o)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_qp_init_attr qp = {
	    .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC};

	o->pd = ibv_alloc_pd(context);
	o->cq = qp.send_cq = qp.recv_cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	if (!o->pd || !o->cq)
		return false;
	o->srq = ibv_create_srq(o->pd, &srq);
	o->qp = ibv_create_qp(o->pd, &qp);
	o->mr = ibv_reg_mr(o->pd, o->bytes, sizeof(o->bytes), live_access);
	o->mw = ibv_alloc_mw(o->pd, IBV_MW_TYPE_1);
	if (!o->srq || !o->qp || !o->mr || !o->mw)
		return false;
	begins(PD_HANDLE, o->pd->handle);
	begins(CQ_HANDLE, o->cq->handle);
	begins(SRQ_HANDLE, o->srq->handle);
	begins(QP_NUMBER, o->qp->qp_num);
	begins(KEY, o->mr->lkey);
	begins(KEY, o->mr->rkey);
	begins(KEY, o->mw->rkey);
	return true;
}

static bool end(struct objects *o)
{
	ends(PD_HANDLE, o->pd->handle);
	ends(CQ_HANDLE, o->cq->handle);
	ends(SRQ_HANDLE, o->srq->handle);
	ends(QP_NUMBER, o->qp->qp_num);
	ends(KEY, o->mr->lkey);
	ends(KEY, o->mr->rkey);
	ends(KEY, o->mw->rkey);
	return !ibv_dealloc_mw(o->mw) && !ibv_dereg_mr(o->mr) && !ibv_destroy_qp(o->qp) &&
	       !ibv_destroy_srq(o->srq) && !ibv_destroy_cq(o->cq) && !ibv_dealloc_pd(o->pd);
}

static void *work(void *data)
{
	struct objects *objects = calloc(BATCH, sizeof(*objects));
	bool is_good = objects;

	for (int round = 0; round < ROUNDS && is_good; round++) {
		for (int i = 0; i < BATCH && is_good; i++)
			is_good = make(&objects[i]);
		for (int i = 0; i < BATCH && is_good; i++)
			is_good = end(&objects[i]);
	}
	free(objects);
	return is_good ? data : NULL;
}

static void no_two_that_are_alive_have_the_same(void **state)
{
	pthread_t threads[THREADS];
	void *result;

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, &twice), 0);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &result), 0);
		assert_non_null(result);
	}
	assert_int_equal(atomic_load(&twice), 0);
}

/* ---- what has ended ---- */

static struct ibv_qp *make_qp(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {
	    .send_cq = cq,
	    .recv_cq = cq,
	    .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC};

	return ibv_create_qp(pd, &attr);
}

static void a_number_is_not_given_again_soon(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	uint32_t numbers[ALONE], keys[ALONE];

	assert_non_null(cq);
	for (int i = 0; i < ALONE; i++) {
		static char bytes[64];
		struct ibv_qp *qp = make_qp(cq);
		struct ibv_mr *mr = ibv_reg_mr(pd, bytes, sizeof(bytes), live_access);

		assert_non_null(qp);
		assert_non_null(mr);
		numbers[i] = qp->qp_num;
		keys[i] = mr->rkey;
		for (int before = 0; before < i; before++) {
			assert_int_not_equal(numbers[before], numbers[i]);
			assert_int_not_equal(keys[before], keys[i]);
		}
		assert_int_equal(ibv_destroy_qp(qp), 0);
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void assert_write_fails(struct end *a, struct ibv_sge sge, uint64_t addr, uint32_t rkey,
			       enum ibv_wc_status status)
{
	struct ibv_send_wr wr = make_send(IBV_WR_RDMA_WRITE, &sge);

	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	post_send_wr(a, &wr);
	assert_int_equal(next_wc(a->cq).status, status);
}

/* Of the same memory, registered anew; by the peer, and by the program itself. */
static void a_key_of_before_is_refused(void **state)
{
	struct ibv_mr *before, *now;
	struct ibv_sge sge;
	struct end a, b;
	uint32_t lkey, rkey;

	for (int i = 0; i < 2; i++) {
		pair_create(&a, &b, IBV_QPT_RC);
		before = ibv_reg_mr(pd, b.buffer, BUFFER, live_access);
		assert_non_null(before);
		lkey = before->lkey;
		rkey = before->rkey;
		assert_int_equal(ibv_dereg_mr(before), 0);
		now = ibv_reg_mr(pd, b.buffer, BUFFER, live_access);
		assert_non_null(now);
		sge = end_sge(&a, 0, 32);
		if (i)
			sge = (struct ibv_sge){(uintptr_t)b.buffer, 32, lkey};
		assert_write_fails(&a, sge, (uintptr_t)b.buffer, i ? now->rkey : rkey,
				   i ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(ibv_dereg_mr(now), 0);
		pair_destroy(&a, &b);
	}
}

/* ---- two processes ---- */

/* The other one: opens the device, makes QPs, says their numbers, and keeps them until the line is
 * closed. */
static int tell_numbers(int line)
{
	uint32_t numbers[ALONE];
	struct ibv_cq *cq;
	char byte;

	context = open_loopback();
	pd = context ? ibv_alloc_pd(context) : NULL;
	cq = pd ? ibv_create_cq(context, 4, NULL, NULL, 0) : NULL;
	for (int i = 0; i < ALONE; i++) {
		struct ibv_qp *qp = cq ? make_qp(cq) : NULL;

		if (!qp)
			return 1;
		numbers[i] = qp->qp_num;
	}
	return write(line, numbers, sizeof(numbers)) != sizeof(numbers) ||
	       read(line, &byte, 1) != 0;
}

static void processes_of_a_host_have_no_number_in_common(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	char text[16], *argv[] = {"/proc/self/exe", "numbers", text, NULL};
	uint32_t theirs[ALONE];
	struct ibv_qp *ours[ALONE];
	int ends_of_line[2], status;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_of_line), 0);
	assert_int_equal(fcntl(ends_of_line[0], F_SETFD, FD_CLOEXEC), 0);
	snprintf(text, sizeof(text), "%d", ends_of_line[1]);
	assert_int_equal(posix_spawn(&pid, argv[0], NULL, NULL, argv, environ), 0);
	close(ends_of_line[1]);
	for (int i = 0; i < ALONE; i++) {
		ours[i] = make_qp(cq);
		assert_non_null(ours[i]);
	}
	assert_int_equal(recv(ends_of_line[0], theirs, sizeof(theirs), MSG_WAITALL),
			 sizeof(theirs));
	for (int i = 0; i < ALONE; i++)
		for (int j = 0; j < ALONE; j++)
			assert_int_not_equal(ours[i]->qp_num, theirs[j]);
	close(ends_of_line[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	for (int i = 0; i < ALONE; i++)
		assert_int_equal(ibv_destroy_qp(ours[i]), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(no_two_that_are_alive_have_the_same),
	    cmocka_unit_test(a_number_is_not_given_again_soon),
	    cmocka_unit_test(a_key_of_before_is_refused),
	    cmocka_unit_test(processes_of_a_host_have_no_number_in_common),
	};

	if (argc == 3 && !strcmp(argv[1], "numbers"))
		return tell_numbers(atoi(argv[2]));
	return cmocka_run_group_tests(tests, setup, live_close);
}
