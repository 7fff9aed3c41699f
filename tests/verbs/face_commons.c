/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * WRITE and READ of memory that is shared from birth, in another process: it is mapped, also where
 * a stream of small messages would go by packets; it is refused as any other, nothing lands in it
 * after its end, and what the other process freed is not kept alive.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include "contact.h"

/* BUF: a buffer of the library's, DEVICE: device memory, FILE_: a memfd of the program's */
enum region { BUF, DEVICE, FILE_, PRIVATE };
enum { REGION = 1 << 20, MANY = 100, MAPPINGS = 64 };

/* ---- the other process ---- */

static struct ibv_buf *buf;

static void add(struct contact *contact, enum region region, struct ibv_mr *mr, uint64_t addr)
{
	assert_non_null(mr);
	contact->rkeys[region] = mr->rkey;
	contact->addrs[region] = addr;
}

static struct ibv_mr *add_buf(struct contact *contact, enum region region, int access)
{
	char *place = ibv_alloc_buf(pd, REGION, &buf);
	struct ibv_mr *mr = ibv_reg_buf_mr(pd, buf, place + 64, REGION - 64, access);

	add(contact, region, mr, (uintptr_t)place + 64);
	return mr;
}

static void add_dm(struct contact *contact)
{
	struct ibv_alloc_dm_attr attr = {.length = REGION};
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr);

	assert_non_null(dm);
	add(contact, DEVICE,
	    ibv_reg_dm_mr(pd, dm, 128, REGION - 128, live_access | IBV_ACCESS_ZERO_BASED), 0);
}

static void add_file(struct contact *contact)
{
	int fd = memfd_create("of the program", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, REGION), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	add(contact, FILE_, ibv_reg_dmabuf_mr(pd, 100, REGION - 100, 0x7000, fd, live_access),
	    0x7000);
}

static void serve(void)
{
	struct contact own = {0};
	char *memory = pages(REGION);

	add_buf(&own, BUF, live_access);
	add_dm(&own);
	add_file(&own);
	add(&own, PRIVATE, ibv_reg_mr(pd, memory, REGION, live_access), (uintptr_t)memory);
	serve_qps(&own);
}

/* ---- what is mapped here ---- */

/* How many mappings have this name; the last one's start. */
static int mappings(const char *name, char **start)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char text[512];
	int count = 0;

	assert_non_null(maps);
	while (fgets(text, sizeof(text), maps))
		if (strstr(text, name)) {
			*start = (char *)strtoul(text, NULL, 16);
			count++;
		}
	fclose(maps);
	return count;
}

static const struct kind {
	enum region region;
	const char *name;
	size_t offset; /* of the region in the file */
} kinds[] = {
    {BUF, "memfd:verbatim-buf", 64},
    {DEVICE, "memfd:verbatim-dm", 128},
    {FILE_, "memfd:of the program", 100},
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* Both may have offered a channel at once; until that is settled messages go by packets. */
static void until_reached(struct end *end, const struct contact *peer)
{
	double until = seconds() + PATIENCE_S;

	while (counted(end).reached == 0) {
		assert_true(seconds() < until);
		assert_wc(transfer(end, IBV_WR_RDMA_WRITE, end_sge(end, 0, 8), peer->addrs[PRIVATE],
				   peer->rkeys[PRIVATE]),
			  0x5e4d, IBV_WC_SUCCESS);
	}
}

static void there_and_back(struct end *end, const struct contact *peer, enum region region,
			   struct ibv_mr *mr, uint32_t length)
{
	char *sent = mr->addr, *read = sent + REGION;
	uint64_t there = peer->addrs[region] + 5;
	struct ibv_sge from = {(uintptr_t)sent, length, mr->lkey};
	struct ibv_sge to = {(uintptr_t)read, length, mr->lkey};

	fill(sent, length, length + region);
	memset(read, 99, length);
	assert_wc(transfer(end, IBV_WR_RDMA_WRITE, from, there, peer->rkeys[region]), 0x5e4d,
		  IBV_WC_SUCCESS);
	assert_wc(transfer(end, IBV_WR_RDMA_READ, to, there, peer->rkeys[region]), 0x5e4d,
		  IBV_WC_SUCCESS);
	assert_memory_equal(sent, read, length);
}

static void shared_memory_is_mapped_and_copied_to(void **state)
{
	static const uint32_t sizes[] = {1, 8, 65, 4096, 70001, REGION - 200};
	struct contact peer;
	struct ibv_mr *mr;
	struct end end;
	uint64_t packets;
	char *start_of;

	start(serve);
	peer = meet(&end, IBV_QPT_RC, live_access);
	mr = ibv_reg_mr(pd, pages(2 * REGION), 2 * REGION, IBV_ACCESS_LOCAL_WRITE);
	until_reached(&end, &peer);
	packets = counted(&end).sent_packets;
	stop_server();
	for (int i = 0; i < KINDS; i++) {
		assert_int_equal(mappings(kinds[i].name, &start_of), 0);
		for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++)
			there_and_back(&end, &peer, kinds[i].region, mr, sizes[j]);
		assert_int_equal(mappings(kinds[i].name, &start_of), 1);
		assert_memory_equal(start_of + kinds[i].offset + 5, mr->addr, REGION - 200);
	}
	assert_int_equal(counted(&end).sent_packets, packets);
	kill(server, SIGCONT);
	ibv_dereg_mr(mr);
	end_destroy(&end);
	stop();
	for (int i = 0; i < KINDS; i++)
		assert_int_equal(mappings(kinds[i].name, &start_of), 0);
}

/* To private memory it would go by packets, from the ninth message on. */
static void a_stream_of_small_ones_is_copied_as_well(void **state)
{
	struct ibv_send_wr wr;
	struct contact peer;
	struct ibv_sge sge;
	struct end end;
	uint64_t packets, reached;

	start(serve);
	peer = meet(&end, IBV_QPT_RC, live_access);
	until_reached(&end, &peer);
	packets = counted(&end).sent_packets;
	reached = counted(&end).reached;
	sge = end_sge(&end, 0, 16);
	wr = make_send(IBV_WR_RDMA_WRITE, &sge);
	wr.send_flags = 0;
	wr.wr.rdma.remote_addr = peer.addrs[BUF];
	wr.wr.rdma.rkey = peer.rkeys[BUF];
	for (int i = 0; i < 10; i++)
		post_send_wr(&end, &wr);
	wr.send_flags = IBV_SEND_SIGNALED;
	post_send_wr(&end, &wr);
	assert_wc(next_wc(end.cq), 0x5e4d, IBV_WC_SUCCESS);
	assert_int_equal(counted(&end).sent_packets, packets);
	assert_int_equal(counted(&end).reached, reached + 11);
	end_destroy(&end);
	stop();
}

/* ---- it is refused ---- */

static void what_is_wrong_is_refused_though_it_is_mapped(void **state)
{
	static const struct {
		uint32_t key_bits;
		int64_t at;
	} wrongs[] = {{1, 0}, {0, -1}, {0, REGION - 64 - 7}};

	start(serve);
	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
		struct contact peer;
		struct ibv_wc wc;
		struct end end;

		peer = meet(&end, IBV_QPT_RC, live_access);
		until_reached(&end, &peer);
		assert_wc(transfer(&end, IBV_WR_RDMA_WRITE, end_sge(&end, 0, 8), peer.addrs[BUF],
				   peer.rkeys[BUF]),
			  0x5e4d, IBV_WC_SUCCESS);
		wc = transfer(&end, IBV_WR_RDMA_WRITE, end_sge(&end, 0, 8),
			      peer.addrs[BUF] + (uint64_t)wrongs[i].at,
			      peer.rkeys[BUF] ^ wrongs[i].key_bits);
		assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(wc.vendor_err, REASON_PEER_REFUSED_ACCESS);
		end_destroy(&end);
	}
	stop();
}

/* ---- it is remembered ---- */

enum change { DEREGISTERED, RENEWED, WITHOUT_RIGHTS, IN_ERROR };

/* In the child: a buffer, a QP, and what is to happen to one of them, which `access` says. */
static void serve_change(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR,
				   .qp_access_flags = IBV_ACCESS_REMOTE_READ};
	struct contact own = {.access = live_access}, peer;
	struct ibv_mr *mr = add_buf(&own, BUF, live_access);
	struct end end;

	assert_true(hear(&peer));
	end_create(&end, peer.type);
	own.qpn = end.qp->qp_num;
	qp_init(end.qp, peer.access);
	tell(&own);
	qp_connect(end.qp, peer.qpn);
	tell(&own);
	assert_true(hear(&peer));
	if (peer.access == DEREGISTERED || peer.access == RENEWED)
		assert_int_equal(ibv_dereg_mr(mr), 0);
	if (peer.access == RENEWED)
		add(&own, PRIVATE,
		    ibv_reg_buf_mr(pd, buf, (char *)own.addrs[BUF], REGION - 64, live_access),
		    own.addrs[BUF]);
	if (peer.access == WITHOUT_RIGHTS)
		assert_int_equal(ibv_modify_qp(end.qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
	if (peer.access == IN_ERROR)
		assert_int_equal(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE), 0);
	tell(&own);
	serve_qps(&own);
}

/* Eight bytes of this to the beginning of the buffer. */
static struct ibv_wc write_8(struct end *end, const struct contact *peer, uint32_t rkey, char what)
{
	memset(end->buffer, what, 8);
	return transfer(end, IBV_WR_RDMA_WRITE, end_sge(end, 0, 8), peer->addrs[BUF], rkey);
}

/* By asking, and then by what was said: it is where the buffer's beginning is mapped. */
static const char *write_again(struct end *end, const struct contact *peer)
{
	uint64_t packets, reached;
	double until = seconds() + PATIENCE_S;
	char *start_of;

	do {
		assert_true(seconds() < until);
		assert_wc(write_8(end, peer, peer->rkeys[BUF], 1), 0x5e4d, IBV_WC_SUCCESS);
	} while (counted(end).reached < 2);
	packets = counted(end).sent_packets;
	reached = counted(end).reached;
	for (char i = 2; i < 10; i++)
		assert_wc(write_8(end, peer, peer->rkeys[BUF], i), 0x5e4d, IBV_WC_SUCCESS);
	assert_int_equal(counted(end).sent_packets, packets);
	assert_int_equal(counted(end).reached, reached + 8);
	assert_int_equal(mappings("memfd:verbatim-buf", &start_of), 1);
	assert_int_equal(start_of[64], 9);
	return start_of + 64;
}

static void ask_for(enum change change, struct contact *peer)
{
	struct contact own = {.access = (int)change};

	tell(&own);
	assert_true(hear(peer));
}

static void what_changed_there_is_not_written_to_again(void **state)
{
	static const enum ibv_wc_status answers[] = {
	    [DEREGISTERED] = IBV_WC_REM_ACCESS_ERR,
	    [RENEWED] = IBV_WC_REM_ACCESS_ERR,
	    [WITHOUT_RIGHTS] = IBV_WC_REM_INV_REQ_ERR,
	    [IN_ERROR] = IBV_WC_RETRY_EXC_ERR,
	};

	for (enum change change = DEREGISTERED; change <= IN_ERROR; change++) {
		struct contact peer;
		const char *there;
		struct end end;

		start(serve_change);
		peer = meet(&end, IBV_QPT_RC, live_access);
		there = write_again(&end, &peer);
		ask_for(change, &peer);
		assert_wc(write_8(&end, &peer, peer.rkeys[BUF], 0x66), 0x5e4d, answers[change]);
		assert_int_equal(*there, 9);
		end_destroy(&end);
		stop();
	}
}

static void a_region_anew_in_the_same_place_has_a_key_of_its_own(void **state)
{
	struct contact peer;
	const char *there;
	struct end end;

	start(serve_change);
	peer = meet(&end, IBV_QPT_RC, live_access);
	there = write_again(&end, &peer);
	ask_for(RENEWED, &peer);
	for (char i = 20; i < 24; i++) {
		assert_wc(write_8(&end, &peer, peer.rkeys[PRIVATE], i), 0x5e4d, IBV_WC_SUCCESS);
		assert_int_equal(*there, i);
	}
	assert_wc(write_8(&end, &peer, peer.rkeys[BUF], 0x66), 0x5e4d, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(*there, 23);
	end_destroy(&end);
	stop();
}

/* The same QP of ours, to other ones of theirs that may not be written through, one of which is on
 * the same lane as the first was. */
static void what_changed_here_is_asked_anew(void **state)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct contact peer, own = {.type = IBV_QPT_RC, .access = IBV_ACCESS_REMOTE_READ};
	const char *there;
	struct end end;

	start(serve);
	peer = meet(&end, IBV_QPT_RC, live_access);
	there = write_again(&end, &peer);
	own.qpn = end.qp->qp_num;
	for (int i = 0; i < SAMEHOST_WAYS; i++) {
		assert_int_equal(ibv_modify_qp(end.qp, &reset, IBV_QP_STATE), 0);
		qp_init(end.qp, live_access);
		tell(&own);
		assert_true(hear(&peer));
		qp_connect(end.qp, peer.qpn);
		assert_true(hear(&peer));
		assert_wc(write_8(&end, &peer, peer.rkeys[BUF], 0x66), 0x5e4d,
			  IBV_WC_REM_INV_REQ_ERR);
		assert_int_equal(*there, 9);
	}
	end_destroy(&end);
	stop();
}

static void nobody_writes_to_the_dead_for_long(void **state)
{
	double until = seconds() + PATIENCE_S;
	struct contact peer;
	struct ibv_wc wc;
	struct end end;
	int status;

	start(serve);
	peer = meet(&end, IBV_QPT_RC, live_access);
	write_again(&end, &peer);
	assert_int_equal(kill(server, SIGKILL), 0);
	assert_int_equal(waitpid(server, &status, 0), server);
	do {
		assert_true(seconds() < until);
		wc = write_8(&end, &peer, peer.rkeys[BUF], 0x66);
	} while (wc.status == IBV_WC_SUCCESS);
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
	close(line);
	end_destroy(&end);
	assert_int_equal(live_close(NULL), 0);
}

/* ---- it ends ---- */

/* In the child: writes to each buffer that it is told of until it is refused. Then the memory that
 * it has mapped is nobody's, and has nothing in it any more. */
static void write_until_refused(void)
{
	struct contact own = {.access = live_access}, peer;
	char *start_of = NULL;

	while (hear(&peer)) {
		struct ibv_wc wc;
		struct end end;

		end_create(&end, peer.type);
		own.qpn = end.qp->qp_num;
		qp_init(end.qp, live_access);
		qp_connect(end.qp, peer.qpn);
		tell(&own);
		assert_true(hear(&peer));
		memset(end.buffer, 0x11, 8);
		do
			wc = transfer(&end, IBV_WR_RDMA_WRITE, end_sge(&end, 0, 8), peer.addrs[BUF],
				      peer.rkeys[BUF]);
		while (wc.status == IBV_WC_SUCCESS);
		if (wc.status != IBV_WC_REM_ACCESS_ERR ||
		    !mappings("memfd:verbatim-buf", &start_of))
			_exit(3);
		tell(&own);
		assert_true(hear(&peer)); /* it is freed */
		if (start_of[64])
			_exit(4);
		end_destroy(&end);
		tell(&own);
	}
	_exit(start_of ? 0 : 5);
}

static void nothing_lands_after_deregistration_nor_stays_after_the_end(void **state)
{
	struct contact own = {.type = IBV_QPT_RC}, peer;

	start(write_until_refused);
	for (int round = 0; round < 20; round++) {
		struct ibv_mr *mr = add_buf(&own, BUF, live_access);
		char *memory = mr->addr;
		struct end end;

		end_create(&end, IBV_QPT_RC);
		own.qpn = end.qp->qp_num;
		qp_init(end.qp, live_access);
		tell(&own);
		assert_true(hear(&peer));
		qp_connect(end.qp, peer.qpn);
		tell(&own);
		while (*(volatile char *)memory != 0x11)
			sched_yield();
		assert_int_equal(ibv_dereg_mr(mr), 0);
		memset(memory, 0xee, 8);
		assert_true(hear(&peer)); /* it was refused */
		for (int i = 0; i < 8; i++)
			assert_int_equal((uint8_t)memory[i], 0xee);
		ibv_free_buf(buf);
		tell(&own);
		assert_true(hear(&peer));
		end_destroy(&end);
	}
	stop();
}

/* In the child: a fresh buffer for whoever asks, its QP the same. */
static void serve_many(void)
{
	struct contact own = {.access = live_access}, peer;
	struct end end;

	assert_true(hear(&peer));
	add_buf(&own, PRIVATE, live_access);
	end_create(&end, peer.type);
	own.qpn = end.qp->qp_num;
	qp_init(end.qp, peer.access);
	tell(&own);
	qp_connect(end.qp, peer.qpn);
	tell(&own);
	while (hear(&peer)) {
		add_buf(&own, BUF, live_access);
		tell(&own);
	}
}

static void many_make_room_for_each_other(void **state)
{
	struct contact peer, first;
	struct end end;
	char *start_of;

	start(serve_many);
	peer = meet(&end, IBV_QPT_RC, live_access);
	until_reached(&end, &peer);
	for (int i = 0; i < MANY; i++) {
		tell(&peer);
		assert_true(hear(&peer));
		if (i == 0)
			first = peer;
		fill(end.buffer, 32, (uint32_t)i);
		assert_wc(transfer(&end, IBV_WR_RDMA_WRITE, end_sge(&end, 0, 32), peer.addrs[BUF],
				   peer.rkeys[BUF]),
			  0x5e4d, IBV_WC_SUCCESS);
	}
	assert_in_range(mappings("memfd:verbatim-buf", &start_of), MAPPINGS / 2, MAPPINGS);
	assert_wc(transfer(&end, IBV_WR_RDMA_READ, end_sge(&end, 64, 32), first.addrs[BUF],
			   first.rkeys[BUF]),
		  0x5e4d, IBV_WC_SUCCESS);
	fill(end.buffer, 32, 0);
	assert_memory_equal(end.buffer, end.buffer + 64, 32);
	end_destroy(&end);
	stop();
}

static void a_child_of_fork_does_not_have_it(void **state)
{
	struct contact peer;
	struct end end;
	char *start_of;
	int status;
	pid_t child;

	start(serve);
	peer = meet(&end, IBV_QPT_RC, live_access);
	until_reached(&end, &peer);
	assert_wc(transfer(&end, IBV_WR_RDMA_WRITE, end_sge(&end, 0, 8), peer.addrs[BUF],
			   peer.rkeys[BUF]),
		  0x5e4d, IBV_WC_SUCCESS);
	assert_int_equal(mappings("memfd:verbatim-buf", &start_of), 1);
	child = fork();
	if (!child)
		_exit(mappings("memfd:verbatim-buf", &start_of));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	end_destroy(&end);
	stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, only_the_parent_goes_on)
	    TEST(shared_memory_is_mapped_and_copied_to),
	    TEST(a_stream_of_small_ones_is_copied_as_well),
	    TEST(what_is_wrong_is_refused_though_it_is_mapped),
	    TEST(what_changed_there_is_not_written_to_again),
	    TEST(a_region_anew_in_the_same_place_has_a_key_of_its_own),
	    TEST(what_changed_here_is_asked_anew),
	    TEST(nobody_writes_to_the_dead_for_long),
	    TEST(nothing_lands_after_deregistration_nor_stays_after_the_end),
	    TEST(many_make_room_for_each_other),
	    TEST(a_child_of_fork_does_not_have_it),
	};

	if (!own_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, network, NULL);
}
