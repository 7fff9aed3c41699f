/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What Verbatim has beyond <infiniband/verbs.h>: verbs that the specification has and the verbs of
 * Linux never had, and what goes with ours alone. Programs that use it need Verbatim's libibverbs;
 * those that do not find nothing changed.
 */
#ifndef INFINIBAND_VERBATIM_H
#define INFINIBAND_VERBATIM_H

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What an allocator of a parent domain is asked for, see ibv_alloc_parent_domain(3). */
enum verbatim_resource_type {
	VERBATIM_RESOURCE_SEND_QUEUE = 1,
	VERBATIM_RESOURCE_RECV_QUEUE,
	VERBATIM_RESOURCE_SRQ,
	VERBATIM_RESOURCE_CQ,
};

#ifdef __cplusplus
}
#endif

#endif
