/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters of a flow's packets and bytes. Man: ibv_create_counters(3).
 */
#ifndef INFINIBAND_VERBS_COUNTERS_H
#define INFINIBAND_VERBS_COUNTERS_H

#include <infiniband/verbs/context.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_counters_init_attr {
	uint32_t comp_mask; /* 0 */
};

struct ibv_counters {
	struct ibv_context *context;
};

enum ibv_counter_description {
	IBV_COUNTER_PACKETS,
	IBV_COUNTER_BYTES,
};

struct ibv_counter_attach_attr {
	enum ibv_counter_description counter_desc;
	uint32_t index;	    /* where ibv_read_counters puts it */
	uint32_t comp_mask; /* 0 */
};

enum ibv_read_counters_flags {
	IBV_READ_COUNTERS_ATTR_PREFER_CACHED = 1 << 0,
};

/*
 * Makes a set of up to 64 counters, of packets and bytes, for flows. What each index counts says
 * ibv_attach_counters_point_flow().
 * Returns the counters, or NULL with errno set.
 * Errors: EINVAL: comp_mask is not 0; ENOMEM.
 * Man: ibv_create_counters(3).
 */
static inline struct ibv_counters *ibv_create_counters(struct ibv_context *context,
						       struct ibv_counters_init_attr *init_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, create_counters);

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->create_counters(context, init_attr);
}

/*
 * Destroys a set of counters.
 * Errors: EBUSY: a flow counts there; destroy that first.
 * Man: ibv_create_counters(3).
 */
static inline int ibv_destroy_counters(struct ibv_counters *counters)
{
	struct verbs_context *vctx = verbs_get_ctx_op(counters->context, destroy_counters);

	return vctx ? vctx->destroy_counters(counters) : EOPNOTSUPP;
}

/*
 * Says what the counter at an index shall count: packets or bytes. With `flow` NULL it is for flows
 * that are created later with IBV_FLOW_SPEC_ACTION_COUNT; else this flow counts in the set from now
 * on.
 * Errors: EINVAL: comp_mask is not 0, counter_desc unknown, or index above 63; EBUSY: the flow
 * counts in another set.
 * Man: ibv_create_counters(3).
 */
static inline int ibv_attach_counters_point_flow(struct ibv_counters *counters,
						 struct ibv_counter_attach_attr *attr,
						 struct ibv_flow *flow)
{
	struct verbs_context *vctx =
	    verbs_get_ctx_op(counters->context, attach_counters_point_flow);

	return vctx ? vctx->attach_counters_point_flow(counters, attr, flow) : EOPNOTSUPP;
}

/*
 * Reads the first `ncounters` counters of a set, at most 64, into counters_value. Those that count
 * nothing give 0. With IBV_READ_COUNTERS_ATTR_PREFER_CACHED or without, the values are those of
 * now.
 * Errors: EINVAL: more than 64, or a flag that is unknown.
 * Man: ibv_create_counters(3).
 */
static inline int ibv_read_counters(struct ibv_counters *counters, uint64_t *counters_value,
				    uint32_t ncounters, uint32_t flags)
{
	struct verbs_context *vctx = verbs_get_ctx_op(counters->context, read_counters);

	return vctx ? vctx->read_counters(counters, counters_value, ncounters, flags) : EOPNOTSUPP;
}

#ifdef __cplusplus
}
#endif

#endif
