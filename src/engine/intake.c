/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets in: from a lane's sockets, from shared memory, and from who has taken in what is for this
 * lane. Each goes to its QP, or on to the process or the lane that it is for.
 */
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <urcu/compiler.h>

#include "device/adapter.h"
#include "device/qp.h"
#include "engine/express.h"
#include "engine/gsi.h"
#include "engine/intake.h"
#include "engine/line.h"
#include "engine/meeting.h"
#include "engine/parcel.h"
#include "engine/progress.h"
#include "engine/raw.h"
#include "engine/state.h"
#include "engine/steer.h"
#include "link/samehost.h"
#include "link/udp.h"
#include "transport/express.h"
#include "transport/transport.h"
#include "wire/headers.h"
#include "wire/opcode.h"

enum {
	LOOK_AROUND_EVERY = 8,	 /* polls: at all sockets, not only at the hot one */
	LOOK_AROUND_LATEST = 32, /* who finds something each time has better things to do */
	EVENTS = 16,
	INLET_LOOKS = 2, /* more, at an inlet, in one poll */
	TAKE_ROUNDS = 64,
};

struct intake {
	struct lane *lane;
	struct adapter *adapter;
	struct source *source; /* NULL: handed over */
	uint64_t now;
	struct qp *last;    /* the QP of the packets before, whose timer is still to be set */
	struct batch batch; /* its caller from a path's port only */
	int taken; /* packets of ours in it, one that came with another counted by itself */
};

/*
 * A batch is mostly of one QP: its timer is set once, at the batch's end. If it is to have its
 * turn, that sets it; until then the timer may go off too early, which harms nobody.
 */
static void touched(struct intake *in, struct qp *qp)
{
	if (in->last == qp)
		return;
	if (in->last && !atomic_load_explicit(&in->last->seat->is_queued, memory_order_relaxed))
		lane_retime(in->lane, in->last);
	in->last = qp && qp->seat ? qp : NULL;
}

static void take_in(struct intake *in, const struct packet *packet)
{
	touched(in, transport_receive(in->adapter, packet, in->now,
				      samehost_outbox(in->lane->samehost)));
}

static bool is_here(const struct engine *engine, struct adapter *adapter, uint32_t qpn)
{
	return qpn >> QPN_SLOT_SHIFT == engine->slot.number || adapter_find_qp(adapter, qpn);
}

/* Of a slot that we keep, not all QPs need be ours. */
static void forward(const struct intake *in, uint32_t qpn, const struct packet *packet)
{
	struct mail_address to;

	if (estates_have(&in->lane->engine->estates, qpn >> QPN_SLOT_SHIFT))
		mail_address_of_qp(station_of(in->adapter)->info.ifindex, qpn, &to);
	else
		mail_address_of_slot(qpn >> QPN_SLOT_SHIFT, &to);
	meeting_forward(in->lane->engine->slot.fd, &to, &in->source->gid, in->source->scope, packet,
			true);
}

/*
 * The steering program misses when a NIC's receive offload merged packets of several QPs, and when
 * a socket took a packet before the program was there.
 */
static void deliver_apart(struct intake *in, const struct packet *packet, uint32_t qpn)
{
	struct engine *engine = in->lane->engine;
	uint32_t lane = steer_lane(qpn, engine->lane_count);

	if (qpn == QPN_MULTICAST) {
		take_in(in, packet);
	} else if (qpn <= QPN_GSI) {
		gsi_receive(in->lane, in->adapter, &in->source->gid, in->source->scope, packet);
	} else if (!is_here(engine, in->adapter, qpn)) {
		in->batch.is_misled = true;
		forward(in, qpn, packet);
	} else {
		in->batch.is_misled = true;
		lane_hand_over(engine->lanes[lane], in->adapter, packet);
	}
}

static void deliver_each(struct intake *in, const struct packet *packet, uint32_t qpn)
{
	struct packet rest = *packet, single;
	uint8_t room[ACK_BYTES];

	if (rest.ack) {
		single = packet_part_ack(&rest, room);
		deliver_apart(in, &single, qpn);
	}
	do {
		single = packet_single(&rest);
		deliver_apart(in, &single, qpn);
	} while (packet_pass(&rest, 1));
}

static bool is_for_lane(const struct intake *in, uint32_t qpn)
{
	const struct engine *engine = in->lane->engine;

	return qpn != QPN_MULTICAST && qpn > QPN_GSI && is_here(engine, in->adapter, qpn) &&
	       steer_lane(qpn, engine->lane_count) == in->lane->index;
}

static void note_caller(struct intake *in, const struct packet *packet)
{
	if (!in->batch.caller.port && udp_is_path_port(packet->source_port))
		in->batch.caller = (struct caller){packet->sgid, packet->source_port};
}

static void open_row(struct intake *in, const struct packet *packet)
{
	struct qp *qp = transport_open(in->adapter, packet, in->now);

	if (!qp)
		return;
	note_caller(in, packet);
	in->taken += packet->seal->opened;
	touched(in, qp);
}

static void deliver(const struct packet *packet, void *data)
{
	struct intake *in = data;
	uint32_t qpn = bth_dest_qp(packet->bth);

	if (packet->seal) {
		if (is_for_lane(in, qpn))
			open_row(in, packet);
		return;
	}
	if (!is_for_lane(in, qpn)) {
		deliver_each(in, packet, qpn);
		return;
	}
	/* an inlet does not tell UD's hop limit */
	in->batch.is_misled |= packet->bth[0] >> 5 == TRANSPORT_UD >> 5;
	note_caller(in, packet);
	in->taken += 1 + packet->more + (packet->ack != NULL);
	take_in(in, packet);
}

static unsigned int receive(struct lane *lane, struct source *source, uint64_t now)
{
	struct intake in = {.lane = lane, .adapter = source->adapter, .source = source, .now = now};
	int count;

	if (source->is_raw)
		return raw_receive(lane, source, now);
	if (source->is_line)
		return line_receive(caa_container_of(source, struct line, source), now);
	if (source == &lane->inlet.source)
		count = inlet_receive(lane, deliver, &in);
	else
		count = udp_receive(lane->link, source->fd, &source->gid, deliver, &in);
	if (count <= 0)
		return 0;
	if (!source->is_shared)
		lane->hot = source;
	in.batch.is_turn = count == 1 && in.taken == 2;
	in.batch.is_others = in.batch.is_misled && !in.taken;
	count += inlet_mind(lane, source, &in.batch, deliver, &in);
	touched(&in, NULL);
	return (unsigned int)count;
}

static void *find_adapter(const union ibv_gid *dgid, uint32_t ifindex, void *data)
{
	const struct intake *in = data;
	struct source *source;

	cds_list_for_each_entry (source, &in->lane->sources, node)
		if (gid_is_same(&source->gid, dgid) && source->scope == gid_scope(dgid, ifindex))
			return source->adapter;
	return NULL;
}

static void deliver_near(const struct packet *packet, void *owner, void *data)
{
	struct intake *in = data;
	struct engine *engine = in->lane->engine;
	uint32_t qpn = packet->is_express ? express_qpn((const struct express *)packet->bth)
					  : bth_dest_qp(packet->bth);
	uint32_t lane = steer_lane(qpn, engine->lane_count);

	in->adapter = owner;
	if (!is_here(engine, in->adapter, qpn))
		return;
	if (lane != in->lane->index)
		lane_hand_over(engine->lanes[lane], in->adapter, packet);
	else
		take_in(in, packet);
}

unsigned int intake_near(struct lane *lane, uint64_t now)
{
	struct intake in = {.lane = lane, .now = now};
	unsigned int count;

	lane->is_telling_later = true;
	if (samehost_is_empty(lane->samehost))
		return 0;
	count = samehost_receive(lane->samehost, find_adapter, deliver_near, &in);
	touched(&in, NULL);
	return count;
}

void lane_take_near(struct lane *lane)
{
	for (int round = 0; round < TAKE_ROUNDS && intake_near(lane, lane_now()); round++)
		;
}

/* The socket of the group that a packet would have come in by. */
static struct source *source_at(struct lane *lane, const struct parcel *parcel)
{
	struct source *source;

	cds_list_for_each_entry (source, &lane->sources, node)
		if (source->adapter == parcel->adapter && source != &lane->inlet.source &&
		    !source->near_port && !source->is_raw && !source->is_line &&
		    !source->is_shared && gid_is_same(&source->gid, &parcel->packet.dgid))
			return source;
	return NULL;
}

/*
 * Without the steering program (VERBATIM_STEERING=hash) most comes so, by way of other processes.
 * It counts for the inlet as what came in here does, and once there is one, comes here. What is
 * still on its way is late then, which is a loss, once.
 */
static void take_parcel(struct lane *lane, const struct parcel *parcel, uint64_t now)
{
	const struct packet *packet = &parcel->packet;
	struct intake in = {.lane = lane, .adapter = parcel->adapter, .now = now};

	take_in(&in, packet);
	in.source = source_at(lane, parcel);
	if (in.source && udp_is_path_port(packet->source_port)) {
		in.batch.caller = (struct caller){packet->sgid, packet->source_port};
		inlet_mind(lane, in.source, &in.batch, deliver, &in);
	}
	touched(&in, NULL);
}

bool intake_parcels(struct lane *lane, uint64_t now)
{
	struct parcel *newest, *parcel = NULL;

	if (!atomic_load_explicit(&lane->parcels, memory_order_relaxed))
		return false;
	newest = atomic_exchange(&lane->parcels, NULL);
	while (newest) {
		struct parcel *next = newest->next;

		newest->next = parcel;
		parcel = newest;
		newest = next;
	}
	while (parcel) {
		struct parcel *next = parcel->next;

		take_parcel(lane, parcel, now);
		pool_give(&lane->engine->pool, parcel);
		parcel = next;
	}
	return true;
}

/* Than at an inlet that its poller has alone. */
static unsigned int look_elsewhere(struct lane *lane, uint64_t now, bool is_thread)
{
	struct epoll_event events[EVENTS];
	unsigned int count = 0;
	uint64_t ignored;
	int ready;

	lines_bury(lane);
	ready = epoll_wait(lane->epoll_fd, events, EVENTS, 0);

	for (int i = 0; i < ready; i++) {
		void *tag = events[i].data.ptr;

		if (tag == &lane->timer_fd) {
			if (read(lane->timer_fd, &ignored, sizeof(ignored)) > 0)
				lane->armed = UINT64_MAX;
		} else if (tag != &lane->kick_fd) {
			count += receive(lane, tag, now);
		} else if (is_thread && read(lane->kick_fd, &ignored, sizeof(ignored)) > 0) {
			atomic_exchange(&lane->is_kicked, false);
		}
	}
	return count;
}

unsigned int intake_everywhere(struct lane *lane, uint64_t now, bool is_thread)
{
	unsigned int count = 0;

	if (lane->inlet.is_apart)
		count = receive(lane, &lane->inlet.source, now);
	return count + look_elsewhere(lane, now, is_thread);
}

unsigned int intake_again(struct lane *lane, uint64_t now)
{
	return lane->hot ? receive(lane, lane->hot, now) : 0;
}

unsigned int intake_turn(struct lane *lane, uint64_t now, bool is_thread)
{
	unsigned int count = 0;

	if (is_thread && lane->is_flowing && lane->looks++ % LOOK_AROUND_EVERY)
		count = intake_again(lane, now);
	if (!count)
		count = intake_everywhere(lane, now, is_thread);
	lane->is_flowing = count;
	return count;
}

/* Nearly all comes by one socket: a look there costs less than the rest of a poll does. */
static bool inlet_is_hot(const struct lane *lane)
{
	return lane->inlet.parent && lane->hot == &lane->inlet.source &&
	       atomic_load_explicit(&lane->has_poller, memory_order_relaxed);
}

/* Where there is but one socket, that was it. */
static bool looks_around(struct lane *lane, bool has_found)
{
	if (!lane->hot)
		return true;
	if (++lane->looks < (has_found ? LOOK_AROUND_LATEST : LOOK_AROUND_EVERY))
		return false;
	lane->looks = 0;
	return lane->sources.next->next != &lane->sources;
}

unsigned int intake_look(struct lane *lane, uint64_t now, unsigned int *spent)
{
	bool has_left;
	unsigned int count = express_look(lane, &has_left);

	if (has_left)
		count += intake_near(lane, now);
	*spent += 1;
	if (count)
		lane_spare(lane);
	if (lane_is_spared(lane)) {
		lane_spare_less(lane);
		return count;
	}
	*spent += LANE_SOCKET_LOOK;
	count = intake_again(lane, now);
	for (int i = 0; i < INLET_LOOKS && !count && inlet_is_hot(lane); i++) {
		*spent += LANE_SOCKET_LOOK;
		count = receive(lane, lane->hot, now);
	}
	if (count && inlet_is_hot(lane))
		inlet_was_polled(lane);
	if (looks_around(lane, count > 0))
		count += inlet_is_hot(lane) ? look_elsewhere(lane, now, false)
					    : intake_everywhere(lane, now, false);
	return count;
}
