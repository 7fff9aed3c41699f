/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stream's queues: what is posted, what completes, and who may send how much. Each message takes
 * a receive of the peer's, so there are credits (sseq, sseq_limit) beside the bytes of the halves.
 */
#include <stdlib.h>
#include <string.h>

#include "rdmacm/face.h"
#include "rdmacm/rs.h"

enum { POLL_BATCH = 16 };

/* A work request's id: its kind, and how many bytes of the ring it holds. */
#define WR_RECV	 (UINT64_C(1) << 63)
#define WR_CTRL	 (UINT64_C(1) << 62)
#define WR_BYTES UINT64_C(0xffffffff)

/* ---- making ---- */

static int allocate(struct rsock *rs)
{
	size_t table = RS_HALVES * sizeof(struct rs_sge) + rs->iomap_size * sizeof(struct rs_iomap);

	rs->sbuf = malloc(rs->sbuf_size);
	rs->rbuf = malloc(rs->rbuf_size);
	rs->targets = calloc(1, table);
	rs->messages = calloc(rs->rq_size + 1, sizeof(struct rs_message));
	if (!rs->sbuf || !rs->rbuf || !rs->targets || !rs->messages)
		return ENOMEM;
	rs->iomaps = (struct rs_iomap *)(rs->targets + RS_HALVES);
	rs->smr = ibv_reg_mr(rs->id->pd, rs->sbuf, rs->sbuf_size, 0);
	rs->rmr = ibv_reg_mr(rs->id->pd, rs->rbuf, rs->rbuf_size,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	rs->target_mr = ibv_reg_mr(rs->id->pd, rs->targets, table,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	return rs->smr && rs->rmr && rs->target_mr ? 0 : errno;
}

static int post_receive(struct rsock *rs)
{
	struct ibv_recv_wr wr = {.wr_id = WR_RECV}, *bad;

	return ibv_post_recv(rs->id->qp, &wr, &bad);
}

int rs_make_queues(struct rsock *rs)
{
	struct ibv_qp_init_attr attr = {
	    .cap = {.max_send_wr = rs->sq_size,
		    .max_recv_wr = rs->rq_size,
		    .max_send_sge = 1,
		    .max_recv_sge = 1,
		    .max_inline_data = rs->inline_size > sizeof(struct rs_sge)
					   ? rs->inline_size
					   : sizeof(struct rs_sge)},
	    .qp_type = IBV_QPT_RC,
	    .sq_sig_all = 1,
	};
	int error;

	rs->comp = ibv_create_comp_channel(rs->id->verbs);
	if (!rs->comp)
		return errno;
	fcntl(rs->comp->fd, F_SETFL, O_NONBLOCK);
	rs->cq = ibv_create_cq(rs->id->verbs, (int)(rs->sq_size + rs->rq_size), NULL, rs->comp, 0);
	if (!rs->cq)
		return errno;
	attr.send_cq = attr.recv_cq = rs->cq;
	if (rdma_create_qp(rs->id, NULL, &attr))
		return errno;
	rs->inline_size = attr.cap.max_inline_data;
	error = allocate(rs);
	for (uint32_t i = 0; i < rs->rq_size && error == 0; i++)
		error = post_receive(rs);
	rs->sbuf_free = rs->sbuf_size;
	rs->sqe_free = rs->sq_size - RS_CTRL_MESSAGES;
	rs->ctrl_free = RS_CTRL_MESSAGES;
	rs->rbuf_free = rs->rbuf_free_at = rs->rbuf_size / 2;
	rs->rseq_told = (uint16_t)(rs->rq_size / 2);
	return error;
}

void rs_fill_conn_data(struct rsock *rs, struct rs_conn_data *data)
{
	memset(data, 0, sizeof(*data));
	data->version = RS_CONN_VERSION;
	data->flags =
	    (htobe16(1) == 1 ? RS_CONN_NET_ORDER : 0) | (rs->iomap_size ? RS_CONN_IOMAP : 0);
	data->credits = htobe16((uint16_t)rs->rq_size);
	data->iomap_size = (uint8_t)((rs->iomap_size + 7) / 8);
	data->target_sgl = (struct rs_sge){.addr = htobe64((uintptr_t)rs->targets),
					   .length = htobe32(RS_HALVES),
					   .key = htobe32(rs->target_mr->rkey)};
	data->data_buf = (struct rs_sge){.addr = htobe64((uintptr_t)rs->rbuf),
					 .length = htobe32(rs->rbuf_size / 2),
					 .key = htobe32(rs->rmr->rkey)};
}

/* As the peer reads it in its table. */
static struct rs_sge as_read(const struct rsock *rs, struct rs_sge sge)
{
	if (rs->is_other_order)
		sge = (struct rs_sge){.addr = __builtin_bswap64(sge.addr),
				      .key = __builtin_bswap32(sge.key),
				      .length = __builtin_bswap32(sge.length)};
	return sge;
}

int rs_take_conn_data(struct rsock *rs, const void *private_data, size_t length)
{
	struct rs_conn_data data; /* a message's is not aligned */

	if (length < sizeof(data))
		return EPROTO;
	memcpy(&data, private_data, sizeof(data));
	if (data.version != RS_CONN_VERSION)
		return EPROTO;
	rs->is_other_order = !(data.flags & RS_CONN_NET_ORDER) != (htobe16(1) != 1);
	rs->remote_table = be64toh(data.target_sgl.addr);
	rs->remote_halves = be32toh(data.target_sgl.length);
	rs->remote_key = be32toh(data.target_sgl.key);
	rs->remote_half = 1;
	if (rs->remote_halves < RS_HALVES)
		return EPROTO;
	if (data.flags & RS_CONN_IOMAP)
		rs->remote_iomap_size = data.iomap_size * 8u;
	rs->targets[0] = (struct rs_sge){.addr = be64toh(data.data_buf.addr),
					 .length = be32toh(data.data_buf.length),
					 .key = be32toh(data.data_buf.key)};
	rs->sseq_limit = be16toh(data.credits);
	return 0;
}

/* ---- posting ---- */

/* A write of what lies in the send ring (or inline, anywhere) to the peer, with word of it. */
static int post_write(struct rsock *rs, const void *from, uint32_t length, uint64_t to,
		      uint32_t key, uint64_t wr_id, const uint32_t *word)
{
	struct ibv_sge sge = {(uintptr_t)from, length, rs->smr->lkey};
	struct ibv_send_wr wr = {
	    .wr_id = wr_id,
	    .sg_list = &sge,
	    .num_sge = length != 0,
	    .opcode = word ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
	    .send_flags = length <= rs->inline_size ? IBV_SEND_INLINE : 0,
	    .imm_data = word ? htobe32(*word) : 0,
	    .wr.rdma = {to, key},
	};
	struct ibv_send_wr *bad;

	rs->last_sent = manager_now();
	return ibv_post_send(rs->id->qp, &wr, &bad);
}

static uint32_t word_of(enum rs_op op, uint32_t data)
{
	return (uint32_t)op << RS_OP_SHIFT | (data & RS_DATA_MASK);
}

static int post_word(struct rsock *rs, uint32_t word)
{
	rs->ctrl_free--;
	return post_write(rs, NULL, 0, 0, 0, WR_CTRL, &word);
}

bool rs_can_send(const struct rsock *rs)
{
	return rs->sqe_free && rs->sbuf_free && rs->sseq != rs->sseq_limit &&
	       __atomic_load_n(&rs->targets[rs->target].length, __ATOMIC_ACQUIRE);
}

static void move_head(struct rsock *rs, uint32_t length)
{
	rs->sbuf_free -= length;
	rs->sbuf_head += length;
	if (rs->sbuf_head == rs->sbuf_size)
		rs->sbuf_head = 0;
}

int rs_write_data(struct rsock *rs, uint32_t length)
{
	struct rs_sge *target = &rs->targets[rs->target];
	const uint8_t *from = rs->sbuf + rs->sbuf_head;
	uint64_t to = target->addr;
	uint32_t key = target->key, word = word_of(RS_OP_DATA, length);

	rs->sseq++;
	rs->sqe_free--;
	move_head(rs, length);
	target->addr += length;
	target->length -= length;
	if (target->length == 0)
		rs->target = (rs->target + 1) % RS_HALVES;
	return post_write(rs, from, length, to, key, length, &word);
}

/* Into the peer's mapped memory: takes no receive of it, and no word goes with it. */
int rs_write_raw(struct rsock *rs, uint32_t length, uint64_t address, uint32_t key)
{
	const uint8_t *from = rs->sbuf + rs->sbuf_head;

	rs->sqe_free--;
	move_head(rs, length);
	return post_write(rs, from, length, address, key, length, NULL);
}

int rs_write_iomap(struct rsock *rs, uint32_t index, const struct rs_iomap *iomap)
{
	uint64_t to =
	    rs->remote_table + rs->remote_halves * sizeof(struct rs_sge) + index * sizeof(*iomap);
	uint32_t word = word_of(RS_OP_IOMAP, 0), length = sizeof(*iomap);
	const uint8_t *from = rs->sbuf + rs->sbuf_head;
	struct rs_iomap entry = {.offset = rs->is_other_order ? __builtin_bswap64(iomap->offset)
							      : iomap->offset,
				 .sge = as_read(rs, iomap->sge)};

	memcpy(rs->sbuf + rs->sbuf_head, &entry, sizeof(entry));
	rs->sseq++;
	rs->sqe_free--;
	move_head(rs, length);
	return post_write(rs, from, length, to, rs->remote_key, length, &word);
}

int rs_send_ctrl(struct rsock *rs, enum rs_ctrl what)
{
	return rs->ctrl_free ? post_word(rs, word_of(RS_OP_CTRL, what)) : EAGAIN;
}

/* ---- completions ---- */

static void take_word(struct rsock *rs, uint32_t word)
{
	uint32_t data = word & RS_DATA_MASK;

	switch (word >> RS_OP_SHIFT) {
	case RS_OP_SGL:
		rs->sseq_limit = (uint16_t)data;
		break;
	case RS_OP_IOMAP:
		rs->rseq++; /* it took a credit as data does */
		break;
	case RS_OP_CTRL:
		if (data == RS_CTRL_DISCONNECT) {
			rs->state = RS_DISCONNECTED;
			rs->can_read = rs->can_write = false;
		} else if (data == RS_CTRL_SHUTDOWN) {
			rs->can_read = false;
			if (!rs->can_write)
				rs->state = RS_DISCONNECTED;
		}
		break;
	case RS_OP_DATA:
		rs->messages[rs->message_tail] = (struct rs_message){RS_OP_DATA, data};
		rs->message_tail = (rs->message_tail + 1) % (rs->rq_size + 1);
		break;
	}
}

static void take_completion(struct rsock *rs, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS) {
		if (rs->state == RS_CONNECTED && !rs->is_closing) {
			rs->state = RS_ERROR;
			rs->can_read = rs->can_write = false;
			if (!rs->error)
				rs->error = ECONNRESET;
		}
		return;
	}
	rs->news++;
	if (wc->wr_id & WR_RECV) {
		if (wc->wc_flags & IBV_WC_WITH_IMM)
			take_word(rs, be32toh(wc->imm_data));
		post_receive(rs);
	} else if (wc->wr_id & WR_CTRL) {
		rs->ctrl_free++;
	} else {
		rs->sqe_free++;
		rs->sbuf_free += (uint32_t)(wc->wr_id & WR_BYTES);
	}
}

/* When half of the ring was read, or half of the receives were used. Two of the control messages
 * are kept for what ends the connection. */
static void give_credits(struct rsock *rs)
{
	bool has_half = rs->rbuf_free >= rs->rbuf_size / 2;
	uint32_t word = word_of(RS_OP_SGL, (uint16_t)(rs->rseq + rs->rq_size));
	struct rs_sge half;
	uint64_t to;

	if (rs->ctrl_free <= 2 || (!has_half && (int16_t)(rs->rseq - rs->rseq_told) < 0))
		return;
	if (rs->state != RS_CONNECTED)
		return;
	rs->rseq_told = (uint16_t)(rs->rseq + rs->rq_size / 2);
	if (!has_half) {
		post_word(rs, word);
		return;
	}
	half = as_read(rs, (struct rs_sge){.addr = (uintptr_t)(rs->rbuf + rs->rbuf_free_at),
					   .key = rs->rmr->rkey,
					   .length = rs->rbuf_size / 2});
	to = rs->remote_table + rs->remote_half * sizeof(half);
	rs->remote_half = (rs->remote_half + 1) % rs->remote_halves;
	rs->rbuf_free -= rs->rbuf_size / 2;
	rs->rbuf_free_at = rs->rbuf_free_at ? 0 : rs->rbuf_size / 2;
	rs->ctrl_free--;
	post_write(rs, &half, sizeof(half), to, rs->remote_key, WR_CTRL, &word);
}

void rs_progress(struct rsock *rs)
{
	struct ibv_wc wc[POLL_BATCH];
	bool is_any = false;
	int count;

	if (!rs->cq)
		return;
	do {
		count = ibv_poll_cq(rs->cq, POLL_BATCH, wc);
		for (int i = 0; i < count; i++)
			take_completion(rs, &wc[i]);
		is_any |= count > 0;
	} while (count == POLL_BATCH);
	give_credits(rs);
	if (is_any)
		rs_tell(rs);
}

bool rs_has_data(const struct rsock *rs)
{
	return rs->message_head != rs->message_tail;
}

bool rs_is_sent(const struct rsock *rs)
{
	return rs->sqe_free == rs->sq_size - RS_CTRL_MESSAGES && rs->ctrl_free == RS_CTRL_MESSAGES;
}
