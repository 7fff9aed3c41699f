/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Streams of UC and UD between two processes: what the receiver polls for is in order and whole,
 * and a sender that has got as far ahead as it may hears in its posting verb that there is room
 * again, without a doorbell.
 */
#define _GNU_SOURCE
#include "contact.h"

enum {
	AHEAD = 64, /* of the receiver, at most (transport.md, "Pace of UC and UD") */
	ROUNDS = 300,
	FEW = 20,
	RECEIVES = 128,
	BYTES = 24,
	GRH_AREA = 40,
	SLOT = 64,
	AT = 4096,
	QKEY = 0x1234567, /* live.h */
};

/* Both processes'. */
static struct common {
	atomic_uint taken; /* messages, by the receiver */
	atomic_bool is_over;
	uint32_t qpn;
} * common;

static enum ibv_qp_type type;
static struct ibv_ah *ah;

static void end_create_deep(struct end *end, struct ibv_comp_channel *channel)
{
	struct ibv_qp_init_attr attr;

	end_make_buffer(end);
	end->cq = ibv_create_cq(context, 2 * RECEIVES, end, channel, 0);
	assert_non_null(end->cq);
	attr = end_qp_attr(end->cq, type);
	attr.cap.max_send_wr = attr.cap.max_recv_wr = RECEIVES;
	end->qp = ibv_create_qp(pd, &attr);
	assert_non_null(end->qp);
	qp_init(end->qp, live_access);
}

/* ---- who receives ---- */

static void post_receive(struct end *end, uint32_t number)
{
	struct ibv_sge sge = end_sge(end, AT + number % RECEIVES * SLOT, SLOT);

	assert_int_equal(post_recv_sge(end->qp, number, sge), 0);
}

static void take(struct end *end, uint32_t number, const struct ibv_wc *wc)
{
	size_t before = type == IBV_QPT_UD ? GRH_AREA : 0;
	const char *at = end->buffer + AT + number % RECEIVES * SLOT + before;
	uint32_t told;

	assert_wc(*wc, number, IBV_WC_SUCCESS);
	assert_int_equal(wc->byte_len, before + BYTES);
	memcpy(&told, at, sizeof(told));
	assert_int_equal(told, number);
	for (uint32_t i = sizeof(told); i < BYTES; i++)
		assert_int_equal(at[i], (char)(number + i));
	post_receive(end, number + RECEIVES);
	atomic_store(&common->taken, number + 1);
}

static void receive(void)
{
	uint32_t number = 0;
	struct contact peer;
	struct ibv_wc wc;
	struct end end;

	end_create_deep(&end, NULL);
	for (uint32_t i = 0; i < RECEIVES; i++)
		post_receive(&end, i);
	common->qpn = end.qp->qp_num;
	assert_true(hear(&peer));
	qp_connect(end.qp, peer.qpn);
	tell(&peer);
	while (!atomic_load(&common->is_over))
		if (ibv_poll_cq(end.cq, 1, &wc))
			take(&end, number++, &wc);
}

/* ---- who sends ---- */

static void post(struct end *end, uint32_t number, unsigned int flags)
{
	struct ibv_sge sge = end_sge(end, 0, BYTES);
	struct ibv_send_wr wr = make_send(IBV_WR_SEND, &sge);

	memcpy(end->buffer, &number, sizeof(number));
	for (uint32_t i = sizeof(number); i < BYTES; i++)
		end->buffer[i] = (char)(number + i);
	wr.send_flags = IBV_SEND_INLINE | flags;
	if (type == IBV_QPT_UD) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = common->qpn;
		wr.wr.ud.remote_qkey = QKEY;
	}
	post_send_wr(end, &wr);
}

/* Until the receiver has all of them; with what polls of ours make of it, or without. */
static void wait_for(struct end *end, uint32_t count, bool polls)
{
	double patience = seconds() + 20;
	struct ibv_wc wc;

	while (atomic_load(&common->taken) < count && seconds() < patience) {
		if (polls)
			assert_int_equal(ibv_poll_cq(end->cq, 1, &wc), 0);
		else
			sched_yield();
	}
	assert_int_equal(atomic_load(&common->taken), count);
}

/* Of those in which the lane's thread left all to who polls. */
static struct rounds {
	uint32_t count, quiet; /* without a doorbell */
} rounds;

/* The answers are there, and not taken in. */
static void go_on(struct end *end, uint32_t number)
{
	struct lane *lane = qp_of(end->qp)->seat->lane;
	unsigned int before = atomic_load(&lane->posts);
	bool is_polled = atomic_load(&lane->has_poller);

	for (uint32_t i = 0; i < AHEAD; i++)
		post(end, number + i, 0);
	if (!is_polled || !atomic_load(&lane->has_poller))
		return;
	rounds.count++;
	rounds.quiet += atomic_load(&lane->posts) == before;
}

static void meet_receiver(struct end *end, struct ibv_comp_channel *channel)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};
	struct contact own = {0};

	end_create_deep(end, channel);
	attr.grh.dgid = gid;
	attr.grh.sgid_index = (uint8_t)gid_index;
	ah = ibv_create_ah(pd, &attr);
	assert_non_null(ah);
	own.qpn = end->qp->qp_num;
	tell(&own);
	assert_true(hear(&own));
	qp_connect(end->qp, common->qpn);
}

static void part(struct end *end)
{
	atomic_store(&common->is_over, true);
	ibv_destroy_ah(ah);
	end_destroy(end);
}

static void stream(void)
{
	uint32_t number = 0;
	struct end end;

	meet_receiver(&end, NULL);
	rounds = (struct rounds){0};
	for (int round = 0; round < ROUNDS; round++) {
		for (uint32_t i = 0; i < AHEAD; i++)
			post(&end, number++, 0);
		wait_for(&end, number, false);
		go_on(&end, number);
		number += AHEAD;
		wait_for(&end, number, true);
	}
	/* under ThreadSanitizer, or on a busy machine, there are hardly any */
	assert_true(rounds.count < FEW || rounds.quiet >= rounds.count / 2);
	assert_int_equal(counted(&end).sent_packets, number);
	part(&end);
}

/* Half of what is posted waits for an answer, and for that nobody polls. */
static void stream_asleep(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq;
	double begun = seconds();
	uint32_t number = 0;
	struct end end;
	void *data;

	meet_receiver(&end, channel);
	for (int round = 0; round < ROUNDS / 3; round++) {
		assert_int_equal(ibv_req_notify_cq(end.cq, 0), 0);
		for (uint32_t i = 0; i < 2 * AHEAD; i++, number++)
			post(&end, number, i == 2 * AHEAD - 1 ? IBV_SEND_SIGNALED : 0);
		assert_int_equal(ibv_get_cq_event(channel, &cq, &data), 0);
		ibv_ack_cq_events(cq, 1);
		assert_wc(next_wc(end.cq), 0x5e4d, IBV_WC_SUCCESS);
		wait_for(&end, number, false); /* it has no more receives than that */
	}
	/* one that is not heard is waited for, for 0.2 s each time */
	assert_true(seconds() - begun < 0.1 * ROUNDS / 3);
	part(&end);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void between_processes(enum ibv_qp_type of, void (*sender)(void))
{
	type = of;
	common =
	    mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(common, MAP_FAILED);
	start(receive);
	sender();
	stop();
	munmap(common, sizeof(*common));
}

static void datagrams(void **state)
{
	between_processes(IBV_QPT_UD, stream);
}

static void a_connection(void **state)
{
	between_processes(IBV_QPT_UC, stream);
}

static void datagrams_of_one_who_sleeps(void **state)
{
	between_processes(IBV_QPT_UD, stream_asleep);
}

static void a_connection_of_one_who_sleeps(void **state)
{
	between_processes(IBV_QPT_UC, stream_asleep);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(datagrams, only_the_parent_goes_on),
	    cmocka_unit_test_setup(a_connection, only_the_parent_goes_on),
	    cmocka_unit_test_setup(datagrams_of_one_who_sleeps, only_the_parent_goes_on),
	    cmocka_unit_test_setup(a_connection_of_one_who_sleeps, only_the_parent_goes_on),
	};

	if (!own_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, network, NULL);
}
