/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The link. Packets leave one after another at the line's speed, and may be lost, doubled, delayed
 * out of order, corrupted (then the ICRC must find it), or find the receiver's buffer full.
 *
 * It is hard but fair: a retry counter of 7 may give up legally after eight losses, so between two
 * steps of progress of a connection's requests it disturbs no more often than the requester must
 * bear. It sees progress by watching ACKs and responses, and checks on the way that packets are
 * well formed and that no more READs and atomics are under way than agreed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "wire/aeth.h"
#include "wire/icrc.h"
#include "wire/parse.h"
#include "wire/psn.h"

/*
 * May the link do something to a packet of this stream? One of the retries may go to a loss from
 * before the last progress, so there is one less than the requester has.
 */
static bool may_disturb(const struct world *world, const struct endpoint *stream)
{
	return !stream || world->weather.no_mercy || stream->disturbances + 1 < stream->retry_cnt;
}

static bool may_disturb_both(const struct world *world, const struct parcel *parcel)
{
	return !parcel->more_count && may_disturb(world, parcel->stream) &&
	       may_disturb(world, parcel->other);
}

static void disturbed(const struct parcel *parcel)
{
	if (parcel->stream)
		parcel->stream->disturbances++;
	if (parcel->other)
		parcel->other->disturbances++;
}

bool world_is_lossy(const struct world *world)
{
	const struct weather *weather = &world->weather;

	return weather->loss || weather->corrupt || weather->rx_limit < 1 << 20;
}

struct node *node_of_gid(struct world *world, const union ibv_gid *gid)
{
	for (int i = 0; i < world->node_count; i++)
		if (!memcmp(&world->nodes[i].gid, gid, sizeof(*gid)))
			return &world->nodes[i];
	return NULL;
}

struct endpoint *endpoint_of_qpn(struct world *world, const struct node *node, uint32_t qpn)
{
	for (int i = 0; i < world->endpoint_count; i++) {
		struct endpoint *end = world->endpoints[i];

		if (end->node == node && end->qp && end->qp->number == qpn)
			return end;
	}
	return NULL;
}

/* ---- the outbox ---- */

enum { PACKET_MAX = HEADER_BYTES_MAX + 4096 + 3 };

static uint8_t *open_parcel(struct outbox_of_node *out, const struct av *av, size_t size,
			    size_t most)
{
	struct world *world = out->node->world;
	struct parcel *parcel;

	free(out->open);
	out->open = NULL;
	sim_check(world, size >= BTH_BYTES && size <= most, "a packet of %zu bytes", size);
	sim_check(world, !memcmp(&av->sgid, &out->node->gid, sizeof(av->sgid)),
		  "a packet from an address that is not the node's");
	parcel = malloc(sizeof(*parcel) + size + ICRC_BYTES);
	if (!parcel)
		abort();
	memset(parcel, 0, sizeof(*parcel));
	memset(parcel->bytes, 0xee, size + ICRC_BYTES);
	parcel->from = out->node;
	parcel->to = node_of_gid(world, &av->dgid);
	parcel->sgid = av->sgid;
	parcel->dgid = av->dgid;
	parcel->traffic_class = av->traffic_class | av->ecn;
	parcel->hop_limit = av->hop_limit;
	parcel->flow_label = av->flow_label;
	parcel->length = size;
	out->open = parcel;
	return parcel->bytes;
}

static uint8_t *reserve(struct outbox *outbox, const struct av *av, size_t size, size_t most)
{
	struct outbox_of_node *out = (struct outbox_of_node *)outbox;
	struct world *world = out->node->world;

	if (rng_chance(&world->host, world->weather.refusal))
		return NULL;
	return open_parcel(out, av, size, most);
}

uint8_t *net_reserve(struct outbox *outbox, const struct av *av, uint32_t dest_qp, size_t size)
{
	(void)dest_qp;
	return reserve(outbox, av, size, PACKET_MAX);
}

/* The packets of a run lie in a buffer until they are committed; from then on they are as others.
 */
uint32_t net_reserve_run(struct outbox *outbox, const struct av *av, uint32_t dest_qp,
			 uint8_t opcode, size_t size, uint32_t count, uint8_t **bytes,
			 uint32_t *stride)
{
	struct outbox_of_node *out = (struct outbox_of_node *)outbox;
	struct world *world = out->node->world;
	uint32_t room = RUN_BYTES / (size + ICRC_BYTES);

	(void)dest_qp;
	(void)opcode;
	free(out->open);
	out->open = NULL;
	if (rng_chance(&world->host, world->weather.refusal))
		return 0;
	out->run_av = *av;
	out->run_count = count < room ? count : room;
	memset(out->run, 0xee, out->run_count * (size + ICRC_BYTES));
	*bytes = out->run;
	*stride = size + ICRC_BYTES;
	return out->run_count;
}

static bool has_sum(const uint8_t *packet, size_t size)
{
	return icrc_sum(0, packet + BTH_BYTES, size - BTH_BYTES) == get_le32(packet + size);
}

void net_commit_run(struct outbox *outbox, size_t size, uint32_t count, bool is_summed)
{
	struct outbox_of_node *out = (struct outbox_of_node *)outbox;
	struct world *world = out->node->world;

	if (out->open) {
		sim_check(world,
			  count == 1 && outbox->takes_sums && has_sum(out->open->bytes, size),
			  "one packet as a run, but for its sum");
		net_commit(outbox, size);
		return;
	}
	sim_check(world, count <= out->run_count, "a commit of more than was reserved");
	sim_check(world, !is_summed || outbox->takes_sums, "sums that are not taken");
	out->run_count = 0;
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *packet = out->run + i * (size + ICRC_BYTES);

		sim_check(world, !is_summed || has_sum(packet, size),
			  "a sum that is not the payload's");
		memcpy(open_parcel(out, &out->run_av, size, PACKET_MAX), packet, size);
		net_commit(outbox, size);
	}
}

void *net_reserve_express(struct outbox *outbox, const struct av *av, uint32_t dest_qp, size_t size)
{
	(void)dest_qp;
	return reserve(outbox, av, size, sizeof(struct express) + EXPRESS_BYTES);
}

/* All are of one host. */
bool net_has_records(const struct outbox *outbox, const struct av *av, uint32_t dest_qp)
{
	(void)outbox, (void)av, (void)dest_qp;
	return true;
}

bool net_is_along(const struct outbox *outbox, const struct av *av, uint32_t dest_qp)
{
	const struct outbox_of_node *out = (const struct outbox_of_node *)outbox;

	(void)dest_qp;
	return out->open && !memcmp(&out->open->dgid, &av->dgid, sizeof(av->dgid));
}

/* ---- watching ---- */

static void watch_read_request(struct endpoint *stream, const struct wire_packet *packet)
{
	uint32_t psn = packet->bth.psn, last = psn, counted = 0;
	struct seen_read *read;

	if (packet->op->flags & OPF_READ_REQUEST && packet->reth.length)
		last = psn_add(psn, (packet->reth.length - 1) / stream->mtu);
	for (uint32_t i = 0; i < stream->read_count; i++) {
		read = &stream->reads[i];
		if (psn_diff(psn, read->last) <= 0)
			return; /* again */
		counted += read->is_counted;
	}
	if (psn_diff(psn, stream->acked) <= 0)
		return;
	if (stream->world->weather.is_hostile)
		return;
	sim_check(stream->world, stream->read_count < MAX_OUTSTANDING_READS, "too many reads");
	read = &stream->reads[stream->read_count++];
	read->next = psn;
	read->last = last;
	read->is_counted = packet->op->flags & (OPF_READ_REQUEST | OPF_ATOMIC);
	sim_check(stream->world, !read->is_counted || counted < stream->max_rd,
		  "end %d: %u READs and atomics under way, agreed were %u", stream->index,
		  counted + 1, stream->max_rd);
}

static void watch_leaving(struct parcel *parcel, const struct wire_packet *packet)
{
	struct endpoint *stream = parcel->stream;
	uint32_t flags = packet->op->flags;

	if (!stream)
		return;
	sim_check(stream->world, packet->payload_length <= stream->mtu || flags & OPF_OFFER,
		  "payload over the MTU");
	sim_check(
	    stream->world, !(flags & OPF_PAYLOAD_MTU) || packet->payload_length == stream->mtu,
	    "a first or middle packet of %u bytes at MTU %u", packet->payload_length, stream->mtu);
	if (flags & OPF_REQUEST) {
		stream->has_tried = true;
		sim_check(stream->world, !stream->is_drained, "a request while the SQ is drained");
		if (flags & (OPF_READ_REQUEST | OPF_ATOMIC | OPF_FLUSH | OPF_ATOMIC_WRITE))
			watch_read_request(stream, packet);
	}
}

static void progress(struct endpoint *stream, uint32_t upto)
{
	if (psn_diff(upto, stream->acked) <= 0)
		return;
	stream->acked = upto;
	stream->disturbances = 0;
	stream->rnr_naks = stream->rnr_tries = 0;
}

/*
 * What left before the first NAK came may bring another one, which finds the requester waiting. And
 * behind long READs one may say first that their answers are lost, which is not seen from here
 * where the requester had kept some of them.
 */
static void watch_rnr(struct endpoint *stream)
{
	const struct weather *weather = &stream->world->weather;
	bool is_plain = !weather->duplicate && !weather->reorder && !weather->is_hostile &&
			!weather->has_express && !weather->has_offers;

	if (++stream->rnr_naks > stream->most_rnr_naks)
		stream->most_rnr_naks = stream->rnr_naks;
	stream->rnr_tries += stream->has_tried;
	stream->has_tried = false;
	sim_check(stream->world,
		  stream->rnr_retry == 7 || !is_plain ||
		      stream->rnr_tries <= stream->rnr_retry + 1u,
		  "end %d tried again after %u RNR NAKs, rnr_retry is %u", stream->index,
		  stream->rnr_tries - 1, stream->rnr_retry);
}

/* An answer before its turn is kept until those before it are there, if the two know each other. */
static bool take_answer(struct endpoint *stream, uint32_t psn, bool is_here)
{
	uint8_t *byte = &stream->answered[psn % SEEN_ANSWERS / 8], bit = 1 << psn % 8;
	bool was_here = *byte & bit;

	*byte = is_here ? *byte | bit : *byte & ~bit;
	return was_here;
}

static void watch_answer(struct endpoint *stream, uint32_t psn)
{
	struct seen_read *read = stream->reads;

	do {
		take_answer(stream, psn, false);
		if (read->next == read->last)
			memmove(read, read + 1, --stream->read_count * sizeof(*read));
		else
			read->next = psn_next(read->next);
		progress(stream, psn);
		psn = read->next;
	} while (stream->read_count && take_answer(stream, psn, false));
}

/* What a response tells the requester: never more than up to the first response that is missing. */
static void watch_response(struct endpoint *stream, const struct wire_packet *packet)
{
	uint32_t upto = packet->bth.psn;
	struct seen_read *read = stream->reads;

	if (packet->op->flags & (OPF_READ_RESPONSE | OPF_ATOMIC_ACK)) {
		if (stream->read_count && upto == read->next) {
			watch_answer(stream, upto);
			return;
		}
		if (stream->is_selective && psn_diff(upto, read->next) > 0)
			take_answer(stream, upto, true);
	} else if (aeth_kind(packet->aeth.syndrome) != AETH_ACK) {
		upto = psn_add(upto, -1);
	}
	if (stream->read_count && psn_diff(upto, read->next) >= 0) {
		/* an answer before it is missing: that is what the requester sees first */
		progress(stream, psn_add(read->next, -1));
		return;
	}
	progress(stream, upto);
	if (packet->op->flags & OPF_ACK && aeth_kind(packet->aeth.syndrome) == AETH_RNR_NAK)
		watch_rnr(stream);
}

static void count_inbound(struct parcel *parcel, int by)
{
	if (parcel->dest)
		parcel->dest->inbound += by;
	for (uint32_t i = 0; i < parcel->more_count; i++)
		if (parcel->more[i])
			parcel->more[i]->inbound += by;
}

static struct express head_of(const struct parcel *parcel)
{
	struct express head;

	memcpy(&head, parcel->bytes, sizeof(head));
	return head;
}

/* The QPs that an ACK is for, first that of the head. */
static struct endpoint *dest_at(const struct parcel *parcel, uint32_t index)
{
	return index ? parcel->more[index - 1] : parcel->dest;
}

static void watch_record(const struct parcel *parcel)
{
	struct packet record = {.bth = parcel->bytes, .length = parcel->length};
	struct express head = head_of(parcel), one;
	struct wire_packet packet;

	for (uint32_t i = 0; i <= parcel->more_count; i++) {
		struct endpoint *end = dest_at(parcel, i);

		one = i ? express_ack_at(&record, &head, i) : head;
		if (end && end->peer && express_ack_packet(&one, &packet))
			watch_response(end, &packet);
	}
}

void net_arrived(struct node *node, struct parcel *parcel)
{
	struct wire_packet packet;

	trace_parcel(node->world, parcel, "  >");
	count_inbound(parcel, -1);
	if (parcel->is_express) {
		watch_record(parcel);
		return;
	}
	if (!parcel->stream || wire_parse(&packet, parcel->bytes, parcel->length))
		return;
	if (parcel->dest && (packet.bth.fecn || packet.bth.becn))
		parcel->dest->is_selective = true;
	if (packet.op->flags & OPF_RESPONSE)
		watch_response(parcel->stream, &packet);
}

/* ---- fate ---- */

void net_arrive(void *subject, uint64_t value)
{
	struct parcel *parcel = subject;
	struct node *node = parcel->to;
	struct world *world = node->world;
	bool may_drop = may_disturb_both(world, parcel);

	if (node->rx_count >= world->weather.rx_limit && may_drop) {
		trace_parcel(world, parcel, "  OVERFLOW");
		world->stats.overflowed++;
		disturbed(parcel);
		count_inbound(parcel, -1);
		free(parcel);
		return;
	}
	parcel->next = NULL;
	*node->rx_tail = parcel;
	node->rx_tail = &parcel->next;
	node->rx_count++;
	node_wake(node, 0);
}

static void launch(struct parcel *parcel, uint64_t at)
{
	count_inbound(parcel, 1);
	world_at(parcel->to->world, at, net_arrive, parcel, 0);
}

static void make_flow(const struct parcel *parcel, struct icrc_flow *flow)
{
	uint16_t port = 0xc000 + parcel->from->index;

	if (gid_is_ipv4(&parcel->sgid))
		icrc_flow_ipv4(flow, parcel->sgid.raw + 12, parcel->dgid.raw + 12, port, ROCE_PORT);
	else
		icrc_flow_ipv6(flow, parcel->sgid.raw, parcel->dgid.raw, port, ROCE_PORT);
}

/* Turns up to four bits over; a 32 bit CRC finds all of these at such lengths, and the packet is
 * lost. */
static void corrupt(struct world *world, struct parcel *parcel)
{
	struct icrc_flow flow;
	uint32_t sum, bits = rng_between(&world->link, 1, 4);
	uint8_t before[HEADER_BYTES_MAX + 4096 + 3];

	make_flow(parcel, &flow);
	sum = icrc_compute(&flow, parcel->bytes, parcel->length, 0);
	memcpy(before, parcel->bytes, parcel->length);
	while (bits--) {
		uint32_t bit = rng_below(&world->link, parcel->length * 8);

		if (bit / 8 == 4) /* reserved for FECN and BECN: not covered */
			bit += 8;
		parcel->bytes[bit / 8] ^= 1 << bit % 8;
	}
	sim_check(world,
		  !memcmp(before, parcel->bytes, parcel->length) ||
		      icrc_compute(&flow, parcel->bytes, parcel->length, 0) != sum,
		  "the ICRC does not see a corrupted packet");
	world->stats.corrupted++;
}

static struct parcel *copy_parcel(const struct parcel *parcel)
{
	size_t size = sizeof(*parcel) + parcel->length;
	struct parcel *copy = malloc(size);

	if (!copy)
		abort();
	memcpy(copy, parcel, size);
	return copy;
}

/* Somebody else's packet: this one with fields changed and the ICRC right. */
static void forge(struct world *world, const struct parcel *model)
{
	struct rng *rng = &world->link;
	struct parcel *parcel = copy_parcel(model);
	uint32_t changes = rng_between(rng, 1, 3);

	while (changes--) {
		switch (rng_below(rng, 5)) {
		case 0:
			parcel->bytes[0] = rng_next(rng);
			break;
		case 1:
			put_be24(parcel->bytes + 9,
				 bth_psn(parcel->bytes) + rng_between(rng, 0, 16) - 8);
			break;
		case 2:
			parcel->bytes[rng_below(rng, parcel->length)] = rng_next(rng);
			break;
		case 3: /* an extension, where keys, addresses and lengths stand */
			if (parcel->length > BTH_BYTES)
				parcel->bytes[BTH_BYTES +
					      rng_below(rng, parcel->length - BTH_BYTES) % 28] ^=
				    1 << rng_below(rng, 8);
			break;
		default:
			parcel->length = rng_below(rng, parcel->length + 1);
			changes = 0;
		}
	}
	world->stats.forged++;
	parcel->stream = NULL;
	launch(parcel, world->now + world->weather.delay + rng_below(rng, 2 * US));
}

static void drop(struct world *world, struct parcel *parcel, const char *why)
{
	trace_parcel(world, parcel, why);
	world->stats.dropped++;
	free(parcel);
}

/* Takes its place in the queue of the line; false if there is none. */
static bool enqueue(struct node *line, struct parcel *parcel)
{
	struct world *world = line->world;
	const struct weather *weather = &world->weather;
	uint32_t size = parcel->length + 64;
	uint64_t queue = 0;

	if (line->line_free < world->now)
		line->line_free = world->now;
	if (weather->ps_per_byte)
		queue = (line->line_free - world->now) * 1000 / weather->ps_per_byte + size;
	if (weather->line_limit && queue > weather->line_limit)
		return false;
	if (queue > world->stats.longest_queue)
		world->stats.longest_queue = queue;
	if (weather->mark_from && queue > weather->mark_from && parcel->traffic_class & 3) {
		parcel->traffic_class |= 3;
		world->stats.marked++;
	}
	line->line_free += (uint64_t)size * weather->ps_per_byte / 1000;
	return true;
}

static void travel(struct node *node, struct parcel *parcel)
{
	struct world *world = node->world;
	const struct weather *weather = &world->weather;
	struct rng *rng = &world->link;
	uint64_t *last = &node->last_arrival[parcel->to->index], at;
	bool has_mercy = !may_disturb_both(world, parcel);
	bool is_lost = rng_chance(rng, weather->loss);
	bool is_corrupt = rng_chance(rng, weather->corrupt);
	bool is_double = rng_chance(rng, weather->duplicate);
	bool is_late = rng_chance(rng, weather->reorder);
	uint64_t late = rng_below(rng, weather->span + 1),
		 again = rng_below(rng, weather->span + 1);

	if (!enqueue(node->line_of, parcel)) {
		world->stats.crowded++;
		drop(world, parcel, "  CROWDED OUT");
		return;
	}
	at = node->line_of->line_free + weather->delay + rng_below(rng, weather->jitter + 1);
	if (at < *last)
		at = *last;
	if (weather->is_hostile && !parcel->is_express && rng_chance(rng, 1000))
		forge(world, parcel);
	if (!has_mercy && (is_lost || is_corrupt || is_double || is_late))
		disturbed(parcel);
	if ((is_lost || is_corrupt) && !has_mercy) {
		if (!is_lost && !parcel->is_express)
			corrupt(world, parcel);
		drop(world, parcel, is_lost ? "  LOST" : "  CORRUPT");
		return;
	}
	if (is_double && !has_mercy) {
		world->stats.duplicated++;
		launch(copy_parcel(parcel), at + again);
	}
	if (is_late && !has_mercy) {
		world->stats.reordered++;
		trace_parcel(world, parcel, "  LATE");
		launch(parcel, at + late);
		return;
	}
	*last = at;
	launch(parcel, at);
}

static void route(struct world *world, struct parcel *parcel, const struct wire_packet *packet)
{
	struct endpoint *dest = NULL;

	if (parcel->to)
		dest = endpoint_of_qpn(world, parcel->to, packet->bth.dest_qp);
	parcel->dest = dest;
	if (dest && dest->peer)
		parcel->stream = packet->op->flags & OPF_REQUEST ? dest->peer : dest;
}

/* An ACK and a packet behind it (OPCODE_ACK_AND), which have fates of their own here. What arrives
 * together a link may deliver as one (join() in world.c). */
static void commit_joined(struct outbox *outbox, size_t size)
{
	struct outbox_of_node *out = (struct outbox_of_node *)outbox;
	const size_t ack = BTH_BYTES + AETH_BYTES;
	struct parcel *joined = out->open, *behind = copy_parcel(joined);

	sim_check(out->node->world, outbox->joins_acks && size >= ack + BTH_BYTES,
		  "an ACK with a packet that is not taken");
	joined->bytes[0] = TRANSPORT_RC | OP_ACKNOWLEDGE;
	net_commit(outbox, ack);
	memmove(behind->bytes, behind->bytes + ack, size - ack);
	out->open = behind;
	net_commit(outbox, size - ack);
}

void net_commit(struct outbox *outbox, size_t size)
{
	struct outbox_of_node *out = (struct outbox_of_node *)outbox;
	struct world *world = out->node->world;
	struct parcel *parcel = out->open;
	struct wire_packet packet;
	int error;

	sim_check(world, parcel, "a commit without a reservation");
	sim_check(world, size <= parcel->length, "a commit of more than was reserved");
	if (parcel->bytes[0] == OPCODE_ACK_AND) {
		commit_joined(outbox, size);
		return;
	}
	out->open = NULL;
	parcel->length = size;
	parcel->number = ++world->stats.packets;
	error = wire_parse(&packet, parcel->bytes, size);
	if (error || !packet.bth.migreq)
		trace_parcel(world, parcel, "  BAD");
	sim_check(world, !error, "a malformed packet: %s", parse_error_name(error));
	sim_check(world, packet.bth.migreq, "MigReq is 0");
	route(world, parcel, &packet);
	trace_parcel(world, parcel, "");
	watch_leaving(parcel, &packet);
	if (world->filter && world->filter(world, parcel, &packet)) {
		drop(world, parcel, "  FILTERED");
		return;
	}
	if (!parcel->to) {
		drop(world, parcel, "  NO SUCH NODE");
		return;
	}
	travel(out->node, parcel);
}

static void route_record(struct world *world, struct parcel *parcel)
{
	struct packet record = {.bth = parcel->bytes, .length = parcel->length};
	struct express head = head_of(parcel);
	uint8_t flags = express_flags(&head);

	parcel->dest = endpoint_of_qpn(world, parcel->to, express_qpn(&head));
	if (parcel->dest && parcel->dest->peer)
		parcel->stream = flags & EXPRESS_MESSAGE ? parcel->dest->peer : parcel->dest;
	if (flags & EXPRESS_MESSAGE && flags & EXPRESS_ACK)
		parcel->other = parcel->dest;
	if (!(flags & EXPRESS_MANY))
		return;
	parcel->more_count = express_count_acks(&record) - 1;
	for (uint32_t i = 0; i < parcel->more_count; i++) {
		struct express one = express_ack_at(&record, &head, i + 1);

		parcel->more[i] = endpoint_of_qpn(world, parcel->to, express_qpn(&one));
	}
}

static void check_record(const struct world *world, const struct parcel *parcel)
{
	struct express head = head_of(parcel);
	uint8_t flags = express_flags(&head);

	sim_check((struct world *)world, flags & (EXPRESS_MESSAGE | EXPRESS_ACK),
		  "a record for nothing");
	sim_check((struct world *)world,
		  !(flags & EXPRESS_MANY) || (!(flags & EXPRESS_MESSAGE) && parcel->more_count &&
					      parcel->more_count < EXPRESS_ACKS),
		  "a record of %u more ACKs, flags %#x", parcel->more_count, flags);
	sim_check((struct world *)world,
		  !(flags & EXPRESS_MESSAGE) || !parcel->stream || !parcel->stream->is_drained,
		  "a message while the SQ is drained");
	sim_check((struct world *)world,
		  !(flags & EXPRESS_MESSAGE) || !parcel->stream || head.mtu == parcel->stream->mtu,
		  "a record of path MTU %u", head.mtu);
}

void net_commit_express(struct outbox *outbox, size_t size)
{
	struct outbox_of_node *out = (struct outbox_of_node *)outbox;
	struct world *world = out->node->world;
	struct parcel *parcel = out->open;

	sim_check(world, parcel, "a commit without a reservation");
	sim_check(world, size <= parcel->length, "a commit of more than was reserved");
	out->open = NULL;
	parcel->length = size;
	parcel->is_express = true;
	parcel->number = ++world->stats.packets;
	world->stats.expressed++;
	sim_check(world, parcel->to, "a record to no node");
	route_record(world, parcel);
	check_record(world, parcel);
	world->stats.together += parcel->more_count;
	trace_parcel(world, parcel, "");
	travel(out->node, parcel);
}
