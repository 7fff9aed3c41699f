/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * WRITE and READ straight into another process's memory: they land while nothing of that process
 * runs, they are refused as packets are, and nothing lands in what was deregistered. Each test is
 * between two processes, this one and a server of it that makes a fresh QP for each it is asked.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/prctl.h>

#include "contact.h"
#include "device/cq.h"

enum { LARGE = (3 << 20) + 5, REGION = 4 << 20 };

/* ---- two processes ---- */

enum region { PLAIN, READ_ONLY, OTHER_PD, GONE };

/* Of a file that is cut short later. */
static char *file_pages(int *fd)
{
	char *memory;

	*fd = memfd_create("cut", MFD_CLOEXEC);
	assert_int_equal(ftruncate(*fd, REGION), 0);
	memory = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

static void add_region(struct contact *contact, enum region region, struct ibv_pd *of, int access)
{
	int fd = -1;
	char *memory = region == GONE ? file_pages(&fd) : pages(REGION);
	struct ibv_mr *mr = ibv_reg_mr(of, memory, REGION, access);

	assert_non_null(mr);
	contact->rkeys[region] = mr->rkey;
	contact->addrs[region] = (uintptr_t)memory;
	if (region == GONE)
		assert_int_equal(ftruncate(fd, 0), 0);
}

static void serve(void)
{
	struct contact own = {0};

	add_region(&own, PLAIN, pd, live_access);
	add_region(&own, READ_ONLY, pd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	add_region(&own, OTHER_PD, ibv_alloc_pd(context), live_access);
	add_region(&own, GONE, pd, live_access);
	serve_qps(&own);
}

/* Polls for as long as nobody asks for anything. */
static void poll_until_asked(const struct end *end)
{
	struct ibv_wc wc;
	char byte;

	while (recv(line, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0)
		assert_true(ibv_poll_cq(end->cq, 1, &wc) >= 0);
}

/* In the child: one QP, and it polls; when it is asked again it tells how often it took a share. */
static void serve_and_poll(void)
{
	struct contact own = {.access = live_access}, peer;
	struct end end;

	add_region(&own, PLAIN, pd, live_access);
	assert_true(hear(&peer));
	end_create(&end, peer.type);
	own.qpn = end.qp->qp_num;
	qp_init(end.qp, peer.access);
	tell(&own);
	qp_connect(end.qp, peer.qpn);
	tell(&own);
	do {
		poll_until_asked(&end);
		own.assists = assists(&end);
	} while (hear(&peer) && write(line, &own, sizeof(own)) == sizeof(own));
}

/* ---- it lands ---- */

static const uint32_t sizes[] = {1, 7, 8, 63, 64, 65, 72, 73, 4095, 4096, 4097, 70000, LARGE};

enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static void write_and_read(struct end *end, const struct contact *peer, struct ibv_mr *mr,
			   uint32_t length)
{
	char *sent = mr->addr, *read = sent + REGION;
	struct ibv_sge from = {(uintptr_t)sent, length, mr->lkey};
	struct ibv_sge to = {(uintptr_t)read, length + 1, mr->lkey};
	uint64_t there = peer->addrs[PLAIN] + 3;

	fill(sent, length, length);
	assert_wc(transfer(end, IBV_WR_RDMA_WRITE, from, there, peer->rkeys[PLAIN]), 0x5e4d,
		  IBV_WC_SUCCESS);
	if (end->qp->qp_type == IBV_QPT_UC)
		return;
	memset(read, 99, length + 1);
	assert_wc(transfer(end, IBV_WR_RDMA_READ, to, there, peer->rkeys[PLAIN]), 0x5e4d,
		  IBV_WC_SUCCESS);
	assert_memory_equal(sent, read, length);
}

/* Of lengths that grow; and no more was written. */
static void write_and_read_back(struct end *end, const struct contact *peer, struct ibv_mr *mr,
				uint32_t length)
{
	const char *read = (const char *)mr->addr + REGION;

	write_and_read(end, peer, mr, length);
	if (end->qp->qp_type != IBV_QPT_UC)
		assert_true(read[length] == 0 || length > LARGE / 2);
}

/*
 * Where both offered a channel at once, the other side may have ours still to take note of when its
 * QP is ready: until then messages go by packets. How many went.
 */
static uint64_t until_reached(struct end *end, const struct contact *peer)
{
	double until = seconds() + PATIENCE_S;

	while (counted(end).reached == 0) {
		assert_true(seconds() < until);
		assert_wc(transfer(end, IBV_WR_RDMA_WRITE, end_sge(end, 0, 8), peer->addrs[PLAIN],
				   peer->rkeys[PLAIN]),
			  0x5e4d, IBV_WC_SUCCESS);
	}
	assert_int_equal(counted(end).reached, 1);
	return counted(end).sent_packets;
}

static void messages_land_while_the_target_is_stopped(void **state)
{
	uint64_t packets, packets_uc;
	struct contact peer, peer_uc;
	struct ibv_mr *mr;
	struct end end, uc;

	start(serve);
	peer = meet(&end, IBV_QPT_RC, live_access);
	peer_uc = meet(&uc, IBV_QPT_UC, live_access);
	mr = ibv_reg_mr(pd, pages(2 * REGION), 2 * REGION, IBV_ACCESS_LOCAL_WRITE);
	packets = until_reached(&end, &peer);
	packets_uc = until_reached(&uc, &peer_uc);
	stop_server();
	for (uint32_t i = 0; i < SIZES; i++)
		write_and_read_back(&end, &peer, mr, sizes[i]);
	for (uint32_t i = 0; i < SIZES; i++)
		write_and_read_back(&uc, &peer_uc, mr, sizes[i]);
	assert_int_equal(counted(&end).reached, 1 + 2 * SIZES);
	assert_int_equal(counted(&end).sent_packets, packets);
	assert_int_equal(counted(&uc).reached, 1 + SIZES);
	assert_int_equal(counted(&uc).sent_packets, packets_uc);
	kill(server, SIGCONT);
	ibv_dereg_mr(mr);
	end_destroy(&end);
	end_destroy(&uc);
	stop();
}

/* Pieces and inline data; and the next message by packets finds all in order. */
static void lists_and_inline_data_land_too(void **state)
{
	struct ibv_sge list[3];
	struct contact peer;
	struct ibv_send_wr wr;
	struct end end;
	char all[110];

	start(serve);
	peer = meet(&end, IBV_QPT_RC, live_access);
	until_reached(&end, &peer);
	fill(end.buffer, 200, 5);
	list[0] = end_sge(&end, 100, 30);
	list[1] = end_sge(&end, 0, 0);
	list[2] = end_sge(&end, 10, 70);
	wr = make_send(IBV_WR_RDMA_WRITE, list);
	wr.num_sge = 3;
	wr.send_flags = 0;
	wr.wr.rdma.remote_addr = peer.addrs[PLAIN];
	wr.wr.rdma.rkey = peer.rkeys[PLAIN];
	post_send_wr(&end, &wr);
	list[0] = end_sge(&end, 150, 10);
	wr.num_sge = 1;
	wr.send_flags = IBV_SEND_INLINE;
	wr.wr.rdma.remote_addr += 100;
	post_send_wr(&end, &wr);
	memcpy(all, end.buffer + 100, 30);
	memcpy(all + 30, end.buffer + 10, 70);
	memcpy(all + 100, end.buffer + 150, 10);
	list[0] = end_sge(&end, 1000, 40);
	list[1] = end_sge(&end, 2000, 70);
	wr = make_send(IBV_WR_RDMA_READ, list);
	wr.num_sge = 2;
	wr.wr.rdma.remote_addr = peer.addrs[PLAIN];
	wr.wr.rdma.rkey = peer.rkeys[PLAIN];
	post_send_wr(&end, &wr);
	assert_wc(next_wc(end.cq), 0x5e4d, IBV_WC_SUCCESS);
	assert_memory_equal(end.buffer + 1000, all, 40);
	assert_memory_equal(end.buffer + 2000, all + 40, 70);
	assert_int_equal(counted(&end).reached, 1 + 3);
	/* an atomic goes by packets, and what follows at once waits for it */
	list[0] = end_sge(&end, 3000, 8);
	wr = make_send(IBV_WR_ATOMIC_FETCH_AND_ADD, list);
	wr.wr.atomic.remote_addr = peer.addrs[PLAIN] + 4096;
	wr.wr.atomic.rkey = peer.rkeys[PLAIN];
	wr.wr.atomic.compare_add = 7;
	post_send_wr(&end, &wr);
	list[0] = end_sge(&end, 3008, 8);
	wr = make_send(IBV_WR_RDMA_READ, list);
	wr.wr.rdma.remote_addr = peer.addrs[PLAIN] + 4096;
	wr.wr.rdma.rkey = peer.rkeys[PLAIN];
	post_send_wr(&end, &wr);
	assert_int_equal(next_wc(end.cq).opcode, IBV_WC_FETCH_ADD);
	assert_wc(next_wc(end.cq), 0x5e4d, IBV_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)(end.buffer + 3000), 0);
	assert_int_equal(*(uint64_t *)(end.buffer + 3008), 7);
	end_destroy(&end);
	stop();
}

/* What is long does not go by packets because something else has: it waits for the answer. */
static void a_long_one_behind_packets_is_reached_too(void **state)
{
	struct contact peer;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_mr *mr;
	struct end end;
	uint64_t reached;

	start(serve);
	peer = meet(&end, IBV_QPT_RC, live_access);
	mr = ibv_reg_mr(pd, pages(REGION), REGION, IBV_ACCESS_LOCAL_WRITE);
	until_reached(&end, &peer);
	reached = counted(&end).reached;
	for (int i = 1; i <= 10; i++) {
		sge = end_sge(&end, 3000, 8);
		wr = make_send(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge);
		wr.wr.atomic.remote_addr = peer.addrs[PLAIN] + 4096;
		wr.wr.atomic.rkey = peer.rkeys[PLAIN];
		wr.wr.atomic.compare_add = 7;
		post_send_wr(&end, &wr);
		sge = (struct ibv_sge){(uintptr_t)mr->addr, 70000, mr->lkey};
		wr = make_send(IBV_WR_RDMA_READ, &sge);
		wr.wr.rdma.remote_addr = peer.addrs[PLAIN];
		wr.wr.rdma.rkey = peer.rkeys[PLAIN];
		post_send_wr(&end, &wr);
		assert_int_equal(next_wc(end.cq).opcode, IBV_WC_FETCH_ADD);
		assert_wc(next_wc(end.cq), 0x5e4d, IBV_WC_SUCCESS);
		assert_int_equal(*(uint64_t *)((char *)mr->addr + 4096), 7 * i);
		assert_int_equal(counted(&end).reached, reached + (uint64_t)i);
	}
	ibv_dereg_mr(mr);
	end_destroy(&end);
	stop();
}

static void what_is_long_is_done_by_both_where_the_target_polls(void **state)
{
	static const uint32_t lengths[] = {196607, 196608, 262145, 1 << 20, (1 << 20) + 1, LARGE};
	double until = seconds() + PATIENCE_S / 2.0;
	struct contact peer, told;
	struct ibv_mr *mr;
	struct end end;
	uint64_t packets;

	start(serve_and_poll);
	peer = meet(&end, IBV_QPT_RC, live_access);
	mr = ibv_reg_mr(pd, pages(2 * REGION), 2 * REGION, IBV_ACCESS_LOCAL_WRITE);
	packets = until_reached(&end, &peer);
	do {
		for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
			write_and_read(&end, &peer, mr, lengths[i]);
		tell(&peer);
		assert_true(hear(&told));
		/* both have to have a core at once, which a busy machine may not give them */
	} while (!told.assists && seconds() < until);
	assert_int_equal(counted(&end).sent_packets, packets);
	ibv_dereg_mr(mr);
	end_destroy(&end);
	stop();
}

enum { WRITES = 16, LONG = 1 << 20, LEFT = 5 /* times */ };

static bool has_poller(const struct end *end)
{
	return atomic_load(&qp_of(end->qp)->seat->lane->has_poller);
}

/* Completions that nobody has polled for. */
static unsigned int waiting(const struct end *end)
{
	return atomic_load(&cq_of(end->cq)->count);
}

/* There is more to do, and for now nobody does it. */
static bool is_left_alone(const struct end *end)
{
	unsigned int before = waiting(end);
	double until = seconds() + 0.0003;

	while (seconds() < until)
		;
	return before < WRITES && waiting(end) == before;
}

/* So many long WRITEs by each call, and no poll. */
static void post_writes(struct end *end, const struct contact *peer, struct ibv_mr *mr, int list)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, LONG, mr->lkey};
	struct ibv_send_wr wrs[WRITES];

	for (int i = 0; i < list; i++) {
		wrs[i] = make_send(IBV_WR_RDMA_WRITE, &sge);
		wrs[i].next = i + 1 < list ? &wrs[i + 1] : NULL;
		wrs[i].wr.rdma.remote_addr = peer->addrs[PLAIN];
		wrs[i].wr.rdma.rkey = peer->rkeys[PLAIN];
	}
	for (int i = 0; i < WRITES; i += list)
		post_send_wr(end, wrs);
}

static void take_writes(const struct end *end)
{
	for (int i = 0; i < WRITES; i++)
		assert_wc(next_wc(end->cq), 0x5e4d, IBV_WC_SUCCESS);
}

/*
 * Who posts what takes long need not poll in between to be the lane's poller, and then the lane's
 * thread leaves to him what a post has left; until he does not come any more.
 */
static void long_copies_are_the_posters(void **state)
{
	double until = seconds() + PATIENCE_S;
	struct contact peer;
	int left = 0;
	struct ibv_mr *mr;
	struct end end;

	start(serve);
	peer = meet(&end, IBV_QPT_RC, live_access);
	mr = ibv_reg_mr(pd, pages(LONG), LONG, IBV_ACCESS_LOCAL_WRITE);
	until_reached(&end, &peer);
	/* others may have the core for that long: it counts what went as it should */
	while (left < LEFT && seconds() < until) {
		bool is_poller;

		post_writes(&end, &peer, mr, 1);
		is_poller = has_poller(&end);
		take_writes(&end);
		post_writes(&end, &peer, mr, WRITES);
		left += is_left_alone(&end) && is_poller;
		while (waiting(&end) < WRITES && seconds() < until)
			usleep(1000);
		take_writes(&end);
	}
	assert_int_equal(left, LEFT);
	ibv_dereg_mr(mr);
	end_destroy(&end);
	stop();
}

/* In the midst of what it does for us, for all that we know. */
static void a_target_that_is_killed_meanwhile_is_given_up(void **state)
{
	for (int round = 0; round < 6; round++) {
		struct contact peer;
		struct ibv_mr *mr;
		struct ibv_wc wc;
		struct end end;
		pid_t killer;

		start(serve_and_poll);
		peer = meet(&end, IBV_QPT_RC, live_access);
		mr = ibv_reg_mr(pd, pages(REGION), REGION, IBV_ACCESS_LOCAL_WRITE);
		until_reached(&end, &peer);
		killer = fork();
		if (!killer) {
			usleep(5000 + 777 * (unsigned int)round);
			_exit(kill(server, SIGKILL));
		}
		alarm(20);
		do {
			struct ibv_sge sge = {(uintptr_t)mr->addr, LARGE, mr->lkey};

			wc = transfer(&end, round % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, sge,
				      peer.addrs[PLAIN], peer.rkeys[PLAIN]);
		} while (wc.status == IBV_WC_SUCCESS);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		end_destroy(&end);
		alarm(0);
		waitpid(killer, NULL, 0);
		waitpid(server, NULL, 0);
		close(line);
		assert_int_equal(live_close(NULL), 0);
	}
}

static void not_where_that_is_off(void **state)
{
	struct contact peer;
	struct end end;

	setenv("VERBATIM_SAMEHOST", "rings", 1);
	start(serve);
	peer = meet(&end, IBV_QPT_RC, live_access);
	assert_wc(transfer(&end, IBV_WR_RDMA_WRITE, end_sge(&end, 0, 8), peer.addrs[PLAIN],
			   peer.rkeys[PLAIN]),
		  0x5e4d, IBV_WC_SUCCESS);
	assert_int_equal(counted(&end).reached, 0);
	assert_int_equal(counted(&end).sent_packets, 1);
	end_destroy(&end);
	stop();
}

static void serve_undumpable(void)
{
	assert_int_equal(prctl(PR_SET_DUMPABLE, 0), 0);
	serve();
}

static void nor_where_the_target_is_undumpable(void **state)
{
	struct contact peer;
	struct end end;

	start(serve_undumpable);
	peer = meet(&end, IBV_QPT_RC, live_access);
	assert_wc(transfer(&end, IBV_WR_RDMA_WRITE, end_sge(&end, 0, 8), peer.addrs[PLAIN],
			   peer.rkeys[PLAIN]),
		  0x5e4d, IBV_WC_SUCCESS);
	assert_int_equal(counted(&end).reached, 0);
	end_destroy(&end);
	stop();
}

/* ---- it is refused ---- */

static const struct wrong {
	const char *what;
	enum ibv_wr_opcode opcode;
	enum region region;
	uint32_t key_bits; /* changed */
	int64_t at;
	int access;
	enum ibv_wc_status status;
	enum reason reason;
} wrongs[] = {
    {"key", IBV_WR_RDMA_WRITE, PLAIN, 1, 0, live_access, IBV_WC_REM_ACCESS_ERR,
     REASON_PEER_REFUSED_ACCESS},
    {"key's index", IBV_WR_RDMA_READ, PLAIN, 0x40000, 0, live_access, IBV_WC_REM_ACCESS_ERR,
     REASON_PEER_REFUSED_ACCESS},
    {"start", IBV_WR_RDMA_WRITE, PLAIN, 0, -1, live_access, IBV_WC_REM_ACCESS_ERR,
     REASON_PEER_REFUSED_ACCESS},
    {"end", IBV_WR_RDMA_READ, PLAIN, 0, REGION - 7, live_access, IBV_WC_REM_ACCESS_ERR,
     REASON_PEER_REFUSED_ACCESS},
    {"region's rights", IBV_WR_RDMA_WRITE, READ_ONLY, 0, 0, live_access, IBV_WC_REM_ACCESS_ERR,
     REASON_PEER_REFUSED_ACCESS},
    {"PD", IBV_WR_RDMA_READ, OTHER_PD, 0, 0, live_access, IBV_WC_REM_ACCESS_ERR,
     REASON_PEER_REFUSED_ACCESS},
    {"QP's rights", IBV_WR_RDMA_WRITE, PLAIN, 0, 0, IBV_ACCESS_REMOTE_READ, IBV_WC_REM_INV_REQ_ERR,
     REASON_PEER_INVALID_REQUEST},
    {"memory, read", IBV_WR_RDMA_READ, GONE, 0, 0, live_access, IBV_WC_REM_ACCESS_ERR,
     REASON_PEER_REFUSED_ACCESS},
    {"memory, written", IBV_WR_RDMA_WRITE, GONE, 0, 0, live_access, IBV_WC_REM_ACCESS_ERR,
     REASON_PEER_REFUSED_ACCESS},
};

static void refuse_all(void)
{
	start(serve);
	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
		const struct wrong *wrong = &wrongs[i];
		struct contact peer;
		struct ibv_wc wc;
		struct end end;

		peer = meet(&end, IBV_QPT_RC, wrong->access);
		wc = transfer(&end, wrong->opcode, end_sge(&end, 0, 8),
			      peer.addrs[wrong->region] + (uint64_t)wrong->at,
			      peer.rkeys[wrong->region] ^ wrong->key_bits);
		if (wc.status != wrong->status || wc.vendor_err != wrong->reason)
			fail_msg("wrong %s: %s, reason %u", wrong->what,
				 ibv_wc_status_str(wc.status), wc.vendor_err);
		assert_int_equal(counted(&end).reached, 0);
		end_destroy(&end);
	}
	stop();
}

static void what_is_wrong_is_refused(void **state)
{
	refuse_all();
}

static void and_for_the_same_reasons_by_packets(void **state)
{
	setenv("VERBATIM_SAMEHOST", "rings", 1);
	refuse_all();
}

/* ---- it is withdrawn ---- */

enum { ROUNDS = 24, WRITE_MS = 3 };

static uint32_t length_of(uint32_t round)
{
	return round % 2 ? 8 : 512 << 10;
}

/* In the child: writes to each region that it is told of, until it is refused. */
static void write_until_refused(void)
{
	struct contact own = {.access = live_access}, peer;
	uint64_t reached = 0;
	uint32_t round = 0;
	struct ibv_mr *mr = ibv_reg_mr(pd, pages(REGION), REGION, live_access);

	while (hear(&peer)) {
		struct ibv_sge sge = {(uintptr_t)mr->addr, length_of(round++), mr->lkey};
		struct ibv_wc wc;
		struct end end;

		end_create(&end, peer.type);
		own.qpn = end.qp->qp_num;
		qp_init(end.qp, live_access);
		qp_connect(end.qp, peer.qpn);
		tell(&own);
		assert_true(hear(&peer));
		do {
			fill(mr->addr, 8, (uint32_t)counted(&end).reached);
			wc = transfer(&end, IBV_WR_RDMA_WRITE, sge, peer.addrs[PLAIN],
				      peer.rkeys[PLAIN]);
		} while (wc.status == IBV_WC_SUCCESS);
		if (wc.status != IBV_WC_REM_ACCESS_ERR)
			_exit(3);
		reached += counted(&end).reached;
		end_destroy(&end);
		tell(&own);
	}
	_exit(reached >= ROUNDS ? 0 : 4);
}

static void offer(struct end *end, struct ibv_mr **mr, char *memory)
{
	struct contact own = {.type = IBV_QPT_RC}, peer;

	*mr = ibv_reg_mr(pd, memory, REGION, live_access);
	assert_non_null(*mr);
	end_create(end, IBV_QPT_RC);
	own.qpn = end->qp->qp_num;
	own.rkeys[PLAIN] = (*mr)->rkey;
	own.addrs[PLAIN] = (uintptr_t)memory;
	qp_init(end->qp, live_access);
	tell(&own);
	assert_true(hear(&peer));
	qp_connect(end->qp, peer.qpn);
	tell(&own);
}

/* For so long, waiting or polling. */
static void pass_time(const struct end *end, int ms, bool polls)
{
	double until = seconds() + ms * 1e-3;
	struct ibv_wc wc;

	if (!polls)
		poll(NULL, 0, ms);
	while (seconds() < until)
		assert_true(ibv_poll_cq(end->cq, 1, &wc) >= 0);
}

static void deregister_while_written_to(bool polls)
{
	char *memory = pages(REGION), *copy = pages(REGION);
	struct contact peer;
	struct ibv_mr *mr;
	struct end end;

	start(write_until_refused);
	for (int round = 0; round < ROUNDS; round++) {
		offer(&end, &mr, memory);
		pass_time(&end, WRITE_MS, polls);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		memcpy(copy, memory, REGION);
		memset(memory, 0xee, 64);
		assert_true(hear(&peer)); /* it was refused */
		for (int i = 0; i < 64; i++)
			assert_int_equal((uint8_t)memory[i], 0xee);
		assert_memory_equal(memory + 64, copy + 64, REGION - 64);
		end_destroy(&end);
	}
	stop();
}

static void nothing_lands_after_deregistration(void **state)
{
	deregister_while_written_to(false);
}

/* And has a share in the writing. */
static void nor_where_the_target_polls(void **state)
{
	deregister_while_written_to(true);
}

/* Nor after the QP has left the states in which it takes requests. */
static void nothing_lands_after_the_qp_is_in_error(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	char *memory = pages(REGION);
	struct ibv_mr *mr;
	struct end end;

	start(write_until_refused);
	offer(&end, &mr, memory);
	poll(NULL, 0, 10 * WRITE_MS);
	assert_int_equal(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE), 0);
	memset(memory, 0xee, 64);
	poll(NULL, 0, 10 * WRITE_MS);
	for (int i = 0; i < 64; i++)
		assert_int_equal((uint8_t)memory[i], 0xee);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	close(line);
	end_destroy(&end);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(live_close(NULL), 0);
}

static void a_writer_that_is_killed_holds_up_nobody(void **state)
{
	char *memory = pages(REGION);

	for (int round = 0; round < 12; round++) {
		struct ibv_mr *mr;
		struct end end;

		start(write_until_refused);
		offer(&end, &mr, memory);
		pass_time(&end, 10 + round / 2, round % 2);
		kill(server, SIGKILL);
		alarm(20);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		alarm(0);
		end_destroy(&end);
		waitpid(server, NULL, 0);
		close(line);
		assert_int_equal(live_close(NULL), 0);
	}
}

/* ---- in order ---- */

enum { NUMBERED = 20000, NUMBERED_BYTES = 4096, NUMBERED_WORDS = NUMBERED_BYTES / 8 };

static const uint32_t numbered_sizes[] = {72, 256, NUMBERED_BYTES};

/* In the child: numbered messages, one after the other, each of its own number in every word. */
static void write_numbers(void)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, pages(NUMBERED_BYTES), NUMBERED_BYTES, live_access);
	struct contact own = {.access = live_access}, peer;
	struct end end;

	assert_true(hear(&peer));
	end_create(&end, peer.type);
	own.qpn = end.qp->qp_num;
	qp_init(end.qp, live_access);
	qp_connect(end.qp, peer.qpn);
	tell(&own);
	assert_true(hear(&peer));
	for (uint64_t number = 1; number <= 3 * NUMBERED; number++) {
		uint32_t bytes = numbered_sizes[(number - 1) / NUMBERED];
		struct ibv_sge sge = {(uintptr_t)mr->addr, bytes, mr->lkey};

		for (uint32_t i = 0; i < bytes / 8; i++)
			((uint64_t *)mr->addr)[i] = number;
		if (transfer(&end, IBV_WR_RDMA_WRITE, sge,
			     peer.addrs[PLAIN] + NUMBERED_BYTES - bytes, peer.rkeys[PLAIN])
			.status != IBV_WC_SUCCESS)
			_exit(3);
	}
	_exit(counted(&end).reached > NUMBERED ? 0 : 4);
}

/* How many words are older than the last one, which must be the first to be read. */
static uint32_t older_words(const volatile uint64_t *words, uint32_t count, uint64_t *number)
{
	uint32_t older = 0;

	*number = words[NUMBERED_WORDS - 1];
	atomic_thread_fence(memory_order_acquire);
	for (uint32_t i = NUMBERED_WORDS - count; i < NUMBERED_WORDS; i++)
		older += words[i] < *number;
	return older;
}

/* As processors may store what one string instruction copies in any order. */
static void who_sees_the_last_word_sees_all(void **state)
{
	uint64_t *memory = (uint64_t *)pages(REGION);
	struct ibv_mr *mr;
	struct end end;

	start(write_numbers);
	offer(&end, &mr, (char *)memory);
	alarm(30);
	for (uint64_t number = 0; number < 3 * NUMBERED;) {
		uint32_t phase = number ? (uint32_t)((number - 1) / NUMBERED) : 0;

		assert_int_equal(older_words(memory, numbered_sizes[phase] / 8, &number), 0);
	}
	alarm(0);
	end_destroy(&end);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	stop();
}

/* ---- fork ---- */

static int memory_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int count = 0;

	while (dir && (entry = readdir(dir))) {
		char path[300], to[300] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		if (readlink(path, to, sizeof(to) - 1) > 4)
			count += strcmp(to + strlen(to) - 4, "/mem") == 0 ||
				 strstr(to, "memfd:verbatim-directory");
	}
	closedir(dir);
	return count;
}

static void a_child_of_fork_has_no_way_to_anybodys_memory(void **state)
{
	struct contact peer;
	struct end end;
	int status;
	pid_t child;

	start(serve);
	peer = meet(&end, IBV_QPT_RC, live_access);
	assert_true(memory_descriptors() >= 3); /* its own two, and the server's memory */
	child = fork();
	if (!child)
		_exit(memory_descriptors());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	until_reached(&end, &peer);
	end_destroy(&end);
	assert_true(memory_descriptors() >= 3); /* a channel lasts */
	stop();
	assert_int_equal(memory_descriptors(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, only_the_parent_goes_on)
	    TEST(messages_land_while_the_target_is_stopped),
	    TEST(lists_and_inline_data_land_too),
	    TEST(who_sees_the_last_word_sees_all),
	    TEST(a_long_one_behind_packets_is_reached_too),
	    TEST(what_is_long_is_done_by_both_where_the_target_polls),
	    TEST(long_copies_are_the_posters),
	    TEST(a_target_that_is_killed_meanwhile_is_given_up),
	    TEST(not_where_that_is_off),
	    TEST(nor_where_the_target_is_undumpable),
	    TEST(what_is_wrong_is_refused),
	    TEST(and_for_the_same_reasons_by_packets),
	    TEST(nothing_lands_after_deregistration),
	    TEST(nor_where_the_target_polls),
	    TEST(nothing_lands_after_the_qp_is_in_error),
	    TEST(a_writer_that_is_killed_holds_up_nobody),
	    TEST(a_child_of_fork_has_no_way_to_anybodys_memory),
	};

	if (!own_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, network, NULL);
}
