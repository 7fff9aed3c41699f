/* SPDX-License-Identifier: BSD-2-Clause */
/* What most tests of the transport begin and end with: a pair with the options that are usual, and
 * a first message. */
#ifndef TRANSPORT_CASE_H
#define TRANSPORT_CASE_H

#include "transport_pair.h"

static struct pair_options options;

static inline int set_up(void **state)
{
	options = default_options;
	*state = pair_connected(&options);
	return 0;
}

static inline int tear_down(void **state)
{
	pair_free(*state);
	return 0;
}

/* One message and its ACK: then both know whether the other one is of our make. */
static inline void pair_meet(struct pair *pair)
{
	side_request(&pair->a, IBV_WR_RDMA_WRITE, 99, 0, 8);
	pair_run(pair);
	side_expect(&pair->a, 99, IBV_WC_SUCCESS);
	pair_expect_trace(pair, "A WRITE_ONLY 0 ack\n"
				"B ACK 0\n");
}

#endif
