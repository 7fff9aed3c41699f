/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations as work requests: one range of local memory, or none.
 */
#include <arpa/inet.h>

#include "rpma/face.h"

unsigned int post_send_flags(int flags)
{
	return flags & RPMA_F_COMPLETION_ALWAYS & ~RPMA_F_COMPLETION_ON_ERROR ? IBV_SEND_SIGNALED
									      : 0;
}

static struct ibv_sge sge_of(const struct rpma_mr_local *mr, size_t offset, size_t length)
{
	return (struct ibv_sge){.addr = (uintptr_t)mr->mr->addr + offset,
				.length = (uint32_t)length,
				.lkey = mr->mr->lkey};
}

static int refuse_post(const char *what, int error)
{
	return REFUSE_ERRNO(error, "%s", what);
}

int post_send(struct ibv_qp *qp, const struct post *post)
{
	struct ibv_send_wr wr = {.wr_id = (uintptr_t)post->op_context,
				 .opcode = post->opcode,
				 .send_flags = post_send_flags(post->flags),
				 .imm_data = htonl(post->imm)};
	struct ibv_send_wr *bad;
	struct ibv_sge sge;
	int error;

	if (post->length > UINT32_MAX)
		return REFUSE(RPMA_LENGTH, "%zu bytes", post->length);
	if (post->local) {
		sge = sge_of(post->local, post->local_offset, post->length);
		wr.sg_list = &sge;
		wr.num_sge = 1;
	}
	if (post->remote) {
		wr.wr.rdma.remote_addr = post->remote->address + post->remote_offset;
		wr.wr.rdma.rkey = post->remote->rkey;
	}
	error = FAULT_ERRNO(ibv_post_send(qp, &wr, &bad));
	return error ? refuse_post("ibv_post_send()", error) : 0;
}

int post_recv(struct ibv_qp *qp, struct ibv_srq *srq, const struct rpma_mr_local *dst,
	      size_t offset, size_t length, const void *op_context)
{
	struct ibv_recv_wr wr = {.wr_id = (uintptr_t)op_context}, *bad;
	struct ibv_sge sge;
	int error;

	if (!dst && (offset || length))
		return REFUSE(RPMA_NULL, "%zu bytes, and no region", length);
	if (length > UINT32_MAX)
		return REFUSE(RPMA_LENGTH, "%zu bytes", length);
	if (dst) {
		sge = sge_of(dst, offset, length);
		wr.sg_list = &sge;
		wr.num_sge = 1;
	}
	error = FAULT_ERRNO(srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad));
	return error ? refuse_post(srq ? "ibv_post_srq_recv()" : "ibv_post_recv()", error) : 0;
}

int post_native_flush(struct ibv_qp *qp, const struct rpma_mr_remote *dst, size_t offset,
		      size_t length, enum rpma_flush_type type, int flags, const void *op_context)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(qp);
	/* no range reaches further than 32 bits */
	uint8_t level = length > UINT32_MAX ? IBV_FLUSH_MR : IBV_FLUSH_RANGE;
	uint8_t kind = type == RPMA_FLUSH_TYPE_PERSISTENT ? IBV_FLUSH_PERSISTENT : IBV_FLUSH_GLOBAL;
	int error;

	if (fault_is_due())
		return refuse_post("ibv_wr_complete()", EIO);
	ibv_wr_start(qpx);
	qpx->wr_id = (uintptr_t)op_context;
	qpx->wr_flags = post_send_flags(flags);
	ibv_wr_flush(qpx, dst->rkey, dst->address + offset, level == IBV_FLUSH_MR ? 0 : length,
		     kind, level);
	error = ibv_wr_complete(qpx);
	return error ? refuse_post("ibv_wr_flush()", error) : 0;
}

/*
 * Without the native operation: 8 aligned bytes are one packet, and stored whole by every adapter
 * that matters. It waits for reads before it, which may be flushes.
 */
static int post_inline_write(struct ibv_qp *qp, const struct rpma_mr_remote *dst, size_t offset,
			     const char src[8], int flags, const void *op_context)
{
	struct ibv_sge sge = {.addr = (uintptr_t)src, .length = RPMA_ATOMIC_WRITE_ALIGNMENT};
	struct ibv_send_wr wr = {
	    .wr_id = (uintptr_t)op_context,
	    .sg_list = &sge,
	    .num_sge = 1,
	    .opcode = IBV_WR_RDMA_WRITE,
	    .send_flags = post_send_flags(flags) | IBV_SEND_INLINE | IBV_SEND_FENCE,
	    .wr.rdma.remote_addr = dst->address + offset,
	    .wr.rdma.rkey = dst->rkey,
	};
	struct ibv_send_wr *bad;
	int error = FAULT_ERRNO(ibv_post_send(qp, &wr, &bad));

	return error ? refuse_post("ibv_post_send()", error) : 0;
}

int post_atomic_write(const struct queues *queues, const struct rpma_mr_remote *dst, size_t offset,
		      const char src[8], int flags, const void *op_context)
{
	struct ibv_qp *qp = queues->id->qp;
	struct ibv_qp_ex *qpx;
	int error;

	if (!queues->has_atomic_write)
		return post_inline_write(qp, dst, offset, src, flags, op_context);
	if (fault_is_due())
		return refuse_post("ibv_wr_complete()", EIO);
	qpx = ibv_qp_to_qp_ex(qp);
	ibv_wr_start(qpx);
	qpx->wr_id = (uintptr_t)op_context;
	/* behind reads too, as the other kind is */
	qpx->wr_flags = post_send_flags(flags) | IBV_SEND_FENCE;
	ibv_wr_atomic_write(qpx, dst->rkey, dst->address + offset, src);
	error = ibv_wr_complete(qpx);
	return error ? refuse_post("ibv_wr_atomic_write()", error) : 0;
}
