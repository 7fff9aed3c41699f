/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The middle of a long SEND or WRITE over RC: packets that differ in their PSNs and their payload
 * alone, and that nobody waits for. So room for many is asked for at once, and their header is
 * packed once. What is not so plain (a packet that goes again, asks for an ACK, carries an
 * extension) goes by itself, request.c. So does one whose payload can't be had: it says why.
 */
#include "transport/build.h"
#include "transport/requester.h"
#include "wire/opcode.h"

static uint8_t middle_of(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
		return TRANSPORT_RC | OP_SEND_MIDDLE;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return TRANSPORT_RC | OP_WRITE_MIDDLE;
	default:
		return 0;
	}
}

/* How many of the next packets are such. */
static uint32_t plain_packets(const struct qp *qp, const struct send_wqe *wqe)
{
	const struct requester *requester = qp->requester;

	if (qp->type != IBV_QPT_RC || requester->recovery || qp->attr.rate_limit ||
	    wqe->is_inline || requester->psn == wqe->first_psn ||
	    requester->psn != requester->end || !middle_of(wqe->opcode))
		return 0;
	return psn_into(wqe->last_psn, requester->psn);
}

static uint32_t fill(struct qp *qp, const struct send_wqe *wqe, uint8_t *bytes, uint32_t stride,
		     uint32_t count)
{
	struct requester *requester = qp->requester;
	uint64_t offset = (uint64_t)psn_into(requester->psn, wqe->first_psn) * qp->mtu;
	struct bth bth = bth_of(qp, middle_of(wqe->opcode), requester->psn);
	struct sge_list list = wqe_list(qp, wqe);
	uint8_t header[BTH_BYTES];
	uint32_t done = 0;

	bth_pack(header, &bth);
	while (done < count &&
	       !payload_gather(&list, &requester->gather, offset, bytes + BTH_BYTES, qp->mtu)) {
		memcpy(bytes, header, BTH_BYTES);
		bth_set_psn(bytes, psn_add(bth.psn, done++));
		bytes += stride;
		offset += qp->mtu;
	}
	if (done < count)
		cursor_reset(&requester->gather);
	return done;
}

uint32_t burst_send(struct qp *qp, const struct send_wqe *wqe, uint32_t most, struct outbox *outbox)
{
	struct requester *requester = qp->requester;
	uint32_t count = plain_packets(qp, wqe), size = BTH_BYTES + qp->mtu, stride;
	uint8_t *bytes;

	count = count < most ? count : most;
	if (count < 2 || !outbox->reserve_run)
		return 0;
	count = outbox->reserve_run(outbox, &qp->av, qp->attr.dest_qp_num, size, count, &bytes,
				    &stride);
	if (count)
		count = fill(qp, wqe, bytes, stride, count);
	if (!count)
		return 0;
	outbox->commit_run(outbox, size, count);
	requester->counters.sent_packets += count;
	requester->counters.sent_bytes += (uint64_t)count * size;
	requester->since_ack_req += count;
	requester->psn = requester->end = psn_add(requester->psn, count);
	return count;
}
