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

/*
 * Asks for an address handle's attributes (Query Address Handle).
 * Errors: None: it gives 0.
 * Man: ibv_create_ah(3); 11.2.2.3.
 */
int verbatim_query_ah(struct ibv_ah *ah, struct ibv_ah_attr *attr);

/*
 * Changes where an address handle leads (Modify Address Handle), for what is posted from then on;
 * what is posted goes where it was meant to.
 * Errors: EINVAL: what ibv_create_ah() refuses; the handle is then as it was.
 * Man: ibv_create_ah(3); 11.2.2.2.
 */
int verbatim_modify_ah(struct ibv_ah *ah, struct ibv_ah_attr *attr);

/* Query Completion Queue (11.2.8.2), and what else may be of interest. */
struct verbatim_cq_attr {
	uint32_t entries;     /* room */
	uint32_t completions; /* of these taken up */
	int armed;	      /* 0 no, 1 for solicited completions, 2 for the next */
	int is_overrun;	      /* it has lost a completion, and is in error */
	uint16_t moderate_count, moderate_us;
	uint32_t users; /* queues that complete here */
};

/*
 * Asks for a CQ's size (Query Completion Queue), and for what else may be of interest: how many
 * completions wait, whether it is armed or has overrun, and its moderation.
 * Errors: None: it gives 0.
 * Man: ibv_create_cq(3); 11.2.8.2.
 */
int verbatim_query_cq(struct ibv_cq *cq, struct verbatim_cq_attr *attr);

/* Query Memory Region, of the memory verbs in 11.2. */
struct verbatim_mr_attr {
	struct ibv_pd *pd;
	uint64_t iova;	 /* what work requests and peers call its first byte */
	uint64_t length; /* bytes */
	unsigned int access;
	uint32_t lkey, rkey;
	uint32_t windows; /* bound to it */
	int is_ended;	  /* deregistered by another handle of it, see ibv_import_mr() */
};

/*
 * Asks what a region is (Query Memory Region): its PD, range, access and keys, the windows bound to
 * it, and whether it has ended by another handle.
 * Errors: None: it gives 0.
 * Man: ibv_reg_mr(3).
 */
int verbatim_query_mr(struct ibv_mr *mr, struct verbatim_mr_attr *attr);

/* Query Memory Window: what is bound now, whatever has been posted. */
struct verbatim_mw_attr {
	struct ibv_pd *pd;
	enum ibv_mw_type type;
	int is_bound;
	/* all 0 unless it is bound */
	uint32_t rkey;
	uint32_t lkey;	 /* of the region */
	uint32_t qp_num; /* of the QP that bound it, which alone it serves if it is of type 2 */
	uint64_t addr;	 /* as peers call its first byte */
	uint64_t length;
	unsigned int access;
};

/*
 * Asks what a window is bound to now (Query Memory Window), whatever has been posted meanwhile.
 * Errors: None: it gives 0.
 * Man: ibv_alloc_mw(3).
 */
int verbatim_query_mw(struct ibv_mw *mw, struct verbatim_mw_attr *attr);

/*
 * Bits of ibv_device_attr_ex.device_cap_flags_ex that the kernel has (IB_UVERBS_DEVICE_...) and
 * rdma-core has no names for: FLUSH to processors and to what persists, ATOMIC WRITE.
 */
#define VERBATIM_DEVICE_FLUSH_GLOBAL	 (1ULL << 38)
#define VERBATIM_DEVICE_FLUSH_PERSISTENT (1ULL << 39)
#define VERBATIM_DEVICE_ATOMIC_WRITE	 (1ULL << 40)

/*
 * Registers another region on the memory of `mr` (Register Shared Memory Region), with its own PD,
 * address, access and keys. Either may be deregistered first, and both have to be before the memory
 * goes.
 * Returns the region, or NULL with errno set; ibv_dereg_mr() ends it.
 * Errors: EINVAL: pd is of another context, mr is a null region or has ended, or the access is
 * refused as ibv_reg_mr() does; ENOMEM: max_mr, or memory.
 * Man: ibv_reg_mr(3).
 */
struct ibv_mr *verbatim_reg_shared_mr(struct ibv_mr *mr, struct ibv_pd *pd, uint64_t iova,
				      unsigned int access);

/*
 * Sets the port's P_Key table, for all of this process who have the device open: `count` keys (1 to
 * 64, host byte order) from index 0 on, the rest empty. IBV_EVENT_PKEY_CHANGE follows if that
 * changes it. QPs keep the key that they have until their pkey_index is set again. Where a process
 * shall begin with others than 0xffff: VERBATIM_PKEYS=0xffff,0x8001 in its environment.
 * Errors: EINVAL: no such port, too many keys, none, or one whose low 15 bits are zero.
 * Man: ibv_query_pkey(3).
 */
int verbatim_set_pkeys(struct ibv_context *context, uint8_t port_num, const uint16_t *pkeys,
		       int count);

/*
 * Raises an asynchronous event as if it had happened; nothing else happens. For programs that want
 * to try what they do about events that a healthy network never brings.
 * Errors: EINVAL: no such type, or the element (object or port) is not of this context.
 * Man: ibv_get_async_event(3).
 */
int verbatim_raise_event(struct ibv_context *context, const struct ibv_async_event *event);

#ifdef __cplusplus
}
#endif

#endif
