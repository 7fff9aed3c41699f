/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC and tag matching on a link that loses, doubles and reorders by seed, in virtual time:
 * whatever happens on the way, each message arrives once, in its sender's order, where it belongs,
 * and memory holds what was sent. `kinds FIRST LAST` runs these seeds; one that fails prints
 * itself.
 */
#include <infiniband/tm_types.h>

#include "../unit/transport_pair.h"
#include "rng.h"

enum {
	SRQS = 3,
	MESSAGES = 60,
	ROOM = 8192, /* of a message, in both memories */
	TMH = sizeof(struct ibv_tmh),
	TAGS = 5,
	PERMILLE = 1000,
};

static struct rng rng;
static uint32_t loss, twice, swapped; /* per mille */
static uint64_t seed;

static bool chance(uint32_t permille)
{
	return rng_below(&rng, PERMILLE) < permille;
}

/* A packet that is swapped goes before the one that was sent last. */
static int weather(struct pair *pair, struct side *from, struct flying *packet)
{
	static struct flying last;
	uint32_t newest;

	if (chance(loss))
		return 0;
	if (pair->count && chance(swapped)) {
		newest = (pair->first + pair->count - 1) % PAIR_PACKETS;
		flying_copy(&last, &pair->packets[newest]);
		flying_copy(&pair->packets[newest], packet);
		flying_copy(packet, &last);
	}
	return chance(twice) ? 2 : 1;
}

static struct pair *begin(struct pair_options *options)
{
	struct pair *pair;

	options->retry_cnt = 7;
	options->mtu = 1 + rng_below(&rng, 5);
	options->psn_a = rng_below(&rng, 2) ? 0xfffff0 : rng_below(&rng, 1 << 24);
	options->psn_b = rng_below(&rng, 1 << 24);
	loss = rng_below(&rng, 60);
	twice = rng_below(&rng, 60);
	swapped = rng_below(&rng, 60);
	pair = pair_connected(options);
	pair->meddle = weather;
	return pair;
}

/* What has not ended in the time that all retries take has stopped. */
static void settle(struct pair *pair)
{
	pair_run(pair);
	for (int i = 0; i < 20000 && (pair->a.qp->sq.head != pair->a.qp->sq.tail ||
				      pair->b.qp->sq.head != pair->b.qp->sq.tail);
	     i++)
		assert_true(pair_wait(pair));
	pair->trace[0] = '\0';
}

/* ---- XRC ---- */

struct srq_model {
	struct srq *srq;
	struct cq *cq;
	uint64_t posted;	    /* receives; wr_id is the number */
	uint32_t lengths[MESSAGES]; /* of the messages that it must get, in order */
	uint32_t number[MESSAGES];  /* and which they are */
	uint32_t expected, completed;
};

static struct srq_model srqs[SRQS];

static size_t recv_place(int srq, uint64_t wr_id)
{
	return (size_t)(1 + srq * MESSAGES + wr_id) * 1024 % (PAIR_MEMORY / 2) + PAIR_MEMORY / 2 -
	       ROOM;
}

static void create_srqs(struct pair *pair)
{
	for (int i = 0; i < SRQS; i++) {
		struct ibv_srq_init_attr_ex init = {
		    .attr = {.max_wr = 16, .max_sge = 1},
		    .comp_mask = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		    .srq_type = IBV_SRQT_XRC,
		    .xrcd = &pair->b.xrcd->ibv,
		};

		srqs[i] = (struct srq_model){0};
		assert_int_equal(cq_create(&pair->b.adapter, 256, &srqs[i].cq), 0);
		init.cq = &srqs[i].cq->ibv;
		assert_int_equal(srq_create_ex(pair->b.pd, &init, &srqs[i].srq), 0);
	}
}

static void post_receive(struct pair *pair, int which)
{
	struct srq_model *model = &srqs[which];
	struct ibv_sge sge = side_sge(&pair->b, recv_place(which, model->posted), 1024);
	struct ibv_recv_wr wr = {.wr_id = model->posted, .sg_list = &sge, .num_sge = 1}, *bad;

	if (!recv_queue_post(&model->srq->queue, &wr, &bad))
		model->posted++;
}

static void send_one(struct pair *pair, uint32_t number)
{
	int which = (int)rng_below(&rng, SRQS);
	struct srq_model *model = &srqs[which];
	uint32_t length = rng_below(&rng, 1025);
	struct ibv_sge sge = side_sge(&pair->a, number * 1024, length);
	struct ibv_send_wr wr = {.wr_id = number,
				 .opcode = IBV_WR_SEND,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .qp_type.xrc.remote_srqn = srq_wire_number(model->srq)};

	fill(pair->a.memory + number * 1024, length, number + (uint32_t)seed);
	model->lengths[model->expected] = length;
	model->number[model->expected++] = number;
	side_post(&pair->a, &wr);
}

static void check_received(struct pair *pair)
{
	for (int i = 0; i < SRQS; i++) {
		struct srq_model *model = &srqs[i];
		struct cqe cqe;

		while (cq_poll_one(model->cq, &cqe) == 0) {
			uint32_t n = model->completed++;

			assert_true(n < model->expected);
			assert_int_equal(cqe.wc.status, IBV_WC_SUCCESS);
			assert_int_equal(cqe.wc.wr_id, n);
			assert_int_equal(cqe.wc.byte_len, model->lengths[n]);
			assert_memory_equal(pair->b.memory + recv_place(i, n),
					    pair->a.memory + model->number[n] * 1024,
					    model->lengths[n]);
		}
	}
}

/* READs and atomics between: each atomic adds one, once. */
static void ask(struct pair *pair, uint32_t *atomics)
{
	struct srq *before = pair->b.srq;

	pair->b.srq = srqs[rng_below(&rng, SRQS)].srq; /* whom side_request() names */
	if (chance(500)) {
		side_atomic(&pair->a, IBV_WR_ATOMIC_FETCH_AND_ADD, 1000 + *atomics, 400000, 0, 1,
			    0);
		++*atomics;
	} else {
		side_request(&pair->a, IBV_WR_RDMA_READ, 999, 300000, rng_below(&rng, 9000));
	}
	pair->b.srq = before;
}

static void check_sent(struct pair *pair, uint32_t *sent)
{
	struct cqe cqe;

	while (cq_poll_one(pair->a.cq, &cqe) == 0) {
		assert_int_equal(cqe.wc.status, IBV_WC_SUCCESS);
		*sent += cqe.wc.wr_id < 999;
	}
}

static void xrc(void)
{
	struct pair_options options = default_options;
	uint32_t sent = 0, atomics = 0;
	struct pair *pair;

	options.type = IBV_QPT_XRC_SEND;
	options.rnr_retry = 7;
	pair = begin(&options);
	create_srqs(pair);
	fill(pair->b.memory + 300000, 9000, (uint32_t)seed);
	memset(pair->b.memory, 0, 8);
	for (uint32_t i = 0; i < MESSAGES;) {
		for (uint32_t burst = 1 + rng_below(&rng, 8); burst && i < MESSAGES; burst--) {
			send_one(pair, i++);
			if (chance(200))
				ask(pair, &atomics);
		}
		pair_run(pair); /* perhaps no receive is there yet */
		for (int which = 0; which < SRQS; which++)
			while (srqs[which].posted < srqs[which].expected + rng_below(&rng, 3))
				post_receive(pair, which);
		settle(pair);
		check_received(pair);
		check_sent(pair, &sent);
	}
	assert_int_equal(sent, MESSAGES);
	assert_int_equal(*(uint64_t *)(void *)pair->b.memory, atomics);
	for (int i = 0; i < SRQS; i++) {
		assert_int_equal(srqs[i].completed, srqs[i].expected);
		assert_int_equal(srq_destroy(srqs[i].srq), 0);
		assert_int_equal(cq_destroy(srqs[i].cq), 0);
	}
	pair_free(pair);
}

/* ---- tag matching ---- */

enum how { EAGER, RENDEZVOUS, NO_TAG, HOWS };

struct tagged {
	uint64_t tag;
	enum how how;
	uint32_t length;
};

/* What the model knows of the list: buffers by age, and the two counts. */
static struct {
	uint64_t tags[MESSAGES * 2];
	bool is_posted[MESSAGES * 2], is_active[MESSAGES * 2];
	uint32_t count, unexpected, handled;
} list;

static size_t buffer_place(uint64_t wr_id)
{
	return PAIR_MEMORY / 2 + (size_t)wr_id % 60 * ROOM;
}

static void operate(struct pair *pair, enum ibv_ops_wr_opcode opcode, uint64_t tag)
{
	struct ibv_sge sge = side_sge(&pair->b, buffer_place(list.count), ROOM);
	struct ibv_ops_wr op = {.wr_id = 5000, .opcode = opcode, .tm.unexpected_cnt = list.handled};
	struct ibv_ops_wr *bad;

	if (opcode == IBV_WR_TAG_ADD) {
		op.tm.add.recv_wr_id = list.count;
		op.tm.add.sg_list = &sge;
		op.tm.add.num_sge = 1;
		op.tm.add.tag = tag;
		op.tm.add.mask = UINT64_MAX;
		list.tags[list.count] = tag;
		list.is_active[list.count] = list.handled == list.unexpected;
		list.is_posted[list.count++] = true;
	} else if (list.handled == list.unexpected) {
		for (uint32_t i = 0; i < list.count; i++)
			list.is_active[i] = true;
	}
	assert_int_equal(tag_post(pair->b.srq, &op, &bad, pair->now), 0);
}

/* The buffer that a message must find, -1 for none. */
static int find(uint64_t tag)
{
	for (uint32_t i = 0; i < list.count; i++)
		if (list.is_posted[i] && list.is_active[i] && list.tags[i] == tag)
			return (int)i;
	return -1;
}

static void send_tagged(struct pair *pair, const struct tagged *message, uint32_t number)
{
	static const uint8_t opcodes[] = {IBV_TMH_EAGER, IBV_TMH_RNDV, IBV_TMH_NO_TAG};
	struct ibv_tmh header = {.opcode = opcodes[message->how], .tag = htobe64(message->tag)};
	struct ibv_rvh request = {.va = htobe64((uintptr_t)pair->a.memory + ROOM),
				  .rkey = htobe32(pair->a.mr->rkey),
				  .len = htobe32(message->length)};
	uint32_t body = message->how == RENDEZVOUS ? sizeof(request) : message->length;

	fill(pair->a.memory, 2 * ROOM, number + (uint32_t)seed);
	memcpy(pair->a.memory, &header, sizeof(header));
	if (message->how == RENDEZVOUS)
		memcpy(pair->a.memory + TMH, &request, sizeof(request));
	side_request(&pair->a, IBV_WR_SEND, number, 0, TMH + body);
}

static struct cqe next(struct side *side)
{
	struct cqe cqe;

	assert_int_equal(cq_poll_one(side->cq, &cqe), 0);
	assert_int_equal(cqe.wc.status, IBV_WC_SUCCESS);
	return cqe;
}

static void check_tagged(struct pair *pair, const struct tagged *message, int buffer)
{
	bool is_whole = message->how == NO_TAG || buffer < 0;
	uint32_t body = message->how == RENDEZVOUS ? sizeof(struct ibv_rvh) : message->length;
	struct cqe cqe = next(&pair->b);
	const char *got = pair->b.memory + (is_whole ? 0 : buffer_place((uint64_t)buffer));

	if (is_whole) {
		assert_int_equal(cqe.wc.wr_id, 7777);
		assert_int_equal(cqe.wc.byte_len, TMH + body);
		assert_int_equal(cqe.wc.opcode,
				 message->how == NO_TAG ? IBV_WC_TM_NO_TAG : IBV_WC_TM_RECV);
		assert_memory_equal(got, pair->a.memory, TMH + body);
	} else if (message->how == EAGER) {
		assert_int_equal(cqe.wc.wr_id, buffer);
		assert_int_equal(cqe.wc.byte_len, message->length);
		assert_memory_equal(got, pair->a.memory + TMH, message->length);
	} else {
		assert_int_equal(cqe.wc.wr_id, buffer);
		assert_int_equal(cqe.wc.wc_flags, IBV_WC_TM_MATCH);
		cqe = next(&pair->b);
		assert_int_equal(cqe.wc.wr_id, buffer);
		assert_int_equal(cqe.wc.wc_flags, IBV_WC_TM_DATA_VALID);
		assert_memory_equal(got, pair->a.memory + ROOM, message->length);
		/* the FIN may be there before the ACK of the request is */
		cqe = next(&pair->a);
		assert_int_equal(next(&pair->a).wc.opcode,
				 cqe.wc.opcode == IBV_WC_SEND ? IBV_WC_RECV : IBV_WC_SEND);
		return;
	}
	assert_int_equal(next(&pair->a).wc.opcode, IBV_WC_SEND);
}

static void exchange(struct pair *pair, uint32_t number)
{
	struct tagged message = {.tag = rng_below(&rng, TAGS),
				 .how = rng_below(&rng, HOWS),
				 .length = rng_below(&rng, ROOM - TMH)};
	int buffer = message.how == NO_TAG ? -1 : find(message.tag);

	side_post_recv(&pair->b, 7777, 0, ROOM);
	side_post_recv(&pair->a, 8888, 3 * ROOM, TMH);
	send_tagged(pair, &message, number);
	settle(pair);
	check_tagged(pair, &message, buffer);
	side_expect_none(&pair->b);
	side_expect_none(&pair->a);
	/* what was not used is taken back, so that each exchange begins alike */
	recv_queue_clear(&pair->b.srq->queue);
	recv_queue_clear(&pair->a.qp->rq);
	if (buffer >= 0)
		list.is_posted[buffer] = false;
	else
		list.unexpected += message.how != NO_TAG;
}

static void tags(void)
{
	struct pair_options options = default_options;
	struct pair *pair;

	memset(&list, 0, sizeof(list));
	options.has_tags = true;
	pair = begin(&options);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		while (chance(600) && list.count < MESSAGES)
			operate(pair, IBV_WR_TAG_ADD, rng_below(&rng, TAGS));
		if (chance(300)) {
			list.handled = list.unexpected;
			operate(pair, IBV_WR_TAG_SYNC, 0);
		}
		exchange(pair, i);
	}
	pair_free(pair);
}

/* ---- seeds ---- */

static uint64_t first_seed = 1, last_seed = 1500;

static void each(void (*run)(void), uint64_t stream)
{
	for (seed = first_seed; seed <= last_seed; seed++) {
		rng_seed(&rng, seed, stream);
		run();
	}
}

static int tell_seed(void **state)
{
	if (seed <= last_seed)
		printf("seed %llu fails\n", (unsigned long long)seed);
	return 0;
}

static void xrc_messages_arrive_once_and_in_order(void **state)
{
	each(xrc, 1);
}

static void tagged_messages_find_their_buffers(void **state)
{
	each(tags, 2);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(xrc_messages_arrive_once_and_in_order, tell_seed),
	    cmocka_unit_test_teardown(tagged_messages_find_their_buffers, tell_seed),
	};

	if (argc == 3) {
		first_seed = strtoull(argv[1], NULL, 0);
		last_seed = strtoull(argv[2], NULL, 0);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
