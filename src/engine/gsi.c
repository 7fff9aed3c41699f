/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Management datagrams between QP 1 and the processes of this host. Within the host they go by mail
 * from process to process; from other hosts they come in at any process, which passes them on. A
 * request for which nobody listens, and a message to a process that is gone, are answered here, so
 * that the peer need not wait for its timeouts.
 */
#include <errno.h>
#include <string.h>

#include "cm/cm.h"
#include "device/adapter.h"
#include "engine/gsi.h"
#include "engine/meeting.h"
#include "engine/progress.h"
#include "engine/state.h"
#include "explain/reason.h"
#include "link/udp.h"
#include "wire/mad.h"
#include "wire/parse.h"

#define PATIENCE (100 * UINT64_C(1000000)) /* with a mailbox that stays full */

enum { ID_SLOT_SHIFT = 24, MAD_PACKET_BYTES = BTH_BYTES + DETH_BYTES + MAD_BYTES };

/* Where a message is on its way. */
struct route {
	struct engine *engine;
	struct lane *lane; /* it came in there; NULL: from a process of this host */
	const union ibv_gid *gid;
	uint32_t scope;
	const struct packet *packet;
	bool waits; /* for room in a mailbox */
};

static void pack(uint8_t *bytes, uint32_t psn, const uint8_t *mad)
{
	struct bth bth = {
	    .opcode = TRANSPORT_UD | OP_SEND_ONLY,
	    .migreq = true,
	    .pkey = PKEY_DEFAULT,
	    .dest_qp = QPN_GSI,
	    .psn = psn & 0xffffff,
	};
	struct deth deth = {.qkey = GSI_QKEY, .src_qp = QPN_GSI};

	bth_pack(bytes, &bth);
	deth_pack(bytes + BTH_BYTES, &deth);
	memcpy(bytes + BTH_BYTES + DETH_BYTES, mad, MAD_BYTES);
}

/* To another host. 0 or -ENOBUFS. */
static int send_mad(struct lane *lane, const struct av *av, const uint8_t *mad)
{
	struct outbox *outbox = udp_link_outbox(lane->link);
	uint8_t *p = outbox->reserve(outbox, av, QPN_GSI, MAD_PACKET_BYTES);

	if (!p)
		return -ENOBUFS;
	pack(p, lane->gsi_psn++, mad);
	outbox->commit(outbox, MAD_PACKET_BYTES);
	return 0;
}

/* ---- passing on: 0, -ECONNREFUSED when nobody is there, -EAGAIN when the mailbox is full ---- */

static int pass_on(const struct route *route, const struct mail_address *to)
{
	return meeting_forward(route->engine->slot.fd, to, route->gid, route->scope, route->packet,
			       route->waits);
}

static int pass_to_slot(const struct route *route, uint32_t slot)
{
	struct mail_address to;

	mail_address_of_manager(slot, &to);
	return pass_on(route, &to);
}

/* On this address, on all of its family, on all: there is one of them at most. */
static int pass_to_service(const struct route *route, uint64_t service_id)
{
	const union ibv_gid *gid = &route->packet->dgid;
	struct mail_address to;
	int error;

	mail_address_of_service(service_id, gid, &to);
	error = pass_on(route, &to);
	if (error != -ECONNREFUSED)
		return error;
	mail_address_of_service_on_all(service_id, mail_family(gid), &to);
	error = pass_on(route, &to);
	if (error != -ECONNREFUSED)
		return error;
	mail_address_of_service_on_all(service_id, MAIL_IPV4 | MAIL_IPV6, &to);
	return pass_on(route, &to);
}

/* A peer that gives up a request before it knows our id: whose it was is not said. */
static int pass_to_all(const struct route *route)
{
	for (uint32_t slot = 0; slot < QPN_SLOTS; slot++)
		pass_to_slot(route, slot);
	return 0;
}

static int pass(const struct route *route, const struct cm_mad *mad)
{
	switch (mad->attribute) {
	case CM_REQ:
		return pass_to_service(route, mad->req.service_id);
	case CM_SIDR_REQ:
		return pass_to_service(route, mad->sidr_req.service_id);
	case CM_SIDR_REP:
		return pass_to_slot(route, mad->local_id >> ID_SLOT_SHIFT);
	case CM_REJ:
		if (mad->remote_id == 0)
			return pass_to_all(route);
		/* fall through */
	default:
		return pass_to_slot(route, mad->remote_id >> ID_SLOT_SHIFT);
	}
}

/* ---- what nobody here takes ---- */

static void answer(const struct route *route, const struct cm_mad *mad)
{
	const struct packet *packet = route->packet;
	struct av av = {.dgid = packet->sgid, .sgid = packet->dgid, .hop_limit = 64};
	uint8_t bytes[MAD_BYTES], whole[MAD_PACKET_BYTES];
	struct packet back = {.bth = whole,
			      .length = sizeof(whole),
			      .sgid = packet->dgid,
			      .dgid = packet->sgid,
			      .hop_limit = 64};
	struct route home = {route->engine, NULL, &back.dgid, route->scope, &back, false};

	cm_mad_pack(bytes, mad);
	if (route->lane) {
		send_mad(route->lane, &av, bytes);
		return;
	}
	pack(whole, 0, bytes);
	pass(&home, mad);
}

static void answer_for_nobody(const struct route *route, const struct cm_mad *to)
{
	struct cm_mad mad;

	if (cm_answer_for_nobody(to, &mad))
		answer(route, &mad);
}

/* ---- the two ways in ---- */

static void count(atomic_ulong *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

void engine_gsi_counters(const struct adapter *adapter, struct gsi_counters *counters)
{
	const struct engine *engine = station_of(adapter)->engine;

	counters->received = atomic_load_explicit(&engine->gsi_received, memory_order_relaxed);
	counters->malformed = atomic_load_explicit(&engine->gsi_malformed, memory_order_relaxed);
	counters->unclaimed = atomic_load_explicit(&engine->gsi_unclaimed, memory_order_relaxed);
	counters->dropped = atomic_load_explicit(&engine->gsi_dropped, memory_order_relaxed);
}

void gsi_receive(struct lane *lane, struct adapter *adapter, const union ibv_gid *gid,
		 uint32_t scope, const struct packet *packet)
{
	struct engine *engine = lane->engine;
	struct route route = {engine, lane, gid, scope, packet, lane_now() >= lane->gsi_patient_at};
	struct wire_packet wire;
	struct cm_mad mad;
	int error;

	count(&engine->gsi_received);

	if (wire_parse(&wire, packet->bth, packet->length) != PARSE_OK ||
	    wire.bth.opcode != (TRANSPORT_UD | OP_SEND_ONLY) || wire.deth.qkey != GSI_QKEY ||
	    wire.bth.dest_qp != QPN_GSI ||
	    !cm_mad_unpack(&mad, wire.payload, wire.payload_length)) {
		count(&adapter->no_qp);
		count(&engine->gsi_malformed);
		return;
	}
	error = pass(&route, &mad);
	if (error == -ECONNREFUSED) {
		count(&engine->gsi_unclaimed);
		answer_for_nobody(&route, &mad);
	} else if (error == -EAGAIN) {
		/* in a flood the lane's packets do not wait for it */
		count(&engine->gsi_dropped);
		lane->gsi_patient_at = lane_now() + PATIENCE;
	}
}

static bool is_here(struct engine *engine, const union ibv_gid *gid, uint32_t scope)
{
	bool is_ours;

	pthread_mutex_lock(&engine->stations_lock);
	is_ours = engine_find_adapter(engine, gid, scope) != NULL;
	pthread_mutex_unlock(&engine->stations_lock);
	return is_ours;
}

static int send_here(struct engine *engine, const struct av *av, uint32_t scope, const uint8_t *mad)
{
	uint8_t bytes[MAD_PACKET_BYTES];
	struct packet packet = {.bth = bytes,
				.length = sizeof(bytes),
				.sgid = av->sgid,
				.dgid = av->dgid,
				.flow_label = av->flow_label,
				.traffic_class = av->traffic_class,
				.hop_limit = av->hop_limit};
	struct route route = {engine, NULL, &packet.dgid, scope, &packet, false};
	struct cm_mad parsed;
	int error;

	if (!cm_mad_unpack(&parsed, mad, MAD_BYTES))
		return EINVAL;
	pack(bytes, 0, mad);
	error = pass(&route, &parsed);
	if (error == -ECONNREFUSED)
		answer_for_nobody(&route, &parsed);
	return error == -EAGAIN ? EAGAIN : 0;
}

int engine_send_mad(struct adapter *adapter, const struct av *av, const uint8_t *mad)
{
	struct station *station = station_of(adapter);
	struct engine *engine = station->engine;
	uint32_t scope = gid_scope(&av->dgid, station->info.ifindex);
	struct lane *lane = engine->lanes[0];
	int error;

	if (atomic_load_explicit(&engine->is_dead, memory_order_relaxed))
		return refuse(REASON_FORKED, NULL);
	if (is_here(engine, &av->dgid, scope))
		return send_here(engine, av, scope, mad);
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
