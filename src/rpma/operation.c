/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The operations of a connection: their arguments, then post.c.
 */
#include "rpma/face.h"

/* Either both regions are there, or there is nothing to move. 0 or a code. */
static int check_ranges(const struct rpma_conn *conn, const struct post *post)
{
	if (!conn)
		return REFUSE_NULL();
	if (post->flags == 0)
		return REFUSE(RPMA_FLAGS, "flags 0");
	if (post->local && post->remote)
		return 0;
	if (post->local || post->remote || post->local_offset || post->remote_offset ||
	    post->length)
		return REFUSE(RPMA_NULL, "%zu bytes, and a region is missing", post->length);
	return 0;
}

static int transfer(struct rpma_conn *conn, const struct post *post)
{
	return check_ranges(conn, post) ?: post_send(conn->queues.id->qp, post);
}

int rpma_read(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t dst_offset,
	      const struct rpma_mr_remote *src, size_t src_offset, size_t len, int flags,
	      const void *op_context)
{
	const struct post post = {IBV_WR_RDMA_READ, dst, dst_offset, src, src_offset, len, flags, 0,
				  op_context};

	return transfer(conn, &post);
}

int rpma_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
	       const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags,
	       const void *op_context)
{
	const struct post post = {
	    IBV_WR_RDMA_WRITE, src, src_offset, dst, dst_offset, len, flags, 0, op_context};

	return transfer(conn, &post);
}

int rpma_write_with_imm(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
			const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags,
			uint32_t imm, const void *op_context)
{
	const struct post post = {IBV_WR_RDMA_WRITE_WITH_IMM,
				  src,
				  src_offset,
				  dst,
				  dst_offset,
				  len,
				  flags,
				  imm,
				  op_context};

	return transfer(conn, &post);
}

static int send_message(struct rpma_conn *conn, const struct post *post)
{
	if (!conn)
		return REFUSE_NULL();
	if (post->flags == 0)
		return REFUSE(RPMA_FLAGS, "flags 0");
	if (!post->local && (post->local_offset || post->length))
		return REFUSE(RPMA_NULL, "%zu bytes, and no region", post->length);
	return post_send(conn->queues.id->qp, post);
}

int rpma_send(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset, size_t len,
	      int flags, const void *op_context)
{
	const struct post post = {IBV_WR_SEND, src, offset, NULL, 0, len, flags, 0, op_context};

	return send_message(conn, &post);
}

int rpma_send_with_imm(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset,
		       size_t len, int flags, uint32_t imm, const void *op_context)
{
	const struct post post = {
	    IBV_WR_SEND_WITH_IMM, src, offset, NULL, 0, len, flags, imm, op_context};

	return send_message(conn, &post);
}

int rpma_recv(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t offset, size_t len,
	      const void *op_context)
{
	if (!conn)
		return REFUSE_NULL();
	return post_recv(conn->queues.id->qp, NULL, dst, offset, len, op_context);
}

int rpma_atomic_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
		      const char src[8], int flags, const void *op_context)
{
	if (!conn || !dst || !src)
		return REFUSE_NULL();
	if (flags == 0)
		return REFUSE(RPMA_FLAGS, "flags 0");
	if (dst_offset % RPMA_ATOMIC_WRITE_ALIGNMENT)
		return REFUSE(RPMA_VALUE, "offset %zu is not a multiple of %d", dst_offset,
			      RPMA_ATOMIC_WRITE_ALIGNMENT);
	return post_atomic_write(&conn->queues, dst, dst_offset, src, flags, op_context);
}

static int check_flush(struct rpma_conn *conn, const struct rpma_mr_remote *dst,
		       enum rpma_flush_type type, int flags)
{
	int usage = type == RPMA_FLUSH_TYPE_PERSISTENT ? RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT
						       : RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;

	if (!conn || !dst)
		return REFUSE_NULL();
	if (type != RPMA_FLUSH_TYPE_PERSISTENT && type != RPMA_FLUSH_TYPE_VISIBILITY)
		return REFUSE(RPMA_VALUE, "flush type %d", (int)type);
	if (flags == 0)
		return REFUSE(RPMA_FLAGS, "flags 0");
	if (type == RPMA_FLUSH_TYPE_PERSISTENT && !atomic_load(&conn->peer_direct_write_to_pmem))
		return REFUSE(RPMA_NOT_DURABLE, "rpma_flush()");
	if (!(dst->usage & usage))
		return REFUSE(RPMA_FLUSH_USAGE, "usage 0x%x, not 0x%x", (unsigned int)dst->usage,
			      (unsigned int)usage);
	return 0;
}

int rpma_flush(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, size_t len,
	       enum rpma_flush_type type, int flags, const void *op_context)
{
	struct post read = {.opcode = IBV_WR_RDMA_READ,
			    .remote = dst,
			    .remote_offset = dst_offset,
			    .length = 8,
			    .flags = flags,
			    .op_context = op_context};
	int code = check_flush(conn, dst, type, flags);

	if (code)
		return code;
	if (conn->queues.has_flush && atomic_load(&conn->peer_has_flush))
		return post_native_flush(conn->queues.id->qp, dst, dst_offset, len, type, flags,
					 op_context);
	/* at the end of a region a few bytes do as well */
	if (dst_offset < dst->size && dst->size - dst_offset < read.length)
		read.length = dst->size - dst_offset;
	read.local = conn->raw;
	return post_send(conn->queues.id->qp, &read);
}
