/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What -v prints: packets, work requests and completions in virtual time.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sim.h"
#include "wire/aeth.h"
#include "wire/parse.h"
#include "wire/psn.h"

void trace(struct world *world, const char *format, ...)
{
	va_list values;

	if (!world->verbose)
		return;
	printf("%11.3f  ", world->now / 1000.0);
	va_start(values, format);
	vprintf(format, values);
	va_end(values);
	putchar('\n');
}

static void aeth_text(const struct wire_packet *packet, char *text, size_t size)
{
	static const char *const naks[] = {"PSN sequence", "invalid request", "remote access",
					   "remote operational"};
	uint8_t value = aeth_value(packet->aeth.syndrome);

	switch (aeth_kind(packet->aeth.syndrome)) {
	case AETH_ACK:
		snprintf(text, size, " ack msn %u", packet->aeth.msn);
		break;
	case AETH_RNR_NAK:
		snprintf(text, size, " RNR NAK timer %u msn %u", value, packet->aeth.msn);
		break;
	case AETH_NAK:
		snprintf(text, size, " NAK %s msn %u", value < 4 ? naks[value] : "?",
			 packet->aeth.msn);
		break;
	default:
		snprintf(text, size, " syndrome %02x", packet->aeth.syndrome);
	}
}

void trace_parcel(struct world *world, const struct parcel *parcel, const char *fate)
{
	struct wire_packet packet;
	struct express head;
	char text[64] = "", reth[64] = "";

	if (!world->verbose)
		return;
	if (parcel->is_express) {
		memcpy(&head, parcel->bytes, sizeof(head));
		trace(world,
		      "%d>%d #%-5u record flags %u qp %06x psn %06x ack %06x and %u, %u bytes%s",
		      parcel->from->index, parcel->to->index, parcel->number, express_flags(&head),
		      express_qpn(&head), head.psn & PSN_MASK, head.ack & PSN_MASK,
		      parcel->more_count, parcel->length, fate);
		return;
	}
	if (wire_parse(&packet, parcel->bytes, parcel->length)) {
		trace(world, "%d>%d #%u malformed, %u bytes%s", parcel->from->index,
		      parcel->to->index, parcel->number, parcel->length, fate);
		return;
	}
	if (packet.op->aeth_at)
		aeth_text(&packet, text, sizeof(text));
	if (packet.op->reth_at)
		snprintf(reth, sizeof(reth), " va %llx len %u", (unsigned long long)packet.reth.va,
			 packet.reth.length);
	trace(world, "%d>%d #%-5u %-22s qp %06x psn %06x%s%s %u bytes%s%s%s", parcel->from->index,
	      parcel->to->index, parcel->number, packet.op->name, packet.bth.dest_qp,
	      packet.bth.psn, packet.bth.ack_req ? " A" : "", packet.bth.solicited ? " S" : "",
	      packet.payload_length, text, reth, fate);
}

void trace_wc(struct endpoint *end, const struct ibv_wc *wc)
{
	static const char *const names[] = {
	    [IBV_WC_SUCCESS] = "success",
	    [IBV_WC_LOC_LEN_ERR] = "LOC_LEN_ERR",
	    [IBV_WC_LOC_QP_OP_ERR] = "LOC_QP_OP_ERR",
	    [IBV_WC_LOC_PROT_ERR] = "LOC_PROT_ERR",
	    [IBV_WC_WR_FLUSH_ERR] = "WR_FLUSH_ERR",
	    [IBV_WC_REM_INV_REQ_ERR] = "REM_INV_REQ_ERR",
	    [IBV_WC_REM_ACCESS_ERR] = "REM_ACCESS_ERR",
	    [IBV_WC_REM_OP_ERR] = "REM_OP_ERR",
	    [IBV_WC_RETRY_EXC_ERR] = "RETRY_EXC_ERR",
	    [IBV_WC_RNR_RETRY_EXC_ERR] = "RNR_RETRY_EXC_ERR",
	};
	const char *name = wc->status < sizeof(names) / sizeof(names[0]) ? names[wc->status] : NULL;

	trace(end->world, "     end %d completes %s %llx %s (%d) vendor %u, %u bytes", end->index,
	      wc->wr_id >> 63 ? "receive" : "send", (unsigned long long)wc->wr_id,
	      name ? name : "?", wc->status, wc->vendor_err, wc->byte_len);
}

void trace_ends(struct world *world)
{
	for (int i = 0; i < world->endpoint_count; i++) {
		const struct endpoint *end = world->endpoints[i];

		trace(
		    world,
		    "     end %d of node %d to %d: type %d, QP state %d, pair state %d, trouble "
		    "%d; "
		    "%u to send, %u sends and %u receives outstanding, %u of SRQ; messages %u of "
		    "%u came; inbound %u; drain %d %d, flushing %d %d, CQs of %u and %u entries%s",
		    end->index, end->node->index, end->peer ? end->peer->index : -1, end->type,
		    end->qp ? (int)end->qp->state : -1, end->pair ? (int)end->pair->state : -1,
		    end->pair ? (int)end->pair->trouble : 0, end->to_send, sends_outstanding(end),
		    end->recvs.count - end->recv_head, end->srq ? end->srq->outstanding : 0,
		    end->message_head, end->messages.count, end->inbound, end->is_drain_awaited,
		    end->is_drained, end->is_flushing, end->is_recv_dead,
		    (unsigned int)end->send_cq->cq->count, (unsigned int)end->recv_cq->cq->count,
		    end->send_cq->by_event || end->recv_cq->by_event ? ", by event" : "");
	}
}

const char *send_opcode_name(enum ibv_wr_opcode opcode)
{
	static const char *const names[] = {
	    [IBV_WR_RDMA_WRITE] = "WRITE",
	    [IBV_WR_RDMA_WRITE_WITH_IMM] = "WRITE_IMM",
	    [IBV_WR_SEND] = "SEND",
	    [IBV_WR_SEND_WITH_IMM] = "SEND_IMM",
	    [IBV_WR_RDMA_READ] = "READ",
	    [IBV_WR_ATOMIC_CMP_AND_SWP] = "COMPARE_SWAP",
	    [IBV_WR_ATOMIC_FETCH_AND_ADD] = "FETCH_ADD",
	    [IBV_WR_LOCAL_INV] = "LOCAL_INV",
	    [IBV_WR_BIND_MW] = "BIND_MW",
	    [IBV_WR_SEND_WITH_INV] = "SEND_INV",
	    [IBV_WR_FLUSH] = "FLUSH",
	    [IBV_WR_ATOMIC_WRITE] = "ATOMIC_WRITE",
	};

	return opcode < sizeof(names) / sizeof(names[0]) && names[opcode] ? names[opcode] : "?";
}
