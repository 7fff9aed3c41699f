/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages between two processes and within one, of which some are fit for the express path and
 * others are not, in any order: each arrives once, whole and in its turn, and a request has
 * completed when its reply is there. (VERBATIM_EXPRESS=off: the same without it.)
 */
#define _GNU_SOURCE
#include <sys/wait.h>
#include <sys/socket.h>

#include "device/qp.h"
#include "transport/transport.h"
#include "counted.h"
#include "live.h"

enum {
	ROUNDS = 5000,
	MESSAGE_MAX = 3000,
	SEND_AT = 0,
	RECEIVE_AT = 4096,
	READ_AT = 8192,
	SEND_ID = 1 << 20,
	READ_ID = 2 << 20,
	WRITE_ID = 3 << 20,
};

static uint32_t mix(uint32_t x)
{
	x = (x ^ x >> 16) * 0x7feb352d;
	x = (x ^ x >> 15) * 0x846ca68b;
	return x ^ x >> 16;
}

/* What both ends know of a message by its number. */
static uint32_t length_of(uint32_t number)
{
	uint32_t kind = mix(number) % 8;

	if (kind < 5)
		return mix(number + 1) % 64;
	return kind < 7 ? mix(number + 1) % 320 : mix(number + 1) % MESSAGE_MAX;
}

static void fill(char *at, uint32_t number)
{
	uint32_t length = length_of(number);

	for (uint32_t i = 0; i < length; i++)
		at[i] = (char)(number * 31 + i);
}

static void expect_content(const struct ibv_wc *wc, const char *at, uint32_t number)
{
	assert_int_equal(wc->byte_len, length_of(number));
	for (uint32_t i = 0; i < wc->byte_len; i++)
		if (at[i] != (char)(number * 31 + i))
			fail_msg("message %u, byte %u", number, i);
	assert_int_equal(wc->wc_flags & IBV_WC_WITH_IMM ? be32toh(wc->imm_data) : number, number);
}

static void post_message(struct end *end, uint32_t number)
{
	struct ibv_sge sge = end_sge(end, SEND_AT, length_of(number));
	struct ibv_send_wr wr =
	    make_send(mix(number + 2) % 3 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM, &sge);

	fill(end->buffer + SEND_AT, number);
	wr.wr_id = SEND_ID + number;
	wr.imm_data = htobe32(number);
	if (sge.length <= 64 && mix(number + 3) % 2)
		wr.send_flags |= IBV_SEND_INLINE;
	post_send_wr(end, &wr);
}

/* In front of some messages; its completion comes before theirs. */
static uint64_t post_other(struct end *end, uint32_t number, uint64_t remote, uint32_t rkey)
{
	struct ibv_sge sge = end_sge(end, READ_AT, 8);
	struct ibv_send_wr wr = make_send(IBV_WR_RDMA_READ, &sge);
	uint32_t kind = mix(number + 4) % 16;

	if (kind > 1)
		return 0;
	wr.opcode = kind ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
	wr.wr_id = (kind ? READ_ID : WRITE_ID) + number;
	wr.wr.rdma.remote_addr = remote + READ_AT;
	wr.wr.rdma.rkey = rkey;
	post_send_wr(end, &wr);
	return wr.wr_id;
}

static void expect(struct end *end, uint64_t wr_id)
{
	assert_wc(next_wc(end->cq), wr_id, IBV_WC_SUCCESS);
}

/* ---- two processes ---- */

struct contact {
	uint32_t qpn, rkey;
	uint64_t addr;
};

static struct contact peer;

static void meet(struct end *end, int line)
{
	struct ibv_qp_attr rts = rts_attr();
	struct contact own;

	context = open_loopback();
	assert_non_null(context);
	assert_true(find_ipv4());
	pd = ibv_alloc_pd(context);
	end_create(end, IBV_QPT_RC);
	qp_init(end->qp, live_access);
	own = (struct contact){end->qp->qp_num, end->mr->rkey, (uintptr_t)end->buffer};
	assert_int_equal(write(line, &own, sizeof(own)), sizeof(own));
	assert_int_equal(recv(line, &peer, sizeof(peer), MSG_WAITALL), sizeof(peer));
	assert_int_equal(post_recv_sge(end->qp, 0, end_sge(end, RECEIVE_AT, MESSAGE_MAX)), 0);
	rts.timeout = 14;
	rts.retry_cnt = rts.rnr_retry = 7;
	qp_connect_as(end->qp, peer.qpn, rts);
	assert_int_equal(write(line, &own, 1), 1); /* from here on the other may send */
	assert_int_equal(recv(line, &own, 1, MSG_WAITALL), 1);
}

/* Takes message `number` and has the next receive posted, now and then too late. */
static void take_message(struct end *end, uint32_t number)
{
	struct ibv_wc wc = next_wc(end->cq);

	assert_wc(wc, number, IBV_WC_SUCCESS);
	expect_content(&wc, end->buffer + RECEIVE_AT, number);
}

static void post_next(struct end *end, uint32_t number)
{
	assert_int_equal(post_recv_sge(end->qp, number + 1, end_sge(end, RECEIVE_AT, MESSAGE_MAX)),
			 0);
}

static void answer(int line)
{
	struct end end;

	meet(&end, line);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		take_message(&end, i);
		if (mix(i + 5) % 64)
			post_next(&end, i);
		post_message(&end, i);
		expect(&end, SEND_ID + i);
		if (mix(i + 5) % 64 == 0) {
			usleep(20); /* the next one may find no receive */
			post_next(&end, i);
		}
	}
	assert_int_equal(recv(line, &end, 1, MSG_WAITALL), 0);
	_exit(0);
}

static void questions_and_answers(void **state)
{
	int ends[2], status;
	struct end end;
	uint64_t other;
	pid_t server;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	server = fork();
	assert_true(server >= 0);
	close(ends[server ? 1 : 0]);
	if (!server) {
		alarm(60);
		answer(ends[1]);
	}
	meet(&end, ends[0]);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		other = post_other(&end, i, peer.addr, peer.rkey);
		post_message(&end, i);
		if (other)
			expect(&end, other);
		expect(&end, SEND_ID + i); /* in the one CQ before the reply */
		take_message(&end, i);
		post_next(&end, i);
		if (mix(i + 6) % 1024 == 0)
			usleep(2000); /* nobody polls for a while */
	}
	close(ends[0]);
	assert_int_equal(waitpid(server, &status, 0), server);
	assert_int_equal(status, 0);
	end_destroy(&end);
	assert_int_equal(live_close(NULL), 0);
}

/* ---- one process ---- */

static void messages_to_oneself(void **state)
{
	const char *setting = getenv("VERBATIM_EXPRESS");
	struct end a, b;
	uint64_t other;

	(void)state;
	context = open_loopback();
	assert_non_null(context);
	assert_true(find_ipv4());
	pd = ibv_alloc_pd(context);
	pair_create(&a, &b, IBV_QPT_RC);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		assert_int_equal(post_recv_sge(b.qp, i, end_sge(&b, RECEIVE_AT, MESSAGE_MAX)), 0);
		other = post_other(&a, i, (uintptr_t)b.buffer, b.mr->rkey);
		post_message(&a, i);
		if (other)
			expect(&a, other);
		take_message(&b, i);
		expect(&a, SEND_ID + i);
	}
	assert_int_equal(!counted(&a).expressed, setting && !strcmp(setting, "off"));
	pair_destroy(&a, &b);
	assert_int_equal(live_close(NULL), 0);
}

static void without_a_receive_a_message_waits(void **state)
{
	struct ibv_qp_attr rts = rts_attr();
	struct end a, b;

	(void)state;
	rts.rnr_retry = 7; /* for ever */
	context = open_loopback();
	assert_non_null(context);
	assert_true(find_ipv4());
	pd = ibv_alloc_pd(context);
	end_create(&a, IBV_QPT_RC);
	end_create(&b, IBV_QPT_RC);
	qp_init(a.qp, live_access);
	qp_init(b.qp, live_access);
	qp_connect_as(a.qp, b.qp->qp_num, rts);
	qp_connect_as(b.qp, a.qp->qp_num, rts);
	for (uint32_t i = 0; i < 10; i++) {
		post_message(&a, i);
		usleep(100);
		assert_int_equal(ibv_poll_cq(a.cq, 1, &(struct ibv_wc){0}), 0);
		assert_int_equal(post_recv_sge(b.qp, i, end_sge(&b, RECEIVE_AT, MESSAGE_MAX)), 0);
		take_message(&b, i);
		expect(&a, SEND_ID + i);
	}
	pair_destroy(&a, &b);
	assert_int_equal(live_close(NULL), 0);
}

static int network(void **state)
{
	(void)state;
	return interface_up("lo");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(questions_and_answers),
	    cmocka_unit_test(messages_to_oneself),
	    cmocka_unit_test(without_a_receive_a_message_waits),
	};

	if (!own_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, network, NULL);
}
