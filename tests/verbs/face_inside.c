/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SENDs from QP to QP of one process: what is long goes from buffer to buffer without a packet, and
 * is in all that can be seen as by packets: order, bounds, both completions, and each refusal. And
 * WRITEs and READs, of which the posting verb does all but the longest. The two QPs are on one lane
 * or on two, as VERBATIM_LANES says. Receives are the QP's own, or an SRQ's.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "device/qp.h"
#include "transport/transport.h"
#include "counted.h"
#include "live.h"

enum { REGION = 4 << 20, LARGE = 3 << 20, LONG = 20000 };

static struct end from, to;
static char *sent, *received;
static struct ibv_mr *mr;   /* both */
static struct ibv_srq *srq; /* NULL: `to` has receives of its own */

static struct ibv_sge sge_at(const char *memory, uint32_t length)
{
	return (struct ibv_sge){(uintptr_t)memory, length, mr->lkey};
}

static void fill(char *memory, uint32_t length, uint32_t seed)
{
	for (uint32_t i = 0; i < length; i++)
		memory[i] = (char)(seed * 37 + i * 11 + (i >> 12));
}

static void receive(uint64_t wr_id, struct ibv_sge *list, int count)
{
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = list, .num_sge = count}, *bad;

	assert_int_equal(srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(to.qp, &wr, &bad),
			 0);
}

/* One by packets: the first message of a connection is an event. */
static void begin(void)
{
	struct ibv_sge sge = end_sge(&to, 0, 8);
	struct ibv_send_wr wr;

	sent = lonely_pages(2 * REGION);
	received = sent + REGION;
	mr = ibv_reg_mr(pd, sent, 2 * REGION, live_access);
	assert_non_null(mr);
	receive(1, &sge, 1);
	sge = end_sge(&from, 0, 8);
	wr = make_send(IBV_WR_SEND, &sge);
	post_send_wr(&from, &wr);
	assert_wc(next_wc(from.cq), 0x5e4d, IBV_WC_SUCCESS);
	assert_wc(next_wc(to.cq), 1, IBV_WC_SUCCESS);
}

static int setup(void **state)
{
	pair_create(&from, &to, IBV_QPT_RC);
	begin();
	return 0;
}

/* Its QP is another one, with an SRQ. */
static void share(struct end *end)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 64, .max_sge = 4}};
	struct ibv_qp_init_attr attr = end_qp_attr(end->cq, IBV_QPT_RC);

	srq = ibv_create_srq(pd, &init);
	assert_non_null(srq);
	attr.srq = srq;
	assert_int_equal(ibv_destroy_qp(end->qp), 0);
	end->qp = ibv_create_qp(pd, &attr);
	assert_non_null(end->qp);
}

static int setup_shared(void **state)
{
	end_create(&from, IBV_QPT_RC);
	end_create(&to, IBV_QPT_RC);
	share(&to);
	qp_init(from.qp, live_access);
	qp_init(to.qp, live_access);
	qp_connect(from.qp, to.qp->qp_num);
	qp_connect(to.qp, from.qp->qp_num);
	begin();
	return 0;
}

static int teardown(void **state)
{
	pair_destroy(&from, &to);
	if (srq)
		assert_int_equal(ibv_destroy_srq(srq), 0);
	srq = NULL;
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(sent, 2 * REGION);
	return 0;
}

/* ---- it arrives ---- */

static void whole_messages_arrive(void **state)
{
	static const uint32_t sizes[] = {1000,	8192,	4097,	 8191,		65535, 65536,
					 65537, 100001, 1 << 20, (1 << 20) + 1, LARGE};

	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct ibv_sge in = sge_at(received + i % 5, sizes[i] + i % 2);
		struct ibv_sge out = sge_at(sent + i * 3, sizes[i]);
		struct ibv_send_wr wr = make_send(i % 2 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, &out);
		uint64_t reached = counted(&from).reached;
		struct ibv_wc wc;

		fill(sent + i * 3, sizes[i], i);
		memset(received, 0x77, sizes[i] + 100);
		receive(40 + i, &in, 1);
		wr.imm_data = htobe32(0xabc0 + i);
		post_send_wr(&from, &wr);
		wc = next_wc(to.cq);
		assert_wc(wc, 40 + i, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.byte_len, sizes[i]);
		assert_int_equal(wc.qp_num, to.qp->qp_num);
		assert_int_equal(wc.src_qp, from.qp->qp_num);
		assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, i % 2 ? IBV_WC_WITH_IMM : 0);
		if (i % 2)
			assert_int_equal(wc.imm_data, htobe32(0xabc0 + i));
		assert_wc(next_wc(from.cq), 0x5e4d, IBV_WC_SUCCESS);
		assert_memory_equal(received + i % 5, sent + i * 3, sizes[i]);
		for (uint32_t j = 0; j < i % 5; j++)
			assert_int_equal(received[j], 0x77);
		assert_int_equal(received[i % 5 + sizes[i]], 0x77);
		/* of the others some may go by packets: another thread may have had the other lane
		 * for a moment */
		if (sizes[i] == 1000)
			assert_int_equal(counted(&from).reached, reached);
	}
	assert_true(counted(&from).reached > 0);
}

static void lists_are_gathered_and_scattered(void **state)
{
	struct ibv_sge out[4] = {sge_at(sent + 50000, 9000), sge_at(sent, 0),
				 sge_at(sent + 7, 4097), sge_at(sent + 20000, 10001)};
	struct ibv_sge in[3] = {sge_at(received + 3, 5), sge_at(received + 100, 20000),
				sge_at(received + 30001, 9000)};
	struct ibv_send_wr wr = make_send(IBV_WR_SEND, out);
	char *whole = malloc(9000 + 4097 + 10001);

	wr.num_sge = 4;
	fill(sent, 70000, 3);
	memcpy(whole, sent + 50000, 9000);
	memcpy(whole + 9000, sent + 7, 4097);
	memcpy(whole + 9000 + 4097, sent + 20000, 10001);
	receive(9, in, 3);
	post_send_wr(&from, &wr);
	assert_wc(next_wc(to.cq), 9, IBV_WC_SUCCESS);
	assert_wc(next_wc(from.cq), 0x5e4d, IBV_WC_SUCCESS);
	assert_memory_equal(received + 3, whole, 5);
	assert_memory_equal(received + 100, whole + 5, 20000);
	assert_memory_equal(received + 30001, whole + 20005, 9000 + 4097 + 10001 - 20005);
	free(whole);
}

/* Short ones, by packets, and long ones, posted at once: they come in order, each once. */
static void messages_of_all_lengths_come_in_order(void **state)
{
	enum { MESSAGES = 400, ROOM = 12288, AT_ONCE = 8 };
	uint32_t done = 0, posted = 0, taken = 0;

	for (uint32_t i = 0; i < 16; i++) {
		struct ibv_sge in = sge_at(received + (size_t)i * ROOM, ROOM);

		receive(i, &in, 1);
	}
	while (taken < MESSAGES || done < MESSAGES) {
		struct ibv_wc wc;

		while (posted < MESSAGES && posted - done < AT_ONCE && posted - taken < AT_ONCE) {
			char *message = sent + (size_t)(posted % 16) * ROOM;
			struct ibv_sge out = sge_at(message, posted * 5 % 3 ? 64 + posted : ROOM);
			struct ibv_send_wr wr = make_send(IBV_WR_SEND, &out);

			fill(message, out.length, posted++);
			post_send_wr(&from, &wr);
		}
		done += (uint32_t)ibv_poll_cq(from.cq, 1, &wc);
		if (ibv_poll_cq(to.cq, 1, &wc) == 1) {
			char *message = received + (size_t)(taken % 16) * ROOM;
			struct ibv_sge in = sge_at(message, ROOM);
			char expected[ROOM];

			assert_wc(wc, taken % 16, IBV_WC_SUCCESS);
			assert_int_equal(wc.byte_len, taken * 5 % 3 ? 64 + taken : ROOM);
			fill(expected, wc.byte_len, taken);
			assert_memory_equal(message, expected, wc.byte_len);
			receive(taken++ % 16, &in, 1);
		}
	}
}

static void who_has_no_receive_is_waited_for(void **state)
{
	struct ibv_sge out = sge_at(sent, LONG), in = sge_at(received, LONG);
	struct ibv_send_wr wr = make_send(IBV_WR_SEND, &out);
	struct ibv_qp_attr patient = rts_attr();
	struct ibv_wc wc;

	end_destroy(&from);
	end_destroy(&to);
	end_create(&from, IBV_QPT_RC);
	end_create(&to, IBV_QPT_RC);
	qp_init(from.qp, live_access);
	qp_init(to.qp, live_access);
	patient.rnr_retry = 7;
	qp_connect_as(from.qp, to.qp->qp_num, patient);
	qp_connect_as(to.qp, from.qp->qp_num, patient);
	fill(sent, LONG, 8);
	post_send_wr(&from, &wr);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(ibv_poll_cq(from.cq, 1, &wc), 0);
	receive(6, &in, 1);
	assert_wc(next_wc(to.cq), 6, IBV_WC_SUCCESS);
	assert_wc(next_wc(from.cq), 0x5e4d, IBV_WC_SUCCESS);
	assert_memory_equal(sent, received, LONG);
}

/* ---- it is refused ---- */

static void what_is_too_long_is_refused_at_both_ends(void **state)
{
	struct ibv_sge out = sge_at(sent, LONG), in = sge_at(received, LONG - 1);
	struct ibv_send_wr wr = make_send(IBV_WR_SEND, &out);

	receive(6, &in, 1);
	received[LONG - 1] = 0x77;
	post_send_wr(&from, &wr);
	assert_wc(next_wc(to.cq), 6, IBV_WC_LOC_LEN_ERR);
	assert_wc(next_wc(from.cq), 0x5e4d, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(received[LONG - 1], 0x77);
}

static void a_wrong_key_of_the_sender_is_its_own_error(void **state)
{
	struct ibv_sge out = sge_at(sent, LONG), in = sge_at(received, LONG);
	struct ibv_send_wr wr = make_send(IBV_WR_SEND, &out);

	out.lkey ^= 1;
	receive(6, &in, 1);
	post_send_wr(&from, &wr);
	assert_wc(next_wc(from.cq), 0x5e4d, IBV_WC_LOC_PROT_ERR);
}

static void one_of_the_receiver_is_that_ones(void **state)
{
	struct ibv_sge out = sge_at(sent, LONG), in = sge_at(received, LONG);
	struct ibv_send_wr wr = make_send(IBV_WR_SEND, &out);

	in.lkey ^= 1;
	receive(6, &in, 1);
	post_send_wr(&from, &wr);
	assert_wc(next_wc(to.cq), 6, IBV_WC_LOC_PROT_ERR);
	assert_wc(next_wc(from.cq), 0x5e4d, IBV_WC_REM_OP_ERR);
}

static void memory_that_is_gone_is_the_error_of_whose_it_was(bool is_senders)
{
	struct ibv_sge out = sge_at(sent, LONG), in = sge_at(received, LONG);
	struct ibv_send_wr wr = make_send(IBV_WR_SEND, &out);

	/* cmocka's own handler went in front when the test began; this puts ours there again */
	struct ibv_mr *again = ibv_reg_mr(pd, received, 1, 0);

	assert_int_equal(ibv_dereg_mr(again), 0);
	assert_int_equal(mprotect((is_senders ? sent : received) + 8192, 4096, PROT_NONE), 0);
	receive(6, &in, 1);
	post_send_wr(&from, &wr);
	if (is_senders) {
		assert_wc(next_wc(from.cq), 0x5e4d, IBV_WC_LOC_PROT_ERR);
	} else {
		assert_wc(next_wc(to.cq), 6, IBV_WC_LOC_PROT_ERR);
		assert_wc(next_wc(from.cq), 0x5e4d, IBV_WC_REM_OP_ERR);
	}
}

static void the_senders_memory_may_be_gone(void **state)
{
	memory_that_is_gone_is_the_error_of_whose_it_was(true);
}

static void and_the_receivers(void **state)
{
	memory_that_is_gone_is_the_error_of_whose_it_was(false);
}

/* ---- threads ---- */

enum { ROUNDS = 300, IN = LARGE / 4, IN_BYTES = 32 << 10 };

/* Of the two, so that one is there when the other end has heard of the one before. */
static void post_one(struct end *end, char *in, uint32_t which)
{
	assert_int_equal(post_recv_sge(end->qp, which, sge_at(in + (size_t)which * IN_BYTES, LONG)),
			 0);
}

/* Both send to each other, each from its thread, so each comes to the other's lane. */
static void *send_and_receive(void *argument)
{
	struct end *end = argument;
	char *out = end == &from ? sent : received + LARGE, *in = out + IN;
	uint32_t posted = 0, done = 0, taken = 0;

	while (done < ROUNDS || taken < ROUNDS) {
		struct ibv_sge sge = sge_at(out, LONG);
		struct ibv_send_wr wr = make_send(IBV_WR_SEND, &sge), *bad;
		struct ibv_wc wc;

		if (posted < ROUNDS && posted == done && posted <= taken) {
			memset(out, (int)posted, LONG);
			assert_int_equal(ibv_post_send(end->qp, &wr, &bad), 0);
			posted++;
		}
		if (ibv_poll_cq(end->cq, 1, &wc) != 1)
			continue;
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.opcode != IBV_WC_RECV) {
			done++;
			continue;
		}
		assert_int_equal(wc.wr_id, taken % 2);
		for (uint32_t i = 0; i < LONG; i++)
			assert_int_equal((uint8_t)in[taken % 2 * IN_BYTES + i], (uint8_t)taken);
		post_one(end, in, taken++ % 2);
	}
	return NULL;
}

static void two_threads_send_to_each_other(void **state)
{
	pthread_t other;

	for (uint32_t i = 0; i < 2; i++) {
		post_one(&from, sent + IN, i);
		post_one(&to, received + LARGE + IN, i);
	}
	assert_int_equal(pthread_create(&other, NULL, send_and_receive, &to), 0);
	send_and_receive(&from);
	pthread_join(other, NULL);
}

/* ---- WRITEs and READs ---- */

/* In two elements, the first of them empty if there is but one byte; or in one. */
static void expect_access(enum ibv_wr_opcode opcode, uint32_t length, uint32_t seed, int elements)
{
	bool is_read = opcode == IBV_WR_RDMA_READ;
	char *near = sent + seed % 7, *remote = received + seed % 5;
	uint32_t first = elements == 1 ? length : length / 3;
	struct ibv_sge list[] = {sge_at(near, first), sge_at(near + first, length - first)};
	struct ibv_send_wr wr = make_send(opcode, list);
	struct ibv_wc wc;

	memset(sent, 0x55, length + 100);
	memset(received, 0x77, length + 100);
	fill(is_read ? remote : near, length, seed);
	wr.num_sge = elements;
	wr.wr.rdma.remote_addr = (uintptr_t)remote;
	wr.wr.rdma.rkey = mr->rkey;
	post_send_wr(&from, &wr);
	wc = next_wc(from.cq);
	assert_wc(wc, 0x5e4d, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, is_read ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE);
	assert_int_equal(wc.byte_len, length);
	assert_int_equal(wc.qp_num, from.qp->qp_num);
	assert_memory_equal(near, remote, length);
	assert_int_equal((is_read ? near : remote)[length], is_read ? 0x55 : 0x77);
}

static void writes_and_reads_arrive(void **state)
{
	static const uint32_t sizes[] = {1,    7,    8,	   100,	  256,	 257,	  4095,
					 4096, 4097, 9000, 65536, 65537, 1 << 20, (1 << 20) + 1};
	uint64_t reached = counted(&from).reached;

	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (int elements = 1; elements <= 2; elements++) {
			expect_access(IBV_WR_RDMA_WRITE, sizes[i], i, elements);
			expect_access(IBV_WR_RDMA_READ, sizes[i], i + 100, elements);
		}
	}
	assert_true(counted(&from).reached > reached);
}

/* What is inline, is not asked to be told, or has a message behind it in the list. */
static void they_take_their_turn_in_a_list(void **state)
{
	for (uint32_t i = 0; i < 200; i++) {
		char text[] = "number 000";
		struct ibv_sge in = sge_at(received + 512, 64), out = sge_at(sent, sizeof(text)),
			       inl = {(uintptr_t)text, sizeof(text), 0},
			       back = sge_at(sent + 64, 16);
		struct ibv_send_wr message = make_send(IBV_WR_SEND, &out);
		struct ibv_send_wr read = make_send(IBV_WR_RDMA_READ, &back);
		struct ibv_send_wr write = make_send(IBV_WR_RDMA_WRITE, &inl);

		text[7] += (char)(i / 100 % 10);
		text[8] += (char)(i / 10 % 10);
		text[9] += (char)(i % 10);
		memcpy(sent, text, sizeof(text));
		receive(i, &in, 1);
		write.send_flags = IBV_SEND_INLINE;
		write.next = &read;
		read.next = &message;
		write.wr.rdma.remote_addr = read.wr.rdma.remote_addr = (uintptr_t)received;
		write.wr.rdma.rkey = read.wr.rdma.rkey = mr->rkey;
		read.wr_id = 1000 + i;
		post_send_wr(&from, &write);
		assert_wc(next_wc(to.cq), i, IBV_WC_SUCCESS);
		assert_string_equal(received, text);
		assert_string_equal(received + 512, text);
		assert_wc(next_wc(from.cq), 1000 + i, IBV_WC_SUCCESS);
		assert_string_equal(sent + 64, text);
		assert_wc(next_wc(from.cq), 0x5e4d, IBV_WC_SUCCESS);
	}
}

static void a_write_beyond_the_region_is_refused_by_the_peer(void **state)
{
	struct ibv_sge sge = sge_at(sent, 16);
	struct ibv_send_wr wr = make_send(IBV_WR_RDMA_WRITE, &sge);

	wr.wr.rdma.remote_addr = (uintptr_t)received + REGION - 8;
	wr.wr.rdma.rkey = mr->rkey;
	memset(received + REGION - 8, 0x77, 8);
	post_send_wr(&from, &wr);
	assert_wc(next_wc(from.cq), 0x5e4d, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(received[REGION - 8], 0x77);
}

/* ---- what was found of the peer before ---- */

enum { RECEIVE_ID = 77 };

/* So that all of it is known. */
static void send_one_of_each(void)
{
	struct ibv_sge out = sge_at(sent, 100), in = sge_at(received, 100);
	struct ibv_send_wr wr = make_send(IBV_WR_SEND, &out);

	for (int i = 0; i < 3; i++) {
		receive(RECEIVE_ID, &in, 1);
		post_send_wr(&from, &wr);
		assert_wc(next_wc(to.cq), RECEIVE_ID, IBV_WC_SUCCESS);
		assert_wc(next_wc(from.cq), 0x5e4d, IBV_WC_SUCCESS);
		expect_access(IBV_WR_RDMA_WRITE, 100, 1, 1);
		expect_access(IBV_WR_RDMA_READ, 100, 2, 1);
	}
}

static void write_to(uint64_t remote, uint32_t rkey, enum ibv_wc_status status)
{
	struct ibv_sge out = sge_at(sent, 100);
	struct ibv_send_wr wr = make_send(IBV_WR_RDMA_WRITE, &out);

	memset(sent, 0x11, 100);
	wr.wr.rdma.remote_addr = remote;
	wr.wr.rdma.rkey = rkey;
	post_send_wr(&from, &wr);
	assert_wc(next_wc(from.cq), 0x5e4d, status);
}

static void expect_untouched(void)
{
	for (int i = 0; i < 100; i++)
		assert_int_equal(received[i], 0x77);
}

static void a_right_that_it_gives_no_more(void **state)
{
	struct ibv_qp_attr attr = {.qp_access_flags = IBV_ACCESS_REMOTE_READ};

	send_one_of_each();
	assert_int_equal(ibv_modify_qp(to.qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
	memset(received, 0x77, 100);
	write_to((uintptr_t)received, mr->rkey, IBV_WC_REM_INV_REQ_ERR);
	expect_untouched();
}

static void a_region_that_is_gone(void **state)
{
	struct ibv_mr *other = ibv_reg_mr(pd, received, 100, live_access);
	uint32_t rkey = other->rkey;

	send_one_of_each();
	write_to((uintptr_t)received, rkey, IBV_WC_SUCCESS);
	assert_int_equal(received[99], 0x11);
	assert_int_equal(ibv_dereg_mr(other), 0);
	memset(received, 0x77, 100);
	write_to((uintptr_t)received, rkey, IBV_WC_REM_ACCESS_ERR);
	expect_untouched();
}

/* Which is a matter of packets. */
static void a_rate_that_is_limited_meanwhile(void **state)
{
	struct ibv_qp_rate_limit_attr limit = {.rate_limit = 80000};
	uint64_t reached;

	send_one_of_each();
	reached = counted(&from).reached;
	assert_int_equal(ibv_modify_qp_rate_limit(from.qp, &limit), 0);
	write_to((uintptr_t)received, mr->rkey, IBV_WC_SUCCESS);
	assert_int_equal(counted(&from).reached, reached);
	limit.rate_limit = 0;
	assert_int_equal(ibv_modify_qp_rate_limit(from.qp, &limit), 0);
	write_to((uintptr_t)received, mr->rkey, IBV_WC_SUCCESS);
	assert_int_equal(counted(&from).reached, reached + 1);
}

static void expect_nobody_there(void)
{
	struct ibv_sge out = sge_at(sent, 100);
	struct ibv_send_wr wr = make_send(IBV_WR_SEND, &out);

	memset(received, 0x77, 100);
	post_send_wr(&from, &wr);
	assert_wc(next_wc(from.cq), 0x5e4d, IBV_WC_RETRY_EXC_ERR);
	expect_untouched();
}

static void a_peer_in_error(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_sge in = sge_at(received, 100);

	send_one_of_each();
	receive(RECEIVE_ID, &in, 1);
	assert_int_equal(ibv_modify_qp(to.qp, &attr, IBV_QP_STATE), 0);
	assert_wc(next_wc(to.cq), RECEIVE_ID, IBV_WC_WR_FLUSH_ERR);
	expect_nobody_there();
}

static void a_peer_that_is_gone(void **state)
{
	struct ibv_sge in = sge_at(received, 100);

	send_one_of_each();
	receive(RECEIVE_ID, &in, 1);
	end_destroy(&to);
	end_create(&to, IBV_QPT_RC); /* maybe where that one was */
	qp_init(to.qp, live_access);
	receive(RECEIVE_ID, &in, 1);
	expect_nobody_there();
}

static void a_queue_pair_that_is_its_own_peer(void **state)
{
	struct ibv_sge in = sge_at(received, 100), out = sge_at(sent, 100);
	struct ibv_send_wr wr = make_send(IBV_WR_SEND, &out);
	struct ibv_wc wc;

	end_destroy(&from);
	end_create(&from, IBV_QPT_RC);
	qp_init(from.qp, live_access);
	qp_connect(from.qp, from.qp->qp_num);
	for (uint32_t i = 0; i < 5; i++) {
		struct ibv_recv_wr recv = {.wr_id = i, .sg_list = &in, .num_sge = 1}, *bad;

		fill(sent, 100, i);
		assert_int_equal(ibv_post_recv(from.qp, &recv, &bad), 0);
		post_send_wr(&from, &wr);
		for (int j = 0; j < 2; j++) {
			wc = next_wc(from.cq);
			assert_wc(wc, wc.opcode == IBV_WC_RECV ? i : 0x5e4d, IBV_WC_SUCCESS);
		}
		assert_memory_equal(received, sent, 100);
	}
}

/* Its attributes, again and again, while messages come. */
static void *change_attributes(void *is_over)
{
	struct ibv_qp_attr attr = {.min_rnr_timer = 1, .qp_access_flags = live_access};

	while (!atomic_load((atomic_bool *)is_over))
		if (ibv_modify_qp(to.qp, &attr, IBV_QP_MIN_RNR_TIMER | IBV_QP_ACCESS_FLAGS))
			return "ibv_modify_qp()";
	return NULL;
}

static void a_peer_that_changes_meanwhile(void **state)
{
	atomic_bool is_over = false;
	pthread_t other;
	void *failed;

	assert_int_equal(pthread_create(&other, NULL, change_attributes, &is_over), 0);
	for (int i = 0; i < 300; i++)
		send_one_of_each();
	atomic_store(&is_over, true);
	pthread_join(other, &failed);
	assert_null(failed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name)   cmocka_unit_test_setup_teardown(name, setup, teardown)
#define SHARED(name) cmocka_unit_test_setup_teardown(name, setup_shared, teardown)
	    TEST(whole_messages_arrive),
	    TEST(lists_are_gathered_and_scattered),
	    TEST(messages_of_all_lengths_come_in_order),
	    TEST(who_has_no_receive_is_waited_for),
	    TEST(what_is_too_long_is_refused_at_both_ends),
	    TEST(a_wrong_key_of_the_sender_is_its_own_error),
	    TEST(one_of_the_receiver_is_that_ones),
	    TEST(the_senders_memory_may_be_gone),
	    TEST(and_the_receivers),
	    SHARED(whole_messages_arrive),
	    SHARED(lists_are_gathered_and_scattered),
	    SHARED(messages_of_all_lengths_come_in_order),
	    SHARED(what_is_too_long_is_refused_at_both_ends),
	    SHARED(a_wrong_key_of_the_sender_is_its_own_error),
	    SHARED(one_of_the_receiver_is_that_ones),
	    SHARED(the_senders_memory_may_be_gone),
	    SHARED(and_the_receivers),
	    TEST(two_threads_send_to_each_other),
	    TEST(writes_and_reads_arrive),
	    TEST(they_take_their_turn_in_a_list),
	    TEST(a_write_beyond_the_region_is_refused_by_the_peer),
	    TEST(a_right_that_it_gives_no_more),
	    TEST(a_region_that_is_gone),
	    TEST(a_rate_that_is_limited_meanwhile),
	    TEST(a_peer_in_error),
	    TEST(a_peer_that_is_gone),
	    TEST(a_queue_pair_that_is_its_own_peer),
	    TEST(a_peer_that_changes_meanwhile),
	};

	return cmocka_run_group_tests(tests, live_open, live_close);
}
