/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues and the channels that wake a program when something is in one.
 *
 * To sleep without losing a wakeup: ibv_req_notify_cq, poll until empty, then ibv_get_cq_event,
 * ibv_ack_cq_events, ibv_req_notify_cq again, and poll again before the next sleep.
 */
#ifndef INFINIBAND_VERBS_CQ_H
#define INFINIBAND_VERBS_CQ_H

#include <infiniband/verbs/context.h>
#include <infiniband/verbs/wc.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_comp_channel {
	struct ibv_context *context;
	int fd; /* readable when there is an event; poll, epoll, O_NONBLOCK */
	int refcnt;
};

struct ibv_cq {
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	void *cq_context;
	uint32_t handle;
	int cqe; /* entries it really has */

	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed;
	uint32_t async_events_completed;
};

/*
 * Makes a completion channel: a descriptor that is readable while one of its CQs has an event. Any
 * number of CQs may share it.
 * Returns the channel, or NULL with errno set.
 * Errors: EMFILE: no descriptor is left; ENOMEM.
 * Man: ibv_create_comp_channel(3); 11.4.2.2.
 */
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context);

/*
 * Destroys a completion channel and closes its descriptor.
 * Errors: EBUSY: a CQ uses it.
 * Man: ibv_create_comp_channel(3).
 */
int ibv_destroy_comp_channel(struct ibv_comp_channel *channel);

/*
 * Creates a completion queue with room for exactly `cqe` completions. `channel` NULL: it raises no
 * events. cq_context comes back with the events; comp_vector, 0 to context->num_comp_vectors - 1,
 * picks an interrupt on hardware and nothing here. Give it room for all work requests that may
 * complete in it at once: one that finds it full is lost, the CQ is in error for good
 * (IBV_EVENT_CQ_ERR), and so is the QP.
 * Returns the CQ, or NULL with errno set.
 * Errors: EINVAL: cqe is below 1 or above max_cqe, there is no such vector, or the channel is of
 * another context; ENOMEM: max_cq, or memory.
 * Man: ibv_create_cq(3); C11-39.
 */
struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector);

/*
 * Makes a CQ larger or smaller, with what is in it.
 * Errors: EINVAL: cqe is below 1, above max_cqe, or below the number of completions in it; ENOMEM.
 * Threads: completions may come and be polled meanwhile.
 * Man: ibv_resize_cq(3).
 */
int ibv_resize_cq(struct ibv_cq *cq, int cqe);

/*
 * Destroys a CQ, and with it what was not polled. Waits until all events that ibv_get_cq_event()
 * and ibv_get_async_event() gave of it are acknowledged: for ever, if the caller is who should do
 * that.
 * Errors: EBUSY: a QP, SRQ or WQ completes in it.
 * Man: ibv_create_cq(3).
 */
int ibv_destroy_cq(struct ibv_cq *cq);

/*
 * Takes the next completion event of a channel, waiting for one unless the descriptor is
 * O_NONBLOCK. *cq is the CQ it is of, *cq_context the program's pointer. The CQ is disarmed by it:
 * call ibv_req_notify_cq() again, then poll. Each event has to be acknowledged before its CQ can be
 * destroyed.
 * Returns 0, or -1 with errno set.
 * Errors: EAGAIN: none, on an O_NONBLOCK descriptor; EINTR: a signal came while it waited.
 * Threads: several threads may wait on one channel: each event goes to one of them. A thread that
 * waits may be cancelled.
 * Man: ibv_get_cq_event(3).
 */
int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);

/*
 * Acknowledges `nevents` events of a CQ. It takes a lock, so a program that gets many does well to
 * acknowledge some hundreds at once; ibv_destroy_cq() waits for all.
 * Errors: None. More than were taken makes ibv_destroy_cq() wait for ever.
 * Man: ibv_get_cq_event(3).
 */
void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents);

/*
 * Takes up to num_entries completions out of a CQ, oldest first. Never waits; when the CQ is empty
 * it makes the adapter's progress in the caller's thread. After an error only wr_id, status, qp_num
 * and vendor_err mean anything; vendor_err is the reason's number, see verbatim(1).
 * Returns how many there were, 0 if none, or a negative errno value.
 * Errors: EOVERFLOW: as -EOVERFLOW, once the CQ has overrun and what it held is polled. How work
 * requests ended says the status of each completion, see ibv_wc_status_str().
 * Man: ibv_poll_cq(3).
 */
static inline int ibv_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	return cq->context->ops.poll_cq(cq, num_entries, wc);
}

/*
 * Arms a CQ for one event: at the next completion, or with solicited_only at the next that is an
 * error or whose sender set IBV_SEND_SOLICITED. What is in the CQ already raises none: poll once
 * more after this call, then wait. Arming for all and for solicited ones together is arming for
 * all.
 * Errors: None: it gives 0.
 * Man: ibv_req_notify_cq(3); 11.4.2.2.
 */
static inline int ibv_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return cq->context->ops.req_notify_cq(cq, solicited_only);
}

enum ibv_cq_attr_mask {
	IBV_CQ_ATTR_MODERATE = 1 << 0,
	IBV_CQ_ATTR_RESERVED = 1 << 1,
};

struct ibv_moderate_cq {
	uint16_t cq_count;
	uint16_t cq_period; /* microseconds */
};

struct ibv_modify_cq_attr {
	uint32_t attr_mask; /* enum ibv_cq_attr_mask */
	struct ibv_moderate_cq moderate;
};

/*
 * Sets a CQ's moderation: an event only after cq_count completions, or cq_period microseconds after
 * the first of them, whichever comes first; 0 turns either off. An error raises its event at once.
 * attr_mask is IBV_CQ_ATTR_MODERATE.
 * Errors: EINVAL: attr_mask is anything else.
 * Man: ibv_modify_cq(3).
 */
static inline int ibv_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(cq->context, modify_cq);

	return vctx ? vctx->modify_cq(cq, attr) : EOPNOTSUPP;
}

/*
 * The extended CQ, which is read in place: ibv_start_poll, then the ibv_wc_read_ calls and
 * ibv_next_poll as long as there is more, then ibv_end_poll. Between start and end the CQ belongs
 * to the caller; start, when it fails, needs no end.
 *
 * Returns other: the field. It is valid if wc_flags of ibv_create_cq_ex() has it, and not after an
 * error, except for qp_num and vendor_err.
 * Errors: None: there is a completion under the cursor.
 * Threads: the thread that called ibv_start_poll() alone, up to ibv_end_poll().
 */

/* Fields that completions shall have: an ibv_wc_read_ call outside of this choice is not valid. */
enum ibv_create_cq_wc_flags {
	IBV_WC_EX_WITH_BYTE_LEN = 1 << 0,
	IBV_WC_EX_WITH_IMM = 1 << 1,
	IBV_WC_EX_WITH_QP_NUM = 1 << 2,
	IBV_WC_EX_WITH_SRC_QP = 1 << 3,
	IBV_WC_EX_WITH_SLID = 1 << 4,
	IBV_WC_EX_WITH_SL = 1 << 5,
	IBV_WC_EX_WITH_DLID_PATH_BITS = 1 << 6,
	IBV_WC_EX_WITH_COMPLETION_TIMESTAMP = 1 << 7,
	IBV_WC_EX_WITH_CVLAN = 1 << 8,
	IBV_WC_EX_WITH_FLOW_TAG = 1 << 9,
	IBV_WC_EX_WITH_TM_INFO = 1 << 10,
	IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK = 1 << 11,
};

enum {
	IBV_WC_STANDARD_FLAGS = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM |
				IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP |
				IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL |
				IBV_WC_EX_WITH_DLID_PATH_BITS,
};

enum {
	IBV_CREATE_CQ_SUP_WC_FLAGS = (int)IBV_WC_STANDARD_FLAGS |
				     IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_CVLAN |
				     IBV_WC_EX_WITH_FLOW_TAG | IBV_WC_EX_WITH_TM_INFO |
				     IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
};

enum ibv_cq_init_attr_mask {
	IBV_CQ_INIT_ATTR_MASK_FLAGS = 1 << 0,
	IBV_CQ_INIT_ATTR_MASK_PD = 1 << 1,
};

enum ibv_create_cq_attr_flags {
	IBV_CREATE_CQ_ATTR_SINGLE_THREADED = 1 << 0, /* the program locks */
	IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN = 1 << 1,
};

struct ibv_cq_init_attr_ex {
	uint32_t cqe; /* at least */
	void *cq_context;
	struct ibv_comp_channel *channel; /* or NULL */
	uint32_t comp_vector;		  /* below context->num_comp_vectors */
	uint64_t wc_flags;		  /* enum ibv_create_cq_wc_flags */
	uint32_t comp_mask;		  /* enum ibv_cq_init_attr_mask: of the two below */
	uint32_t flags;			  /* enum ibv_create_cq_attr_flags */
	struct ibv_pd *parent_domain;
};

struct ibv_poll_cq_attr {
	uint32_t comp_mask; /* 0 */
};

/* Of a tag matching header. */
struct ibv_wc_tm_info {
	uint64_t tag;
	uint32_t priv;
};

struct ibv_cq_ex {
	/* As struct ibv_cq. */
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	void *cq_context;
	uint32_t handle;
	int cqe;

	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed;
	uint32_t async_events_completed;

	/* The completion under the cursor: the program reads status and wr_id directly. */
	uint32_t comp_mask;
	enum ibv_wc_status status;
	uint64_t wr_id;
	int (*start_poll)(struct ibv_cq_ex *current, struct ibv_poll_cq_attr *attr);
	int (*next_poll)(struct ibv_cq_ex *current);
	void (*end_poll)(struct ibv_cq_ex *current);
	enum ibv_wc_opcode (*read_opcode)(struct ibv_cq_ex *current);
	uint32_t (*read_vendor_err)(struct ibv_cq_ex *current);
	uint32_t (*read_byte_len)(struct ibv_cq_ex *current);
	__be32 (*read_imm_data)(struct ibv_cq_ex *current);
	uint32_t (*read_qp_num)(struct ibv_cq_ex *current);
	uint32_t (*read_src_qp)(struct ibv_cq_ex *current);
	unsigned int (*read_wc_flags)(struct ibv_cq_ex *current);
	uint32_t (*read_slid)(struct ibv_cq_ex *current);
	uint8_t (*read_sl)(struct ibv_cq_ex *current);
	uint8_t (*read_dlid_path_bits)(struct ibv_cq_ex *current);
	uint64_t (*read_completion_ts)(struct ibv_cq_ex *current);
	uint16_t (*read_cvlan)(struct ibv_cq_ex *current);
	uint32_t (*read_flow_tag)(struct ibv_cq_ex *current);
	void (*read_tm_info)(struct ibv_cq_ex *current, struct ibv_wc_tm_info *tm_info);
	uint64_t (*read_completion_wallclock_ns)(struct ibv_cq_ex *current);
};

/*
 * Gives the same CQ for the calls that take a struct ibv_cq.
 * Returns that, never NULL.
 * Errors: None.
 * Man: ibv_create_cq_ex(3).
 */
static inline struct ibv_cq *ibv_cq_ex_to_cq(struct ibv_cq_ex *cq)
{
	return (struct ibv_cq *)cq;
}

/*
 * Creates an extended CQ: as ibv_create_cq() does, with a choice of fields (wc_flags), of flags,
 * and with a parent domain whose allocators it uses. All fields of enum ibv_create_cq_wc_flags can
 * be had. SINGLE_THREADED leaves out the lock: then one thread at a time polls. With IGNORE_OVERRUN
 * the oldest completion makes room in a full CQ, and nothing is told.
 * Returns the CQ, or NULL with errno set.
 * Errors: EINVAL: what ibv_create_cq() refuses, or a parent_domain that is NULL or of another
 * context; EOPNOTSUPP: a bit of comp_mask, flags or wc_flags that is unknown; ENOMEM.
 * Threads: any thread, at any time.
 * Man: ibv_create_cq_ex(3).
 */
static inline struct ibv_cq_ex *ibv_create_cq_ex(struct ibv_context *context,
						 struct ibv_cq_init_attr_ex *cq_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, create_cq_ex);

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->create_cq_ex(context, cq_attr);
}

/*
 * Begins to read a CQ and puts the cursor on the oldest completion: status and wr_id are then
 * members of the CQ, the rest is read by ibv_wc_read_ calls. `attr` is NULL or has comp_mask 0. End
 * it by ibv_end_poll() if, and only if, it gives 0.
 * Errors: ENOENT: the CQ is empty; EOVERFLOW: it has overrun, and is empty; EINVAL: comp_mask is
 * not 0.
 * Threads: any thread; another one that starts meanwhile waits for the first one's end.
 * Man: ibv_create_cq_ex(3).
 */
static inline int ibv_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	return cq->start_poll(cq, attr);
}

/*
 * Moves the cursor to the next completion. After an error ibv_end_poll() is due all the same.
 * Errors: ENOENT: there is no more; EOVERFLOW: likewise, and the CQ has overrun.
 * Man: ibv_create_cq_ex(3).
 */
static inline int ibv_next_poll(struct ibv_cq_ex *cq)
{
	return cq->next_poll(cq);
}

/*
 * Ends what ibv_start_poll() began: the completions that the cursor was on are out of the CQ, and
 * other threads may poll.
 * Man: ibv_create_cq_ex(3).
 */
static inline void ibv_end_poll(struct ibv_cq_ex *cq)
{
	cq->end_poll(cq);
}

/*
 * Reads what was done: the opcode, as in struct ibv_wc.
 * Man: ibv_create_cq_ex(3).
 */
static inline enum ibv_wc_opcode ibv_wc_read_opcode(struct ibv_cq_ex *cq)
{
	return cq->read_opcode(cq);
}

/*
 * Reads the reason's number of a completion in error; `verbatim explain` spells it out. 0 after
 * success.
 * Man: ibv_create_cq_ex(3).
 */
static inline uint32_t ibv_wc_read_vendor_err(struct ibv_cq_ex *cq)
{
	return cq->read_vendor_err(cq);
}

/*
 * Reads how many bytes were received, or moved by a READ or atomic. For UD the 40 of the GRH are
 * among them.
 * Man: ibv_create_cq_ex(3).
 */
static inline uint32_t ibv_wc_read_byte_len(struct ibv_cq_ex *cq)
{
	return cq->read_byte_len(cq);
}

/*
 * Reads the immediate data, in network byte order, if the flags have IBV_WC_WITH_IMM.
 * Man: ibv_create_cq_ex(3).
 */
static inline __be32 ibv_wc_read_imm_data(struct ibv_cq_ex *cq)
{
	return cq->read_imm_data(cq);
}

/*
 * Reads the key that the sender invalidated, in host byte order, if the flags have IBV_WC_WITH_INV.
 * It has its place where the immediate data would be.
 * Man: ibv_create_cq_ex(3).
 */
static inline uint32_t ibv_wc_read_invalidated_rkey(struct ibv_cq_ex *cq)
{
	return (uint32_t)cq->read_imm_data(cq);
}

/*
 * Reads the number of the local QP.
 * Man: ibv_create_cq_ex(3).
 */
static inline uint32_t ibv_wc_read_qp_num(struct ibv_cq_ex *cq)
{
	return cq->read_qp_num(cq);
}

/*
 * Reads the number of the QP that sent a datagram.
 * Man: ibv_create_cq_ex(3).
 */
static inline uint32_t ibv_wc_read_src_qp(struct ibv_cq_ex *cq)
{
	return cq->read_src_qp(cq);
}

/*
 * Reads the completion's flags: enum ibv_wc_flags.
 * Man: ibv_create_cq_ex(3).
 */
static inline unsigned int ibv_wc_read_wc_flags(struct ibv_cq_ex *cq)
{
	return cq->read_wc_flags(cq);
}

/*
 * Reads a datagram's source LID: 0 with RoCE.
 * Man: ibv_create_cq_ex(3).
 */
static inline uint32_t ibv_wc_read_slid(struct ibv_cq_ex *cq)
{
	return cq->read_slid(cq);
}

/*
 * Reads a datagram's service level, 0 to 15. With RoCE this place says which IP version it came
 * over, as other adapters have it: 10 is IPv4, 9 IPv6.
 * Man: ibv_create_cq_ex(3).
 */
static inline uint8_t ibv_wc_read_sl(struct ibv_cq_ex *cq)
{
	return cq->read_sl(cq);
}

/*
 * Reads the low bits of the LID that a datagram came to: 0 with RoCE.
 * Man: ibv_create_cq_ex(3).
 */
static inline uint8_t ibv_wc_read_dlid_path_bits(struct ibv_cq_ex *cq)
{
	return cq->read_dlid_path_bits(cq);
}

/*
 * Reads when the completion came about, by the device's clock: cycles of hca_core_clock, see
 * ibv_query_device_ex(). Here they are nanoseconds of CLOCK_MONOTONIC.
 * Man: ibv_create_cq_ex(3).
 */
static inline uint64_t ibv_wc_read_completion_ts(struct ibv_cq_ex *cq)
{
	return cq->read_completion_ts(cq);
}

/*
 * Reads when the completion came about: nanoseconds since 1970, by CLOCK_REALTIME as it is set now.
 * Man: ibv_create_cq_ex(3).
 */
static inline uint64_t ibv_wc_read_completion_wallclock_ns(struct ibv_cq_ex *cq)
{
	return cq->read_completion_wallclock_ns(cq);
}

/*
 * Reads the VLAN tag that was taken off a raw packet, or 0; see IBV_QP_CREATE_CVLAN_STRIPPING.
 * Man: ibv_create_cq_ex(3).
 */
static inline uint16_t ibv_wc_read_cvlan(struct ibv_cq_ex *cq)
{
	return cq->read_cvlan(cq);
}

/*
 * Reads the tag of the flow that brought the packet, see IBV_FLOW_SPEC_ACTION_TAG; 0 without one.
 * Man: ibv_create_cq_ex(3).
 */
static inline uint32_t ibv_wc_read_flow_tag(struct ibv_cq_ex *cq)
{
	return cq->read_flow_tag(cq);
}

/*
 * Reads tag and application context of the tag matching header that the message bore.
 * Man: ibv_create_cq_ex(3).
 */
static inline void ibv_wc_read_tm_info(struct ibv_cq_ex *cq, struct ibv_wc_tm_info *tm_info)
{
	cq->read_tm_info(cq, tm_info);
}

#ifdef __cplusplus
}
#endif

#endif
