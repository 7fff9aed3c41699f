/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The middle of a long SEND or WRITE over RC, or of the responses to a READ: packets that differ in
 * their PSNs and their payload alone, and that nobody waits for. So room for many is asked for at
 * once, and their header is packed once. The ends of a message go with it where they have no more
 * than a name of their own. What is not so plain (a packet that goes again, asks for an ACK,
 * carries an extension) goes by itself, request.c and response.c. So does one whose payload can't
 * be had: it says why.
 */
#include "device/access.h"
#include "device/memory.h"
#include "transport/build.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "wire/opcode.h"

enum { NOT_PLAIN = 0xff }; /* another header, or more to say */

/* Of those packets that are no more than a BTH and a payload. */
struct plain_operations {
	uint8_t first, middle, last;
};

static struct plain_operations operations_of(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_SEND:
		return (struct plain_operations){OP_SEND_FIRST, OP_SEND_MIDDLE, OP_SEND_LAST};
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
		return (struct plain_operations){OP_SEND_FIRST, OP_SEND_MIDDLE, NOT_PLAIN};
	case IBV_WR_RDMA_WRITE:
		return (struct plain_operations){NOT_PLAIN, OP_WRITE_MIDDLE, OP_WRITE_LAST};
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return (struct plain_operations){NOT_PLAIN, OP_WRITE_MIDDLE, NOT_PLAIN};
	default:
		return (struct plain_operations){NOT_PLAIN, NOT_PLAIN, NOT_PLAIN};
	}
}

/* How many of the next packets are such, and as long as all. */
static uint32_t plain_packets(const struct qp *qp, const struct send_wqe *wqe,
			      const struct plain_operations *operations)
{
	const struct requester *requester = qp->requester;
	bool has_last = operations->last != NOT_PLAIN && wqe->length % qp->mtu == 0 &&
			!(wqe->flags & IBV_SEND_SOLICITED);

	if (qp->type != IBV_QPT_RC || requester->recovery || qp->attr.rate_limit ||
	    wqe->is_inline || requester->psn != requester->end || operations->middle == NOT_PLAIN)
		return 0;
	if (requester->psn == wqe->first_psn &&
	    (operations->first == NOT_PLAIN || requester->psn == wqe->last_psn))
		return 0;
	return psn_into(wqe->last_psn, requester->psn) + has_last;
}

/* Of the payload, and where the link seals, its sum behind it. */
static bool gather(struct qp *qp, const struct sge_list *list, uint64_t offset, uint8_t *to,
		   bool is_summed)
{
	struct sge_cursor *cursor = &qp->requester->gather;
	uint32_t sum = 0;

	if (!is_summed)
		return !payload_gather(list, cursor, offset, to, qp->mtu);
	if (payload_gather_sum(list, cursor, offset, to, qp->mtu, &sum))
		return false;
	put_le32(to + qp->mtu, sum);
	return true;
}

/* What the packets of a burst have in common, and where the next one goes. */
struct packing {
	uint8_t header[BTH_BYTES];
	uint32_t psn;
	uint8_t *bytes;
	uint32_t stride, mtu;
	bool is_summed;
};

static struct packing packing_of(const struct qp *qp, uint8_t opcode, uint32_t psn, uint8_t *bytes,
				 uint32_t stride, bool is_summed)
{
	struct packing packing = {
	    .psn = psn, .bytes = bytes, .stride = stride, .mtu = qp->mtu, .is_summed = is_summed};
	struct bth bth = bth_of(qp, opcode, psn);

	bth_pack(packing.header, &bth);
	return packing;
}

/* The payload is there. */
static void pack(struct packing *packing)
{
	memcpy(packing->bytes, packing->header, BTH_BYTES);
	bth_set_psn(packing->bytes, packing->psn);
	packing->psn = psn_next(packing->psn);
	packing->bytes += packing->stride;
}

static bool load(const struct packing *packing, const char *from)
{
	uint8_t *to = packing->bytes + BTH_BYTES;
	uint32_t sum = 0;

	if (!packing->is_summed)
		return !memory_load(to, from, packing->mtu);
	if (memory_load_sum(to, from, packing->mtu, &sum))
		return false;
	put_le32(to + packing->mtu, sum);
	return true;
}

/* Packets whose payload lies in a row. How many there was memory for. */
static uint32_t pack_row(struct packing *packing, const char *from, uint32_t count)
{
	uint32_t done = 0;

	for (; done < count && load(packing, from); done++, from += packing->mtu)
		pack(packing);
	return done;
}

/* The next packets whose payload one element has, 0 where it has not one: its key is looked up once
 * for them, and holds as long as the lane's lock is held. */
static uint32_t pack_stretch(struct qp *qp, struct packing *packing, const struct sge_list *list,
			     uint64_t offset, uint32_t count)
{
	struct sge_cursor *cursor = &qp->requester->gather;
	uint32_t piece = 0, done;
	const char *from = payload_stretch(list, cursor, offset, count * qp->mtu, &piece);

	if (!from)
		return 0;
	done = pack_row(packing, from, piece / qp->mtu);
	cursor_move(cursor, done * qp->mtu);
	return done;
}

/* Of several elements, or with something to say about one. */
static bool pack_gathered(struct qp *qp, struct packing *packing, const struct sge_list *list,
			  uint64_t offset)
{
	if (!gather(qp, list, offset, packing->bytes + BTH_BYTES, packing->is_summed))
		return false;
	pack(packing);
	return true;
}

static uint32_t fill(struct qp *qp, const struct send_wqe *wqe, struct packing *packing,
		     uint32_t count)
{
	struct requester *requester = qp->requester;
	uint64_t offset = (uint64_t)psn_into(requester->psn, wqe->first_psn) * qp->mtu;
	struct sge_list list = wqe_list(qp, wqe);
	uint32_t done = 0, more;

	do {
		more = pack_stretch(qp, packing, &list, offset, count - done);
		if (!more)
			more = pack_gathered(qp, packing, &list, offset);
		done += more;
		offset += (uint64_t)more * qp->mtu;
	} while (more && done < count);
	if (done < count)
		cursor_reset(&requester->gather);
	return done;
}

/* Of each packet: they are alike. */
static uint32_t size_of(const struct qp *qp)
{
	return BTH_BYTES + qp->mtu;
}

/* Room for several of those that are there, `most` of them; NULL, and then there is none. */
static uint8_t *reserve(const struct qp *qp, uint8_t opcode, uint32_t there, uint32_t most,
			struct outbox *outbox, uint32_t *count, uint32_t *stride)
{
	uint8_t *bytes;

	*count = there < most ? there : most;
	if (*count < 2 || !outbox->reserve_run)
		*count = 0;
	else
		*count = outbox->reserve_run(outbox, &qp->av, qp->attr.dest_qp_num, opcode,
					     size_of(qp), *count, &bytes, stride);
	return *count ? bytes : NULL;
}

static void commit(struct qp *qp, struct outbox *outbox, uint32_t count)
{
	uint32_t size = size_of(qp);

	outbox->commit_run(outbox, size, count, outbox->takes_sums);
	qp->requester->counters.sent_packets += count;
	qp->requester->counters.sent_bytes += (uint64_t)count * size;
}

/* The first of these begins the message, the last one ends it: if they do. */
static void name_ends(const struct qp *qp, const struct send_wqe *wqe,
		      const struct plain_operations *operations, uint8_t *first, uint8_t *last)
{
	const struct requester *requester = qp->requester;

	if (requester->psn == wqe->first_psn)
		first[0] = TRANSPORT_RC | operations->first;
	if (requester->end == psn_next(wqe->last_psn))
		last[0] = TRANSPORT_RC | operations->last;
}

uint32_t burst_send(struct qp *qp, const struct send_wqe *wqe, uint32_t most, struct outbox *outbox)
{
	struct requester *requester = qp->requester;
	struct plain_operations operations = operations_of(wqe->opcode);
	uint8_t opcode = TRANSPORT_RC | operations.middle, *bytes;
	struct packing packing;
	uint32_t count, stride;

	bytes =
	    reserve(qp, opcode, plain_packets(qp, wqe, &operations), most, outbox, &count, &stride);
	if (!bytes)
		return 0;
	packing = packing_of(qp, opcode, requester->psn, bytes, stride, outbox->takes_sums);
	count = fill(qp, wqe, &packing, count);
	if (!count)
		return 0;
	requester->end = psn_add(requester->psn, count);
	name_ends(qp, wqe, &operations, bytes, packing.bytes - stride);
	commit(qp, outbox, count);
	requester->since_ack_req += count;
	requester->psn = requester->end;
	requester->current += requester->end == psn_next(wqe->last_psn);
	return count;
}

static uint32_t plain_responses(const struct qp *qp, const struct response_job *job)
{
	if (job->kind != JOB_READ || !job->has_begun || qp->responder->owes_sign)
		return 0;
	return psn_into(job->last_psn, job->psn);
}

/* The region is looked up once for all of them: it stays as long as the lane's lock is held. */
static uint32_t fill_responses(struct qp *qp, const struct response_job *job,
			       struct packing *packing, uint32_t count)
{
	struct access access;
	uint32_t done;

	if (access_begin(qp, request_pd(qp, job->srqn), job->rkey, job->va,
			 (uint64_t)count * qp->mtu, IBV_ACCESS_REMOTE_READ, &access))
		return 0;
	done = pack_row(packing, access.place, count);
	access_end(&access);
	return done;
}

uint32_t burst_respond(struct qp *qp, struct response_job *job, uint32_t most,
		       struct outbox *outbox)
{
	uint8_t opcode = transport_of(qp) | OP_READ_RESPONSE_MIDDLE, *bytes;
	struct packing packing;
	uint32_t count, stride;

	bytes = reserve(qp, opcode, plain_responses(qp, job), most, outbox, &count, &stride);
	if (!bytes)
		return 0;
	packing = packing_of(qp, opcode, job->psn, bytes, stride, outbox->takes_sums);
	count = fill_responses(qp, job, &packing, count);
	if (!count)
		return 0;
	commit(qp, outbox, count);
	job->psn = psn_add(job->psn, count);
	job->va += (uint64_t)count * qp->mtu;
	job->left -= (uint64_t)count * qp->mtu;
	return count;
}
