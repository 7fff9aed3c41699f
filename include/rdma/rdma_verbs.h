/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verbs in short, for QPs made by rdma_create_qp(): work requests with one buffer or a list,
 * completions with waiting. What the program gives as `context` is the completion's wr_id.
 *
 * Errors: EINVAL: the QP's state takes no work requests, or too many buffers; ENOMEM: the queue is
 * full; and others of ibv_post_send(), ibv_post_recv() and ibv_post_srq_recv().
 * Threads: any thread may call it at any time, as the verb that it is; not while the id's QP is
 * made or destroyed.
 */
#ifndef RDMA_VERBS_H
#define RDMA_VERBS_H

#include <assert.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <errno.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Turns what a verb returned into what this library returns.
 * Returns 0, or -1 with errno set to `ret`.
 * Errors: None of its own.
 * Threads: any thread, at any time.
 */
static inline int rdma_seterrno(int ret)
{
	if (ret == 0)
		return 0;
	errno = ret;
	return -1;
}

/*
 * Makes an SRQ for an id that is bound to a device; the id's QP receives from it. `pd` NULL is the
 * id's, or a default one of the device. An id for XRC_RECV gets an XRC SRQ.
 * Errors: EINVAL: the id has no device, or what ibv_create_srq() refuses; and others of
 * ibv_create_srq_ex().
 * Man: rdma_create_srq(3).
 */
int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr);

/*
 * Makes an SRQ for an id, with all that ibv_create_srq_ex() knows. The XRC domain and CQ of an XRC
 * one are made where they are missing, for rdma_get_recv_comp().
 * Errors: EINVAL: the id has no device, or what ibv_create_srq_ex() refuses; and others of that.
 * Man: rdma_create_srq(3).
 */
int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr);

/*
 * Destroys the id's SRQ, and the CQ that was made with it. The QP has to go first.
 * Errors: None that it could tell.
 * Man: rdma_destroy_srq(3).
 */
void rdma_destroy_srq(struct rdma_cm_id *id);

/* ---- memory ---- */

/*
 * Registers memory for messages: to send from and receive into.
 * Returns the region, or NULL with errno set.
 * Errors: EFAULT: a part of it is not mapped; and others of ibv_reg_mr().
 * Man: rdma_reg_msgs(3).
 */
static inline struct ibv_mr *rdma_reg_msgs(struct rdma_cm_id *id, void *addr, size_t length)
{
	return ibv_reg_mr(id->pd, addr, length, IBV_ACCESS_LOCAL_WRITE);
}

/*
 * Registers memory for the peer to read by RDMA; tell it address and mr->rkey.
 * Returns the region, or NULL with errno set.
 * Errors: EFAULT: a part of it is not mapped; and others of ibv_reg_mr().
 * Man: rdma_reg_read(3).
 */
static inline struct ibv_mr *rdma_reg_read(struct rdma_cm_id *id, void *addr, size_t length)
{
	return ibv_reg_mr(id->pd, addr, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
}

/*
 * Registers memory for the peer to write by RDMA; tell it address and mr->rkey.
 * Returns the region, or NULL with errno set.
 * Errors: EFAULT: a part of it is not mapped; and others of ibv_reg_mr().
 * Man: rdma_reg_write(3).
 */
static inline struct ibv_mr *rdma_reg_write(struct rdma_cm_id *id, void *addr, size_t length)
{
	return ibv_reg_mr(id->pd, addr, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

/*
 * Ends a region: ibv_dereg_mr() with errno.
 * Errors: EBUSY: memory windows are bound to it.
 * Man: rdma_dereg_mr(3).
 */
static inline int rdma_dereg_mr(struct ibv_mr *mr)
{
	return rdma_seterrno(ibv_dereg_mr(mr));
}

/* ---- work requests with a list of buffers ---- */

/*
 * Posts a receive into a list of buffers: to the id's SRQ if it has one, else to its QP.
 * Man: rdma_post_recvv(3).
 */
static inline int rdma_post_recvv(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl,
				  int nsge)
{
	struct ibv_recv_wr wr, *bad;

	memset(&wr, 0, sizeof(wr));
	wr.wr_id = (uintptr_t)context;
	wr.sg_list = sgl;
	wr.num_sge = nsge;
	return rdma_seterrno(id->srq ? ibv_post_srq_recv(id->srq, &wr, &bad)
				     : ibv_post_recv(id->qp, &wr, &bad));
}

/*
 * Posts a send of a list of buffers. flags: enum ibv_send_flags.
 * Man: rdma_post_sendv(3).
 */
static inline int rdma_post_sendv(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl,
				  int nsge, int flags)
{
	struct ibv_send_wr wr, *bad;

	memset(&wr, 0, sizeof(wr));
	wr.wr_id = (uintptr_t)context;
	wr.sg_list = sgl;
	wr.num_sge = nsge;
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = (unsigned int)flags;
	return rdma_seterrno(ibv_post_send(id->qp, &wr, &bad));
}

/*
 * Posts an RDMA READ from the peer's remote_addr into a list of buffers. flags: enum
 * ibv_send_flags.
 * Man: rdma_post_readv(3).
 */
static inline int rdma_post_readv(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl,
				  int nsge, int flags, uint64_t remote_addr, uint32_t rkey)
{
	struct ibv_send_wr wr, *bad;

	memset(&wr, 0, sizeof(wr));
	wr.wr_id = (uintptr_t)context;
	wr.sg_list = sgl;
	wr.num_sge = nsge;
	wr.opcode = IBV_WR_RDMA_READ;
	wr.send_flags = (unsigned int)flags;
	wr.wr.rdma.remote_addr = remote_addr;
	wr.wr.rdma.rkey = rkey;
	return rdma_seterrno(ibv_post_send(id->qp, &wr, &bad));
}

/*
 * Posts an RDMA WRITE of a list of buffers to the peer's remote_addr. flags: enum ibv_send_flags.
 * Man: rdma_post_writev(3).
 */
static inline int rdma_post_writev(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl,
				   int nsge, int flags, uint64_t remote_addr, uint32_t rkey)
{
	struct ibv_send_wr wr, *bad;

	memset(&wr, 0, sizeof(wr));
	wr.wr_id = (uintptr_t)context;
	wr.sg_list = sgl;
	wr.num_sge = nsge;
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.send_flags = (unsigned int)flags;
	wr.wr.rdma.remote_addr = remote_addr;
	wr.wr.rdma.rkey = rkey;
	return rdma_seterrno(ibv_post_send(id->qp, &wr, &bad));
}

/* ---- the same with one buffer ---- */

/*
 * Posts a receive into one buffer. It has to lie within `mr`: an assertion, if those are on.
 * Man: rdma_post_recv(3).
 */
static inline int rdma_post_recv(struct rdma_cm_id *id, void *context, void *addr, size_t length,
				 struct ibv_mr *mr)
{
	struct ibv_sge sge;

	assert((char *)addr >= (char *)mr->addr &&
	       (char *)addr + length <= (char *)mr->addr + mr->length);
	sge.addr = (uintptr_t)addr;
	sge.length = (uint32_t)length;
	sge.lkey = mr->lkey;
	return rdma_post_recvv(id, context, &sge, 1);
}

/*
 * Posts a send of one buffer. `mr` may be NULL where flags have IBV_SEND_INLINE.
 * Man: rdma_post_send(3).
 */
static inline int rdma_post_send(struct rdma_cm_id *id, void *context, void *addr, size_t length,
				 struct ibv_mr *mr, int flags)
{
	struct ibv_sge sge;

	sge.addr = (uintptr_t)addr;
	sge.length = (uint32_t)length;
	sge.lkey = mr ? mr->lkey : 0;
	return rdma_post_sendv(id, context, &sge, 1, flags);
}

/*
 * Posts an RDMA READ from the peer's remote_addr into one buffer, registered as `mr`.
 * Man: rdma_post_read(3).
 */
static inline int rdma_post_read(struct rdma_cm_id *id, void *context, void *addr, size_t length,
				 struct ibv_mr *mr, int flags, uint64_t remote_addr, uint32_t rkey)
{
	struct ibv_sge sge;

	sge.addr = (uintptr_t)addr;
	sge.length = (uint32_t)length;
	sge.lkey = mr->lkey;
	return rdma_post_readv(id, context, &sge, 1, flags, remote_addr, rkey);
}

/*
 * Posts an RDMA WRITE of one buffer to the peer's remote_addr. `mr` may be NULL where flags have
 * IBV_SEND_INLINE.
 * Man: rdma_post_write(3).
 */
static inline int rdma_post_write(struct rdma_cm_id *id, void *context, void *addr, size_t length,
				  struct ibv_mr *mr, int flags, uint64_t remote_addr, uint32_t rkey)
{
	struct ibv_sge sge;

	sge.addr = (uintptr_t)addr;
	sge.length = (uint32_t)length;
	sge.lkey = mr ? mr->lkey : 0;
	return rdma_post_writev(id, context, &sge, 1, flags, remote_addr, rkey);
}

/*
 * Posts a datagram: one buffer, to the QP remote_qpn behind the address `ah`, with the Q_Key
 * RDMA_UDP_QKEY. `mr` may be NULL where flags have IBV_SEND_INLINE.
 * Man: rdma_post_ud_send(3).
 */
static inline int rdma_post_ud_send(struct rdma_cm_id *id, void *context, void *addr, size_t length,
				    struct ibv_mr *mr, int flags, struct ibv_ah *ah,
				    uint32_t remote_qpn)
{
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge;

	sge.addr = (uintptr_t)addr;
	sge.length = (uint32_t)length;
	sge.lkey = mr ? mr->lkey : 0;
	memset(&wr, 0, sizeof(wr));
	wr.wr_id = (uintptr_t)context;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = (unsigned int)flags;
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = remote_qpn;
	wr.wr.ud.remote_qkey = RDMA_UDP_QKEY;
	return rdma_seterrno(ibv_post_send(id->qp, &wr, &bad));
}

/* ---- completions ---- */

/*
 * Takes the next completion of the send queue, waiting for it on the channel that rdma_create_qp()
 * made.
 * Returns 1, or -1 with errno set. How the work request ended is wc->status.
 * Errors: EINTR: a signal came while it waited; EAGAIN: the channel's descriptor is O_NONBLOCK and
 * there is none; EOVERFLOW: the queue of completions has overrun.
 * Man: rdma_get_send_comp(3).
 */
static inline int rdma_get_send_comp(struct rdma_cm_id *id, struct ibv_wc *wc)
{
	struct ibv_cq *cq;
	void *context;
	int ret;

	for (;;) {
		ret = ibv_poll_cq(id->send_cq, 1, wc);
		if (ret)
			break;
		ret = ibv_req_notify_cq(id->send_cq, 0);
		if (ret)
			return rdma_seterrno(ret);
		/* what came before the arming raises no event */
		ret = ibv_poll_cq(id->send_cq, 1, wc);
		if (ret)
			break;
		ret = ibv_get_cq_event(id->send_cq_channel, &cq, &context);
		if (ret)
			return ret;
		assert(cq == id->send_cq && context == id);
		ibv_ack_cq_events(cq, 1);
	}
	return ret < 0 ? rdma_seterrno(-ret) : ret; /* EOVERFLOW: the CQ is in error */
}

/*
 * Takes the next completion of the receive queue, waiting for it on the channel that
 * rdma_create_qp() or rdma_create_srq() made.
 * Returns 1, or -1 with errno set. How the work request ended is wc->status.
 * Errors: EINTR: a signal came while it waited; EAGAIN: the channel's descriptor is O_NONBLOCK and
 * there is none; EOVERFLOW: the queue of completions has overrun.
 * Man: rdma_get_recv_comp(3).
 */
static inline int rdma_get_recv_comp(struct rdma_cm_id *id, struct ibv_wc *wc)
{
	struct ibv_cq *cq;
	void *context;
	int ret;

	for (;;) {
		ret = ibv_poll_cq(id->recv_cq, 1, wc);
		if (ret)
			break;
		ret = ibv_req_notify_cq(id->recv_cq, 0);
		if (ret)
			return rdma_seterrno(ret);
		ret = ibv_poll_cq(id->recv_cq, 1, wc);
		if (ret)
			break;
		ret = ibv_get_cq_event(id->recv_cq_channel, &cq, &context);
		if (ret)
			return ret;
		assert(cq == id->recv_cq && context == id);
		ibv_ack_cq_events(cq, 1);
	}
	return ret < 0 ? rdma_seterrno(-ret) : ret; /* EOVERFLOW: the CQ is in error */
}

#ifdef __cplusplus
}
#endif

#endif
