/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two QPs (transport_pair.h) that may use the express path, and have met before. A sends 64 bytes
 * to B where a test does not say what else.
 */
#ifndef EXPRESS_PAIR_H
#define EXPRESS_PAIR_H

#include "transport/requester.h"
#include "transport/responder.h"
#include "transport_pair.h"

enum { OFFSET = 4096, BYTES = 64 };

static inline const struct pair_options *express_options(void)
{
	static struct pair_options options;

	options = default_options;
	options.has_express = true;
	return &options;
}

/* Something has been exchanged before: the first packet is an event, and no glance takes it. */
static inline struct pair *acquainted(const struct pair_options *options)
{
	struct pair *pair = pair_connected(options);

	pair->a.qp->has_communicated = pair->b.qp->has_communicated = true;
	return pair;
}

static inline int set_up(void **state)
{
	*state = acquainted(express_options());
	return 0;
}

static inline int tear_down(void **state)
{
	pair_free(*state);
	return 0;
}

static inline void receive(struct pair *pair, uint64_t wr_id)
{
	side_post_recv(&pair->b, wr_id, OFFSET + wr_id * 512, 512);
}

static inline void send(struct pair *pair, uint64_t wr_id)
{
	fill(pair->a.memory + wr_id * 512, BYTES, (unsigned int)wr_id + 1);
	side_request(&pair->a, IBV_WR_SEND, wr_id, wr_id * 512, BYTES);
}

static inline void expect_message(struct pair *pair, uint64_t recv_id, uint64_t send_id)
{
	struct ibv_wc wc = side_expect(&pair->b, recv_id, IBV_WC_SUCCESS);

	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, BYTES);
	assert_int_equal(wc.qp_num, pair->b.qp->number);
	assert_int_equal(wc.src_qp, pair->a.qp->number);
	assert_memory_equal(pair->b.memory + OFFSET + recv_id * 512, pair->a.memory + send_id * 512,
			    BYTES);
}

static inline void expect_coherent(const struct pair *pair)
{
	expect_settled(&pair->a, &pair->b);
}

#define express_test(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

#endif
