/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Streams of messages between two processes, with more posted than the ring between them has room
 * for: each message arrives once, whole and in its turn, whether it goes by the express path, waits
 * for room there, or is too long for it. Small ones, and long ones, of which each is several
 * packets. The receiver stops now and then, and so does the sender.
 */
#define _GNU_SOURCE
#include <sys/socket.h>
#include <sys/wait.h>

#include "live.h"

enum {
	BATCH = 16,
	INLINE_MAX = 64,
	SIGNAL_EVERY = 32,
};

struct course {
	uint32_t messages;
	uint32_t depth; /* the ring takes fewer */
	uint32_t slot;
};

static const struct course small = {.messages = 20000, .depth = 2048, .slot = 512};
static const struct course large = {.messages = 4000, .depth = 128, .slot = 68 << 10};
static const struct course *course;

static uint32_t mix(uint32_t x)
{
	x = (x ^ x >> 16) * 0x7feb352d;
	x = (x ^ x >> 15) * 0x846ca68b;
	return x ^ x >> 16;
}

/* One in 64 of the long ones is too long for a record. */
static uint32_t length_of_large(uint32_t kind, uint32_t number)
{
	if (kind < 8)
		return kind ? 64 << 10 : course->slot;
	return kind < 32 ? 1 + mix(number + 1) % 4096 : 1 + mix(number + 1) % (40 << 10);
}

static uint32_t length_of(uint32_t number)
{
	uint32_t kind = mix(number) % 64;

	if (course == &large)
		return length_of_large(kind, number);
	if (kind == 0)
		return 300; /* not in slots */
	return 8 + (kind < 48 ? mix(number + 1) % 24 : mix(number + 1) % 249);
}

static void end_create_deep(struct end *end)
{
	struct ibv_qp_init_attr attr;

	end->buffer = calloc(course->depth, course->slot);
	assert_non_null(end->buffer);
	end->mr = ibv_reg_mr(pd, end->buffer, (size_t)course->depth * course->slot, live_access);
	assert_non_null(end->mr);
	end->cq = ibv_create_cq(context, 2 * (int)course->depth, end, NULL, 0);
	assert_non_null(end->cq);
	attr = end_qp_attr(end->cq, IBV_QPT_RC);
	attr.cap.max_send_wr = attr.cap.max_recv_wr = course->depth;
	end->qp = ibv_create_qp(pd, &attr);
	assert_non_null(end->qp);
}

static size_t place(uint32_t number)
{
	return (size_t)(number % course->depth) * course->slot;
}

static struct ibv_sge slot(const struct end *end, uint32_t number, uint32_t length)
{
	return end_sge(end, place(number), length);
}

static void post_receive(struct end *end, uint32_t number)
{
	assert_int_equal(post_recv_sge(end->qp, number, slot(end, number, course->slot)), 0);
}

static void meet(struct end *end, int line)
{
	struct ibv_qp_attr rts = rts_attr();
	uint32_t qpn;

	context = open_loopback();
	assert_non_null(context);
	assert_true(find_ipv4());
	pd = ibv_alloc_pd(context);
	end_create_deep(end);
	qp_init(end->qp, live_access);
	for (uint32_t i = 0; i < course->depth; i++)
		post_receive(end, i);
	qpn = end->qp->qp_num;
	assert_int_equal(write(line, &qpn, sizeof(qpn)), sizeof(qpn));
	assert_int_equal(recv(line, &qpn, sizeof(qpn), MSG_WAITALL), sizeof(qpn));
	rts.timeout = 14;
	rts.retry_cnt = rts.rnr_retry = 7;
	qp_connect_as(end->qp, qpn, rts);
	assert_int_equal(write(line, &qpn, 1), 1); /* from here on the other may send */
	assert_int_equal(recv(line, &qpn, 1, MSG_WAITALL), 1);
}

static void leave(struct end *end)
{
	end_destroy(end);
	assert_int_equal(live_close(NULL), 0);
}

/* ---- the receiver ---- */

static void expect_message(const struct end *end, const struct ibv_wc *wc, uint32_t number)
{
	const char *at = end->buffer + place(number);
	uint32_t length = length_of(number);

	assert_wc(*wc, number, IBV_WC_SUCCESS);
	assert_int_equal(wc->byte_len, length);
	for (uint32_t i = 0; i < length; i++)
		if (at[i] != (char)(number * 31 + i))
			fail_msg("message %u, byte %u", number, i);
}

static void take_all(int line)
{
	struct end end;
	struct ibv_wc wc;

	meet(&end, line);
	for (uint32_t i = 0; i < course->messages; i++) {
		wc = next_wc(end.cq);
		expect_message(&end, &wc, i);
		post_receive(&end, i + course->depth);
		if (mix(i + 2) % 4096 == 0)
			usleep(300);
	}
	assert_int_equal(recv(line, &wc, 1, MSG_WAITALL), 0); /* it has its ACKs */
	leave(&end);
	_exit(0);
}

/* ---- the sender ---- */

struct posted {
	struct ibv_send_wr wr[BATCH];
	struct ibv_sge sge[BATCH];
	char text[BATCH][INLINE_MAX];
};

/* Inline data are the sender's again at once; others stay until they have completed. */
static void prepare(struct end *end, uint32_t number, struct posted *posted, uint32_t index)
{
	struct ibv_send_wr *wr = &posted->wr[index];
	uint32_t length = length_of(number);
	bool is_inline = length <= INLINE_MAX && mix(number + 3) % 2;
	char *at = is_inline ? posted->text[index] : end->buffer + place(number);

	for (uint32_t i = 0; i < length; i++)
		at[i] = (char)(number * 31 + i);
	posted->sge[index] = (struct ibv_sge){(uintptr_t)at, length, end->mr->lkey};
	*wr = make_send(IBV_WR_SEND, &posted->sge[index]);
	wr->wr_id = number;
	wr->send_flags = number % SIGNAL_EVERY == SIGNAL_EVERY - 1 ? IBV_SEND_SIGNALED : 0;
	if (is_inline)
		wr->send_flags |= IBV_SEND_INLINE;
}

/* One, or a list. */
static uint32_t post_some(struct end *end, uint32_t number)
{
	static struct posted posted;
	uint32_t count = mix(number + 4) % 2 ? 1 : 1 + mix(number + 5) % BATCH;

	if (count > course->messages - number)
		count = course->messages - number;
	for (uint32_t i = 0; i < count; i++) {
		prepare(end, number + i, &posted, i);
		if (i)
			posted.wr[i - 1].next = &posted.wr[i];
	}
	post_send_wr(end, &posted.wr[0]);
	memset(posted.text, 'x', sizeof(posted.text));
	return count;
}

static void send_all(struct end *end)
{
	uint32_t posted = 0, done = 0;

	while (done < course->messages) {
		struct ibv_wc wc;
		bool is_full = posted + BATCH > done + course->depth;

		if (posted < course->messages && !is_full) {
			posted += post_some(end, posted);
			if (mix(posted) % 8)
				continue;
		}
		if (posted == course->messages || is_full)
			wc = next_wc(end->cq);
		else if (!ibv_poll_cq(end->cq, 1, &wc))
			continue;
		assert_wc(wc, done + SIGNAL_EVERY - 1, IBV_WC_SUCCESS);
		done += SIGNAL_EVERY;
		if (mix(done + 6) % 128 == 0)
			usleep(2000); /* nobody polls for a while */
	}
}

static void run(const struct course *which)
{
	int ends[2], status;
	struct end end;
	pid_t receiver;

	course = which;
	assert_int_equal(which->messages % SIGNAL_EVERY, 0); /* the last one is told */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	receiver = fork();
	assert_true(receiver >= 0);
	close(ends[receiver ? 1 : 0]);
	if (!receiver) {
		alarm(60);
		take_all(ends[1]);
	}
	meet(&end, ends[0]);
	send_all(&end);
	close(ends[0]);
	assert_int_equal(waitpid(receiver, &status, 0), receiver);
	assert_int_equal(status, 0);
	leave(&end);
}

static void more_than_the_ring_has_slots_for(void **state)
{
	(void)state;
	run(&small);
}

static void more_than_the_ring_has_room_for(void **state)
{
	(void)state;
	run(&large);
}

static int network(void **state)
{
	(void)state;
	return interface_up("lo");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(more_than_the_ring_has_slots_for),
	    cmocka_unit_test(more_than_the_ring_has_room_for),
	};

	if (!own_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, network, NULL);
}
