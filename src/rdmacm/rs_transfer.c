/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes in and out of streams.
 */
#include <string.h>

#include "rdmacm/face.h"
#include "rdmacm/rs.h"

/* The smallest of what the program, the ring, and the peer's half have in one piece. */
static uint32_t fits(const struct rsock *rs, size_t length)
{
	uint32_t most = RS_TRANSFER_MAX, piece = rs->sbuf_size - rs->sbuf_head;

	if (length < most)
		most = (uint32_t)length;
	if (rs->sbuf_free < most)
		most = rs->sbuf_free;
	if (piece < most)
		most = piece;
	return rs->targets[rs->target].length < most ? rs->targets[rs->target].length : most;
}

static bool can_send_or_never(const struct rsock *rs)
{
	return rs_can_send(rs) || !rs->can_write;
}

static bool has_data_or_never(const struct rsock *rs)
{
	return rs_has_data(rs) || !rs->can_read;
}

/* What a program that writes to a stream that is over gets. */
static int write_error(struct rsock *rs)
{
	int error = rs->error ? rs->error : rs->state == RS_INIT ? ENOTCONN : EPIPE;

	rs->error = 0;
	return error;
}

/* Connecting is waited for, as by a blocking socket. */
static int wait_connected(struct rsock *rs, int flags)
{
	if (rs_is_settled(rs))
		return 0;
	return rs_wait(rs, rs_is_settled, rs_is_nonblocking(rs, flags) ? 0 : -1);
}

struct cursor {
	const struct iovec *iov;
	int count;
	size_t offset; /* in the first */
};

static void copy(struct cursor *cursor, uint8_t *ring, size_t length, bool is_out)
{
	while (length) {
		size_t piece = cursor->iov->iov_len - cursor->offset;
		uint8_t *base = (uint8_t *)cursor->iov->iov_base + cursor->offset;

		if (piece > length)
			piece = length;
		if (is_out)
			memcpy(ring, base, piece);
		else
			memcpy(base, ring, piece);
		ring += piece;
		length -= piece;
		cursor->offset += piece;
		while (cursor->count && cursor->offset == cursor->iov->iov_len) {
			cursor->iov++;
			cursor->count--;
			cursor->offset = 0;
		}
	}
}

static size_t length_of(const struct iovec *iov, int count)
{
	size_t length = 0;

	for (int i = 0; i < count; i++)
		length += iov[i].iov_len;
	return length;
}

static ssize_t send_vector(struct rsock *rs, const struct iovec *iov, int count, int flags)
{
	size_t left = length_of(iov, count), total = left;
	struct cursor cursor = {iov, count, 0};
	int error = wait_connected(rs, flags);

	while (error == 0 && left) {
		uint32_t piece;

		if (rs->can_write && !rs_can_send(rs))
			error =
			    rs_wait(rs, can_send_or_never, rs_is_nonblocking(rs, flags) ? 0 : -1);
		if (error)
			break;
		if (!rs->can_write) {
			error = write_error(rs);
			break;
		}
		piece = fits(rs, left);
		copy(&cursor, rs->sbuf + rs->sbuf_head, piece, true);
		error = rs_write_data(rs, piece);
		left -= piece;
	}
	return left < total || !error ? (ssize_t)(total - left) : rs_fail(error);
}

/* The next piece of the ring, up to `length`; consumed unless it is only looked at. */
static uint32_t take_piece(struct rsock *rs, struct cursor *cursor, size_t length)
{
	struct rs_message *message = &rs->messages[rs->message_head];
	uint32_t piece = message->data < length ? message->data : (uint32_t)length;

	if (piece > rs->rbuf_size - rs->rbuf_at)
		piece = rs->rbuf_size - rs->rbuf_at;
	copy(cursor, rs->rbuf + rs->rbuf_at, piece, false);
	message->data -= piece;
	rs->rbuf_at += piece;
	if (rs->rbuf_at == rs->rbuf_size)
		rs->rbuf_at = 0;
	rs->rbuf_free += piece;
	if (message->data == 0) {
		rs->message_head = (rs->message_head + 1) % (rs->rq_size + 1);
		rs->rseq++;
	}
	return piece;
}

static size_t peek(const struct rsock *rs, struct cursor *cursor, size_t length)
{
	uint32_t at = rs->rbuf_at, head = rs->message_head;
	size_t done = 0;

	while (done < length && head != rs->message_tail) {
		uint32_t left = rs->messages[head].data;

		while (left && done < length) {
			uint32_t piece = rs->rbuf_size - at;

			if (piece > left)
				piece = left;
			if (piece > length - done)
				piece = (uint32_t)(length - done);
			copy(cursor, rs->rbuf + at, piece, false);
			at = (at + piece) % rs->rbuf_size;
			left -= piece;
			done += piece;
		}
		head = (head + 1) % (rs->rq_size + 1);
	}
	return done;
}

static ssize_t receive_vector(struct rsock *rs, const struct iovec *iov, int count, int flags)
{
	size_t total = length_of(iov, count), done = 0;
	struct cursor cursor = {iov, count, 0};
	int error = wait_connected(rs, flags);

	if (error == 0 && rs->state == RS_INIT)
		error = ENOTCONN;
	while (error == 0 && done < total) {
		if (!rs_has_data(rs)) {
			bool may_wait =
			    !rs_is_nonblocking(rs, flags) && (done == 0 || flags & MSG_WAITALL);

			if (done && !may_wait)
				break;
			if (rs->can_read || rs->state == RS_CONNECTED)
				error = rs_wait(rs, has_data_or_never, may_wait ? -1 : 0);
			if (error || !rs_has_data(rs))
				break;
		}
		if (flags & MSG_PEEK) {
			done = peek(rs, &cursor, total);
			break;
		}
		done += take_piece(rs, &cursor, total - done);
	}
	rs_progress(rs); /* credits */
	if (done || total == 0)
		return (ssize_t)done;
	if (error == 0 && rs->error) {
		error = rs->error;
		rs->error = 0;
	}
	return error ? rs_fail(error) : 0;
}

ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
	struct rsock *rs = rs_find(socket);
	ssize_t done;

	if (!rs)
		return -1;
	if (msg->msg_control && msg->msg_controllen)
		return rs_fail(EOPNOTSUPP);
	if (rs->type == SOCK_DGRAM) {
		if (msg->msg_iovlen > 1)
			return rs_fail(EMSGSIZE);
		return rs_datagram_send(rs, msg->msg_iov[0].iov_base, msg->msg_iov[0].iov_len,
					flags, msg->msg_name, msg->msg_namelen);
	}
	rs_lock(rs);
	done = send_vector(rs, msg->msg_iov, (int)msg->msg_iovlen, flags);
	rs_unlock(rs);
	return done;
}

ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
	struct rsock *rs = rs_find(socket);
	ssize_t done;

	if (!rs)
		return -1;
	if (rs->type == SOCK_DGRAM) {
		if (msg->msg_iovlen > 1)
			return rs_fail(ENOSYS);
		msg->msg_controllen = 0;
		return rs_datagram_receive(rs, msg->msg_iov[0].iov_base, msg->msg_iov[0].iov_len,
					   flags, msg->msg_name, &msg->msg_namelen);
	}
	rs_lock(rs);
	done = receive_vector(rs, msg->msg_iov, (int)msg->msg_iovlen, flags);
	rs_unlock(rs);
	if (done >= 0) {
		msg->msg_controllen = 0;
		msg->msg_flags = 0;
	}
	return done;
}

ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
		const struct sockaddr *dest_addr, socklen_t addrlen)
{
	struct iovec iov = {(void *)buf, len};
	struct msghdr msg = {
	    .msg_name = (void *)dest_addr,
	    .msg_namelen = addrlen,
	    .msg_iov = &iov,
	    .msg_iovlen = 1,
	};

	return rsendmsg(socket, &msg, flags);
}

ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr,
		  socklen_t *addrlen)
{
	struct iovec iov = {buf, len};
	struct msghdr msg = {
	    .msg_name = src_addr,
	    .msg_namelen = addrlen ? *addrlen : 0,
	    .msg_iov = &iov,
	    .msg_iovlen = 1,
	};
	ssize_t done = rrecvmsg(socket, &msg, flags);

	if (done < 0 || !src_addr || !addrlen)
		return done;
	if (rs_is(socket) && rs_find(socket)->type == SOCK_STREAM)
		rgetpeername(socket, src_addr, addrlen);
	else
		*addrlen = msg.msg_namelen;
	return done;
}

ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
	return rsendto(socket, buf, len, flags, NULL, 0);
}

ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
	return rrecvfrom(socket, buf, len, flags, NULL, NULL);
}

ssize_t rread(int socket, void *buf, size_t count)
{
	return rrecv(socket, buf, count, 0);
}

ssize_t rwrite(int socket, const void *buf, size_t count)
{
	return rsend(socket, buf, count, 0);
}

ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)iovcnt};

	return rrecvmsg(socket, &msg, 0);
}

ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)iovcnt};

	return rsendmsg(socket, &msg, 0);
}
