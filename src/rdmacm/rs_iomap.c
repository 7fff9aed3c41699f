/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mapped memory of streams: a program names memory of its own by an offset, and the peer writes to
 * that offset directly. The peer's table of mappings is written by RDMA, like the halves.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "rdmacm/face.h"
#include "rdmacm/rs.h"

static bool has_room(const struct rsock *rs)
{
	return (rs_can_send(rs) && rs->sbuf_size - rs->sbuf_head >= sizeof(struct rs_iomap) &&
		rs->sbuf_free >= sizeof(struct rs_iomap)) ||
	       !rs->can_write;
}

static bool has_sbuf(const struct rsock *rs)
{
	return (rs->sqe_free && rs->sbuf_free) || !rs->can_write;
}

/* The ring's end is left out where an entry does not fit in one piece. */
static void skip_end(struct rsock *rs)
{
	uint32_t end = rs->sbuf_size - rs->sbuf_head;

	if (end < sizeof(struct rs_iomap) && rs->sbuf_free == rs->sbuf_size)
		rs->sbuf_head = 0;
}

static int tell(struct rsock *rs, const struct rs_mapping *mapping)
{
	struct rs_iomap iomap = {.offset = mapping->offset,
				 .sge = {.addr = (uintptr_t)mapping->address,
					 .key = mapping->mr ? mapping->mr->rkey : 0,
					 .length = (uint32_t)mapping->length}};
	int error = 0;

	while (error == 0 && rs->can_write &&
	       rs->sbuf_size - rs->sbuf_head < sizeof(struct rs_iomap)) {
		error = rs_wait(rs, rs_is_sent, -1);
		skip_end(rs);
	}
	if (error == 0)
		error = rs_wait(rs, has_room, -1);
	if (error == 0 && !rs->can_write)
		error = ECONNRESET;
	return error ? error : rs_write_iomap(rs, (uint32_t)mapping->index, &iomap);
}

static int free_index(const struct rsock *rs)
{
	const struct rs_mapping *mapping;
	uint64_t used[RS_IOMAPS_MAX / 64 + 1] = {0};

	cds_list_for_each_entry (mapping, &rs->mappings, node)
		used[mapping->index / 64] |= UINT64_C(1) << mapping->index % 64;
	for (uint32_t i = 0; i < rs->remote_iomap_size && i < RS_IOMAPS_MAX; i++)
		if (!(used[i / 64] >> i % 64 & 1))
			return (int)i;
	return -1;
}

static off_t map(struct rsock *rs, void *buf, size_t len, int prot, off_t offset)
{
	int access = IBV_ACCESS_LOCAL_WRITE;
	struct rs_mapping *mapping;
	int index = free_index(rs), error;

	if (rs->state != RS_CONNECTED)
		return rs_fail(ENOTCONN);
	if (index < 0)
		return rs_fail(ENOBUFS);
	mapping = calloc(1, sizeof(*mapping));
	if (!mapping)
		return rs_fail(ENOMEM);
	if (prot & PROT_WRITE)
		access |= IBV_ACCESS_REMOTE_WRITE;
	if (prot & PROT_READ)
		access |= IBV_ACCESS_REMOTE_READ;
	mapping->mr = ibv_reg_mr(rs->id->pd, buf, len, access);
	if (!mapping->mr) {
		error = errno;
		free(mapping);
		return rs_fail(error);
	}
	mapping->offset = offset == -1 ? (uintptr_t)buf : (uint64_t)offset;
	mapping->address = buf;
	mapping->length = len;
	mapping->index = index;
	cds_list_add(&mapping->node, &rs->mappings);
	error = tell(rs, mapping);
	if (error == 0)
		return (off_t)mapping->offset;
	cds_list_del(&mapping->node);
	ibv_dereg_mr(mapping->mr);
	free(mapping);
	return rs_fail(error);
}

off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
	struct rsock *rs = rs_find(socket);
	off_t mapped;

	if (!rs)
		return -1;
	if (!rs->cq || prot & ~(PROT_READ | PROT_WRITE) || !buf || !len || len > UINT32_MAX)
		return rs_fail(EINVAL);
	rs_lock(rs);
	mapped = map(rs, buf, len, prot, offset);
	rs_unlock(rs);
	return mapped;
}

int riounmap(int socket, void *buf, size_t len)
{
	struct rsock *rs = rs_find(socket);
	struct rs_mapping *mapping, *found = NULL;

	if (!rs)
		return -1;
	rs_lock(rs);
	cds_list_for_each_entry (mapping, &rs->mappings, node)
		if (mapping->address == buf && mapping->length == len)
			found = mapping;
	if (found) {
		cds_list_del(&found->node);
		ibv_dereg_mr(found->mr);
		found->mr = NULL;
		found->length = 0;
		if (rs->state == RS_CONNECTED)
			tell(rs, found);
		free(found);
	}
	rs_unlock(rs);
	return found ? 0 : rs_fail(EINVAL);
}

/* The mapping that the peer told us of for this offset, once it has. */
static const struct rs_iomap *find(const struct rsock *rs, uint64_t offset)
{
	for (uint32_t i = 0; i < rs->iomap_size; i++) {
		const struct rs_iomap *iomap = &rs->iomaps[i];

		if (iomap->sge.length && offset >= iomap->offset &&
		    offset < iomap->offset + iomap->sge.length)
			return iomap;
	}
	return NULL;
}

static size_t write_mapped(struct rsock *rs, const uint8_t *buf, size_t count, uint64_t offset,
			   int flags)
{
	size_t done = 0;
	int error = 0;

	while (done < count && error == 0) {
		const struct rs_iomap *iomap = find(rs, offset + done);
		uint64_t within;
		size_t piece = count - done;

		if (!iomap) {
			error = EINVAL;
			break;
		}
		error = rs_wait(rs, has_sbuf, rs_is_nonblocking(rs, flags) ? 0 : -1);
		if (error == 0 && !rs->can_write)
			error = ECONNRESET;
		if (error)
			break;
		within = offset + done - iomap->offset;
		if (piece > iomap->sge.length - within)
			piece = iomap->sge.length - within;
		if (piece > RS_TRANSFER_MAX)
			piece = RS_TRANSFER_MAX;
		if (piece > rs->sbuf_free)
			piece = rs->sbuf_free;
		if (piece > rs->sbuf_size - rs->sbuf_head)
			piece = rs->sbuf_size - rs->sbuf_head;
		memcpy(rs->sbuf + rs->sbuf_head, buf + done, piece);
		error = rs_write_raw(rs, (uint32_t)piece, iomap->sge.addr + within, iomap->sge.key);
		done += piece;
	}
	return done || error == 0 ? done : (size_t)rs_fail(error);
}

size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
	struct rsock *rs = rs_find(socket);
	size_t done;

	if (!rs)
		return (size_t)-1;
	if (!rs->cq)
		return (size_t)rs_fail(ENOTCONN);
	rs_lock(rs);
	rs_progress(rs);
	done = write_mapped(rs, buf, count, (uint64_t)offset, flags);
	rs_unlock(rs);
	return done;
}
