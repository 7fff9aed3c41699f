/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Management datagrams between QP 1 and the processes of this host. A request for which nobody
 * listens, and a message to a process that is gone, are answered here, so that the peer need not
 * wait for its timeouts.
 */
#include <errno.h>
#include <string.h>

#include "device/adapter.h"
#include "engine/gsi.h"
#include "engine/meeting.h"
#include "engine/progress.h"
#include "engine/state.h"
#include "explain/reason.h"
#include "link/udp.h"
#include "wire/mad.h"
#include "wire/parse.h"

enum { ID_SLOT_SHIFT = 24 };

/* 0 or -ENOBUFS. */
static int send_mad(struct lane *lane, const struct av *av, const uint8_t *mad)
{
	struct outbox *outbox = udp_link_outbox(lane->link);
	size_t size = BTH_BYTES + DETH_BYTES + MAD_BYTES;
	struct bth bth = {
	    .opcode = TRANSPORT_UD | OP_SEND_ONLY,
	    .migreq = true,
	    .pkey = PKEY_DEFAULT,
	    .dest_qp = QPN_GSI,
	    .psn = lane->gsi_psn++ & 0xffffff,
	};
	struct deth deth = {.qkey = GSI_QKEY, .src_qp = QPN_GSI};
	uint8_t *p = outbox->reserve(outbox, av, size);

	if (!p)
		return -ENOBUFS;
	bth_pack(p, &bth);
	deth_pack(p + BTH_BYTES, &deth);
	memcpy(p + BTH_BYTES + DETH_BYTES, mad, MAD_BYTES);
	outbox->commit(outbox, size);
	return 0;
}

int engine_send_mad(struct adapter *adapter, const struct av *av, const uint8_t *mad)
{
	struct engine *engine = station_of(adapter)->engine;
	struct lane *lane = engine->lanes[0];
	int error;

	if (atomic_load_explicit(&engine->is_dead, memory_order_relaxed))
		return refuse(REASON_FORKED, NULL);
	lane_lock(lane);
	error = send_mad(lane, av, mad);
	lane_run(lane, lane_now());
	lane_unlock(lane);
	return -error;
}

uint32_t engine_slot(const struct adapter *adapter)
{
	return station_of(adapter)->engine->slot.number;
}

/* ---- what nobody here takes ---- */

static void answer(struct lane *lane, const struct packet *packet, const struct cm_mad *to,
		   struct cm_mad *mad)
{
	struct av av = {.dgid = packet->sgid, .sgid = packet->dgid, .hop_limit = 64};
	uint8_t bytes[MAD_BYTES];

	mad->transaction = to->transaction;
	mad->local_id = to->remote_id;
	mad->remote_id = to->local_id;
	if (mad->attribute == CM_SIDR_REP)
		mad->local_id = to->local_id;
	cm_mad_pack(bytes, mad);
	send_mad(lane, &av, bytes);
}

static void answer_for_nobody(struct lane *lane, const struct packet *packet,
			      const struct cm_mad *to)
{
	struct cm_mad mad = {.attribute = CM_REJ};

	switch (to->attribute) {
	case CM_REQ:
		mad.rej.reason = CM_REJ_INVALID_SERVICE_ID;
		break;
	case CM_REP:
		mad.rej.message = CM_REJECTED_REP;
		mad.rej.reason = CM_REJ_INVALID_COMM_ID;
		break;
	case CM_DREQ:
		mad.attribute = CM_DREP;
		break;
	case CM_SIDR_REQ:
		mad.attribute = CM_SIDR_REP;
		mad.sidr_rep.status = CM_SIDR_UNSUPPORTED;
		mad.sidr_rep.service_id = to->sidr_req.service_id;
		break;
	default:
		return;
	}
	answer(lane, packet, to, &mad);
}

/* ---- passing on ---- */

struct route {
	struct lane *lane;
	const union ibv_gid *gid;
	uint32_t scope;
	const struct packet *packet;
};

/* Whether somebody is there, be its mailbox full. */
static bool pass_on(const struct route *route, const struct mail_address *to)
{
	int error = meeting_forward(route->lane->engine->slot.fd, to, route->gid, route->scope,
				    route->packet);

	return error == 0 || error == -EAGAIN;
}

static bool pass_to_slot(const struct route *route, uint32_t slot)
{
	struct mail_address to;

	mail_address_of_manager(slot, &to);
	return pass_on(route, &to);
}

static bool pass_to_service(const struct route *route, uint64_t service_id)
{
	struct mail_address to;

	mail_address_of_service(service_id, &route->packet->dgid, &to);
	if (pass_on(route, &to))
		return true;
	mail_address_of_service(service_id, NULL, &to);
	return pass_on(route, &to);
}

/* A peer that gives up a request before it knows our id: whose it was is not said. */
static bool pass_to_all(const struct route *route)
{
	bool is_taken = false;

	for (uint32_t slot = 0; slot < QPN_SLOTS; slot++)
		is_taken |= pass_to_slot(route, slot);
	return is_taken;
}

void gsi_receive(struct lane *lane, struct adapter *adapter, const union ibv_gid *gid,
		 uint32_t scope, const struct packet *packet)
{
	struct route route = {lane, gid, scope, packet};
	struct wire_packet wire;
	struct cm_mad mad;
	bool is_taken;

	if (wire_parse(&wire, packet->bth, packet->length) != PARSE_OK ||
	    wire.bth.opcode != (TRANSPORT_UD | OP_SEND_ONLY) || wire.deth.qkey != GSI_QKEY ||
	    wire.bth.dest_qp != QPN_GSI ||
	    !cm_mad_unpack(&mad, wire.payload, wire.payload_length)) {
		atomic_fetch_add_explicit(&adapter->no_qp, 1, memory_order_relaxed);
		return;
	}
	if (mad.attribute == CM_REQ)
		is_taken = pass_to_service(&route, mad.req.service_id);
	else if (mad.attribute == CM_SIDR_REQ)
		is_taken = pass_to_service(&route, mad.sidr_req.service_id);
	else if (mad.attribute == CM_SIDR_REP)
		is_taken = pass_to_slot(&route, mad.local_id >> ID_SLOT_SHIFT);
	else if (mad.attribute == CM_REJ && mad.remote_id == 0)
		is_taken = pass_to_all(&route);
	else
		is_taken = pass_to_slot(&route, mad.remote_id >> ID_SLOT_SHIFT);
	if (!is_taken)
		answer_for_nobody(lane, packet, &mad);
}
