/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * between send|write|read SIZE COUNT [DEPTH [OPTIONS]]: messages between two RC queue pairs of two
 * processes, each with a thread that posts and polls. Prints nanoseconds a message. Options, as one
 * word of letters: `p` the target of a WRITE or READ polls, though nothing completes there (as that
 * of ib_write_bw does not); `h` huge pages are asked for; `d` the target's memory is the device's;
 * `m` of MANY messages each has memory of its own at both ends (not with `d`); `w` both WRITE into
 * the other's memory, shared from birth, in turn, and wait for the other's last byte in their own:
 * one way.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "rc.h"

enum { RECEIVES = 256, HUGE_PAGE = 2 << 20, ODD = 8, MANY = 16 };

/* What the two tell each other, in memory that both have. */
struct board {
	struct side {
		union ibv_gid gid;
		uint32_t qpn, rkey;
		uint64_t addr;
		atomic_int is_told, is_ready;
	} sides[2];
	atomic_int is_over;
};

static struct board *board;
static struct side *own, *peer;
static const char *options = "";
static enum ibv_wr_opcode opcode;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static char *buffer;
static size_t size, source; /* where in it what is sent lies */
static size_t stride;	    /* from one message to the next; 0: all in the same place */

static int has(char option)
{
	return strchr(options, option) != NULL;
}

/* Where the next message lies, in memory of these. */
static size_t next_place(unsigned int *messages)
{
	return (*messages)++ % MANY * stride;
}

static void make_memory(struct ibv_context *context)
{
	const int access =
	    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	const struct side *into = &board->sides[opcode != IBV_WR_RDMA_READ];
	size_t odd = has('o') && own == into ? ODD : 0;
	size_t used = has('m') ? MANY * size : size;
	size_t whole = (used + odd + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	struct ibv_buf *buf;

	stride = has('m') ? size : 0;
	source = has('w') ? whole : 0;
	whole += source;
	if (has('d') && own == &board->sides[1]) {
		struct ibv_alloc_dm_attr attr = {.length = (size + 3) / 4 * 4};
		struct ibv_dm *dm = ibv_alloc_dm(context, &attr);

		need(dm != NULL, "device memory");
		mr = ibv_reg_dm_mr(pd, dm, 0, size, access | IBV_ACCESS_ZERO_BASED);
		need(mr != NULL, "region");
		return;
	}
	buffer = has('w') ? ibv_alloc_buf(pd, whole, &buf) : aligned_alloc(HUGE_PAGE, whole);
	need(buffer && !madvise(buffer, whole, has('h') ? MADV_HUGEPAGE : MADV_NOHUGEPAGE),
	     "memory");
	memset(buffer, 1, whole);
	buffer += odd;
	mr = has('w') ? ibv_reg_buf_mr(pd, buf, buffer, whole, access)
		      : ibv_reg_mr(pd, buffer, used, access);
	need(mr != NULL, "region");
	own->addr = (uintptr_t)buffer;
}

static void open_side(void)
{
	struct ibv_context *context;
	struct ibv_qp_init_attr init = {
	    .cap = {.max_send_wr = 256,
		    .max_recv_wr = RECEIVES,
		    .max_send_sge = 1,
		    .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC,
	};

	context = open_last_device();
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 1024, NULL, NULL, 0);
	need(pd && cq, "set up");
	init.send_cq = init.recv_cq = cq;
	make_memory(context);
	qp = ibv_create_qp(pd, &init);
	need(qp && !ibv_query_gid(context, 1, 0, &own->gid), "QP");
	own->qpn = qp->qp_num;
	own->rkey = mr->rkey;
	atomic_store(&own->is_told, 1);
}

static void connect_side(void)
{
	struct rc rc = {.mtu = IBV_MTU_4096, .depth = 16, .timeout = 14};

	while (!atomic_load(&peer->is_told))
		usleep(100);
	rc.peer = peer->qpn;
	rc.gid = peer->gid;
	rc_connect(qp, &rc);
}

static void wait_ready(void)
{
	atomic_store(&own->is_ready, 1);
	while (!atomic_load(&peer->is_ready))
		usleep(100);
}

static void post_recv(void)
{
	static unsigned int messages;
	struct ibv_sge sge = {own->addr + next_place(&messages), (uint32_t)size, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	need(!ibv_post_recv(qp, &wr, &bad), "receive");
}

static void post_send(void)
{
	static unsigned int messages;
	size_t place = next_place(&messages);
	struct ibv_sge sge = {own->addr + source + place, (uint32_t)size, mr->lkey};
	struct ibv_send_wr wr = {
	    .sg_list = &sge,
	    .num_sge = 1,
	    .opcode = opcode,
	    .send_flags = IBV_SEND_SIGNALED,
	    .wr = {.rdma = {peer->addr + place, peer->rkey}},
	};
	struct ibv_send_wr *bad;

	need(!ibv_post_send(qp, &wr, &bad), "send");
}

static void give(char value)
{
	buffer[source + size - 1] = value;
	post_send();
	while (!rc_take(cq))
		;
}

static void await(char value)
{
	while (*(volatile char *)&buffer[size - 1] != value &&
	       !atomic_load_explicit(&board->is_over, memory_order_relaxed))
		;
}

static void answer(void)
{
	char value = 1;

	while (!atomic_load(&board->is_over)) {
		await(++value);
		give(++value);
	}
}

static double exchange(long count)
{
	char value = 1;
	double begin = 0;

	for (long i = -count / 10; i < count; i++) {
		if (i == 0)
			begin = now();
		give(++value);
		await(++value);
	}
	return (now() - begin) / 2;
}

static void serve(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	own = &board->sides[1];
	peer = &board->sides[0];
	open_side();
	connect_side();
	for (int i = 0; i < RECEIVES && opcode == IBV_WR_SEND; i++)
		post_recv();
	wait_ready();
	if (has('w')) {
		answer();
		exit(0);
	}
	while (!atomic_load(&board->is_over)) {
		if (opcode != IBV_WR_SEND && !has('p')) {
			usleep(1000);
			continue;
		}
		for (int arrived = rc_take(cq); arrived > 0; arrived--)
			post_recv();
	}
	exit(0);
}

static double stream(long count, long depth)
{
	long posted = 0, sent = 0, warm = count / 10;
	double begin = 0;

	while (sent < warm + count) {
		if (sent >= warm && begin == 0) {
			begin = now();
			warm = sent;
		}
		while (posted < warm + count && posted - sent < depth) {
			post_send();
			posted++;
		}
		sent += rc_take(cq);
	}
	return now() - begin;
}

int main(int argc, char **argv)
{
	long count = argc > 3 ? atol(argv[3]) : 10000, depth = argc > 4 ? atol(argv[4]) : 1;
	double taken;

	opcode = rc_opcode(argc > 1 ? argv[1] : "send");
	size = argc > 2 ? (size_t)atol(argv[2]) : 8;
	options = argc > 5 ? argv[5] : "";
	board =
	    mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	need(board != MAP_FAILED, "board");
	if (!fork())
		serve();
	own = &board->sides[0];
	peer = &board->sides[1];
	open_side();
	connect_side();
	wait_ready();
	taken = has('w') ? exchange(count) : stream(count, depth);
	printf("%.0f\n", taken / (double)count);
	atomic_store(&board->is_over, 1);
	wait(NULL);
	return 0;
}
