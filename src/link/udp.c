/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP link: its life, its local addresses, and the stage, where packets lie one after the other
 * as the transport wrote them and become runs: what one segmented send can carry.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/memory.h"
#include "link/udp_link.h"
#include "wire/filled.h"

static struct udp_link *link_of(struct outbox *outbox)
{
	return (struct udp_link *)((char *)outbox - offsetof(struct udp_link, outbox));
}

static struct udp_address *address_find(struct udp_link *link, const union ibv_gid *gid)
{
	struct udp_address *a = link->latest;

	if (a && gid_is_same(&a->gid, gid))
		return a;
	for (a = link->addresses; a; a = a->next) {
		if (gid_is_same(&a->gid, gid)) {
			link->latest = a;
			return a;
		}
	}
	return NULL;
}

static struct udp_address *address_get(struct udp_link *link, const union ibv_gid *gid)
{
	struct udp_address *a = address_find(link, gid);

	if (a)
		return a;
	a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	a->gid = *gid;
	a->way.fd = -1;
	a->next = link->addresses;
	link->addresses = a;
	return a;
}

static void address_close(struct udp_link *link, struct udp_address *address)
{
	udp_paths_close(&link->paths, address);
	if (address->way.fd >= 0)
		close(address->way.fd);
	address->way.fd = -1;
	address->way.traffic_class = 0;
}

/* With its socket open; NULL if that fails: no such address (any more), out of descriptors. */
static struct udp_address *address_of_sender(struct udp_link *link, const union ibv_gid *gid)
{
	struct udp_address *a = address_get(link, gid);

	if (a && a->way.fd < 0 && udp_socket_open_sender(a) < 0)
		return NULL;
	return a;
}

void udp_link_set_interface(struct udp_link *link, const union ibv_gid *sgid, uint32_t ifindex)
{
	struct udp_address *a = address_get(link, sgid);

	if (!a || a->ifindex == ifindex)
		return;
	/* The socket has the interface in its options, and its runs the socket. */
	udp_link_flush(link);
	address_close(link, a);
	a->ifindex = ifindex;
	a->no_gso = false;
}

void udp_link_set_near(struct udp_link *link, const union ibv_gid *sgid)
{
	struct udp_address *a = address_get(link, sgid);

	if (a)
		a->is_near = true;
}

uint16_t udp_near_port(uint32_t qpn)
{
	return NEAR_PORT_BASE + (qpn >> QPN_SLOT_SHIFT) * NEAR_PORTS + qpn % NEAR_PORTS;
}

/* Multicast goes to everybody's port. */
static uint16_t port_of(struct udp_link *link, const struct udp_address *from,
			const union ibv_gid *dgid, uint32_t dest_qp)
{
	const struct udp_address *to = from;

	if (!gid_is_same(&from->gid, dgid))
		for (to = link->addresses; to; to = to->next)
			if (gid_is_same(&to->gid, dgid))
				break;
	return to && to->is_near && dest_qp > QPN_GSI ? udp_near_port(dest_qp) : ROCE_PORT;
}

static bool is_same_way(const struct av *a, const struct av *b)
{
	return gid_is_same(&a->dgid, &b->dgid) && gid_is_same(&a->sgid, &b->sgid) &&
	       a->traffic_class == b->traffic_class && a->ecn == b->ecn &&
	       a->hop_limit == b->hop_limit;
}

/*
 * How long a packet of so many bytes is in the run; 0 if it can't join. One run is for one QP, as a
 * receiving host steers a segmented packet by its first header alone. A packet that is shorter than
 * those before ends its run, unless its receiver is one of ours: that takes it filled up.
 */
static uint32_t length_joined(const struct udp_link *link, const struct udp_run *run,
			      const struct av *av, uint32_t dest_qp, uint32_t bytes)
{
	bool can_fill = av->carrier_max && run->segment - bytes <= FILL_MAX &&
			link->used + run->segment <= STAGE_BYTES;
	uint32_t length = can_fill ? run->segment : bytes;

	if (run->last != run->segment || bytes > run->segment || run->dest_qp != dest_qp ||
	    run->count == link->segments_max || run->from->no_gso ||
	    link->used + length - run->offset > RUN_BYTES_MAX || !is_same_way(&run->av, av))
		return 0;
	return length;
}

/*
 * The last packet of a WRITE, which begins a run, and the first of the next WRITE, which is longer,
 * would be two runs: so it is as long from the start.
 */
static uint32_t length_alone(const struct av *av, uint8_t opcode, uint32_t bytes)
{
	const struct opcode *own = opcode_get(opcode), *first = own;
	uint32_t mtu = av->carrier_max - MTU_CARRIER;

	if (own->flags & OPF_WRITE)
		first = opcode_get(TRANSPORT_RC | OP_WRITE_FIRST);
	else if (own->flags & OPF_READ_RESPONSE)
		first = opcode_get(TRANSPORT_RC | OP_READ_RESPONSE_FIRST);
	if (!av->carrier_max || own->header_bytes >= first->header_bytes ||
	    bytes != own->header_bytes + mtu + ICRC_BYTES)
		return bytes;
	return first->header_bytes + mtu + ICRC_BYTES;
}

static bool is_ack(const uint8_t *bth)
{
	return bth[0] == (TRANSPORT_RC | OP_ACKNOWLEDGE);
}

/*
 * An ACK and the message after it, as a program that answers a message has us send them, become one
 * packet: half of what sending costs, and the peer's program sees no reply before its request has
 * completed, whatever the network does.
 */
static bool joins_ack(const struct udp_link *link, const struct udp_run *run, const struct av *av,
		      uint32_t dest_qp, uint32_t bytes)
{
	return run->count == 1 && run->segment == ACK_BYTES + ICRC_BYTES &&
	       bytes <= av->carrier_max && run->dest_qp == dest_qp &&
	       is_ack(link->stage + run->offset) && is_same_way(&run->av, av) &&
	       !length_joined(link, run, av, dest_qp, bytes);
}

/* It was written where the ACK's ICRC would be. */
static void join_ack(struct udp_link *link, struct udp_run *run, uint32_t bytes)
{
	link->stage[run->offset] = OPCODE_ACK_AND;
	run->segment = run->last = ACK_BYTES + bytes;
	link->used = run->offset + run->segment;
}

static uint8_t *stage_reserve(struct outbox *outbox, const struct av *av, uint32_t dest_qp,
			      size_t size)
{
	struct udp_link *link = link_of(outbox);

	link->reserved = link->reserved_run = 0;
	link->reserved_from = NULL;
	if (size < BTH_BYTES || size > PACKET_BYTES_MAX || !udp_lender_stage(link, av, dest_qp))
		return NULL;
	if (link->used + size + ICRC_BYTES > STAGE_BYTES || link->run_count == RUNS_MAX)
		udp_link_flush(link);
	if (link->used + size + ICRC_BYTES > STAGE_BYTES || link->run_count == RUNS_MAX)
		return NULL;
	link->reserved_av = *av;
	link->reserved = size;
	link->reserved_at = link->used;
	if (link->run_count &&
	    joins_ack(link, link->runs + link->run_count - 1, av, dest_qp, size + ICRC_BYTES))
		link->reserved_at -= ICRC_BYTES;
	return link->stage + link->reserved_at;
}

/* NULL: nothing can leave from there. */
static struct udp_address *sender_of(struct udp_link *link, const struct av *av)
{
	struct udp_address *from = address_of_sender(link, &av->sgid);

	return from && gid_is_ipv4(&from->gid) == gid_is_ipv4(&av->dgid) ? from : NULL;
}

/* Where the packet is now that is to be its first; there may be a sum behind it. */
static uint32_t move_to_begin(struct udp_link *link, size_t size)
{
	uint32_t at = udp_lender_begin(link, size + ICRC_BYTES);

	if (at != link->used)
		memmove(link->stage + at, link->stage + link->used, size + ICRC_BYTES);
	return at;
}

/* Of packets of `length` bytes, the first of which is at `at`, and none of which is in it yet. */
static struct udp_run *begin_run(struct udp_link *link, struct udp_address *from, uint32_t at,
				 uint32_t length)
{
	struct udp_run *run = link->runs + link->run_count;
	uint32_t dest_qp = bth_dest_qp(link->stage + at);

	/* field by field, which takes half of what it takes to make it whole first */
	run->from = from;
	run->av = link->reserved_av;
	run->dest_qp = dest_qp;
	run->port = port_of(link, from, &link->reserved_av.dgid, dest_qp);
	run->offset = at;
	run->segment = run->last = length;
	run->count = 0;
	memset(run->summed, 0, sizeof(run->summed));
	run->path = udp_path_for(link, from, &run->av, dest_qp, run->port);
	link->run_count++;
	link->used = at;
	return run;
}

static void stage_commit(struct outbox *outbox, size_t size)
{
	struct udp_link *link = link_of(outbox);
	struct udp_run *run = link->runs + link->run_count;
	uint32_t bytes = size + ICRC_BYTES, dest_qp, joined = 0, at;
	struct udp_address *from;

	if (size < BTH_BYTES || size > link->reserved)
		return;
	link->reserved = 0;
	if (link->reserved_at < link->used) {
		join_ack(link, run - 1, bytes);
		return;
	}
	dest_qp = bth_dest_qp(link->stage + link->used);
	if (link->run_count)
		joined = length_joined(link, run - 1, &link->reserved_av, dest_qp, bytes);
	if (joined) {
		if (joined > bytes)
			packet_fill(link->stage + link->used, size, joined - ICRC_BYTES);
		run[-1].count++;
		run[-1].last = joined;
		link->used += joined;
		return;
	}
	from = sender_of(link, &link->reserved_av);
	if (!from) {
		udp_count(&link->counters.send_drops, 1);
		return;
	}
	at = move_to_begin(link, size);
	joined = length_alone(&link->reserved_av, link->stage[at], bytes);
	if (joined > bytes && at + joined <= STAGE_BYTES) {
		packet_fill(link->stage + at, size, joined - ICRC_BYTES);
		bytes = joined;
	}
	begin_run(link, from, at, bytes)->count = 1;
	link->used += bytes;
}

/*
 * One that is to have an ACK before it. Its sum has to begin with that one's AETH, and so is moved;
 * by tables, which only pay if such packets have the same length one after the other.
 */
static bool may_join_summed(struct udp_link *link, const struct udp_run *run, const struct av *av,
			    uint32_t dest_qp, size_t size)
{
	bool is_again = link->joined_size == size;

	if (link->used + size > STAGE_BYTES ||
	    !joins_ack(link, run, av, dest_qp, size + ICRC_BYTES))
		return false;
	link->joined_size = size;
	if (is_again)
		icrc_shift_begin(&link->joined, size - BTH_BYTES);
	return is_again;
}

/* How many more of that length the stage has room for, and a run that has so many bytes and
 * packets.
 */
static uint32_t room_behind(const struct udp_link *link, uint32_t at, uint32_t length,
			    uint32_t run_bytes, uint32_t run_packets)
{
	uint32_t bytes = RUN_BYTES_MAX - run_bytes, packets = link->segments_max - run_packets;

	if (bytes > STAGE_BYTES - at)
		bytes = STAGE_BYTES - at;
	return bytes / length < packets ? bytes / length : packets;
}

/* No run takes them: theirs is to begin. */
static uint32_t reserve_new_run(struct outbox *outbox, const struct av *av, uint32_t dest_qp,
				uint8_t opcode, size_t size, uint32_t *stride)
{
	struct udp_link *link = link_of(outbox);
	uint32_t room;

	if (!stage_reserve(outbox, av, dest_qp, size))
		return 0;
	link->reserved = 0;
	link->reserved_from = link->reserved_at == link->used ? sender_of(link, av) : NULL;
	if (!link->reserved_from)
		return 0;
	*stride = length_alone(av, opcode, size + ICRC_BYTES);
	link->reserved_at = udp_lender_begin(link, *stride);
	link->reserved_length = *stride;
	room = room_behind(link, link->reserved_at, *stride, 0, 0);
	return room && link->reserved_from->no_gso ? 1 : room;
}

static uint32_t stage_reserve_run(struct outbox *outbox, const struct av *av, uint32_t dest_qp,
				  uint8_t opcode, size_t size, uint32_t count, uint8_t **bytes,
				  uint32_t *stride)
{
	struct udp_link *link = link_of(outbox);
	const struct udp_run *run = link->runs + link->run_count - 1;
	uint32_t joined = 0, room;

	link->reserved = link->reserved_run = 0;
	link->reserved_from = NULL;
	link->reserved_at = link->used;
	if (link->run_count && count == 1 && may_join_summed(link, run, av, dest_qp, size)) {
		link->reserved_at -= ICRC_BYTES;
		*bytes = link->stage + link->reserved_at;
		return link->reserved_run = 1;
	}
	if (link->run_count)
		joined = length_joined(link, run, av, dest_qp, size + ICRC_BYTES);
	if (!joined) {
		room = reserve_new_run(outbox, av, dest_qp, opcode, size, stride);
	} else if (joined == run->segment) {
		room = room_behind(link, link->used, joined, link->used - run->offset, run->count);
		*stride = joined;
	} else {
		return 0;
	}
	*bytes = link->stage + link->reserved_at;
	link->reserved_run = count < room ? count : room;
	return link->reserved_run;
}

/* `count` packets, each of `size` bytes, up to the length of those before. Sums move behind what is
 * filled in, which is the same as long as their opcode is. */
static void fill_up(struct udp_link *link, uint32_t size, uint32_t count, bool is_summed)
{
	const struct udp_run *run = link->runs + link->run_count - 1;
	uint32_t length = run->segment - ICRC_BYTES, fill_bytes = length - size, added = 0;
	uint8_t *packet = link->stage + link->used, fill[FILL_MAX], opcode = OPCODE_FILLED;

	icrc_shift_begin(&link->filling, fill_bytes);
	for (uint32_t i = 0; i < count; i++, packet += run->segment) {
		uint32_t sum = get_le32(packet + size);

		if (packet[0] != opcode) {
			opcode = packet[0];
			fill_make(fill, opcode, fill_bytes);
			added = icrc_sum(0, fill, fill_bytes);
		}
		fill_put(fill, fill_bytes, packet, size);
		if (is_summed)
			put_le32(packet + length, icrc_shift(&link->filling, sum) ^ added);
	}
}

static void join_sum(struct udp_link *link, struct udp_run *run, size_t size)
{
	uint8_t *packet = link->stage + link->reserved_at;
	uint32_t before = icrc_sum(0, packet - AETH_BYTES, AETH_BYTES + BTH_BYTES);

	put_le32(packet + size, get_le32(packet + size) ^ icrc_shift(&link->joined, before));
	run->summed[0] = 1;
}

/* Its sum serves if it is a run of its own, as it mostly is; else all of it is summed anew. */
static void commit_one(struct udp_link *link, size_t size, bool is_summed)
{
	uint32_t runs = link->run_count;
	struct udp_run *run = link->runs + runs;

	stage_commit(&link->outbox, size);
	if (is_summed && link->run_count > runs && run->segment == size + ICRC_BYTES)
		run->summed[0] = 1;
}

static void stage_commit_run(struct outbox *outbox, size_t size, uint32_t count, bool is_summed)
{
	struct udp_link *link = link_of(outbox);
	struct udp_run *run = link->runs + link->run_count - 1;

	if (link->reserved) {
		commit_one(link, size, is_summed);
		return;
	}
	if (!count || count > link->reserved_run)
		return;
	link->reserved_run = 0;
	if (link->reserved_from)
		run =
		    begin_run(link, link->reserved_from, link->reserved_at, link->reserved_length);
	if (link->reserved_at < link->used) {
		if (is_summed)
			join_sum(link, run, size);
		join_ack(link, run, size + ICRC_BYTES);
		return;
	}
	if (size < run->segment - ICRC_BYTES)
		fill_up(link, size, count, is_summed);
	for (uint32_t i = run->count; i < run->count + count && is_summed; i++)
		run->summed[i / 64] |= 1ull << i % 64;
	run->count += count;
	link->used += count * run->segment;
}

bool udp_link_flush(struct udp_link *link)
{
	bool all = link->run_count == 0 || udp_send_runs(link);

	if (all) {
		udp_lender_move_on(link);
		link->used = 0;
	}
	return all;
}

struct outbox *udp_link_outbox(struct udp_link *link)
{
	return &link->outbox;
}

uint64_t udp_link_sends(const struct udp_link *link)
{
	return __atomic_load_n(&link->counters.sends, __ATOMIC_RELAXED);
}

void udp_link_counters(const struct udp_link *link, struct udp_counters *counters)
{
	const uint64_t *from = (const uint64_t *)&link->counters;
	uint64_t *to = (uint64_t *)counters;

	for (size_t i = 0; i < sizeof(*counters) / sizeof(*to); i++)
		to[i] = __atomic_load_n(from + i, __ATOMIC_RELAXED);
}

int udp_link_open(uint8_t lane, struct udp_link **result)
{
	struct udp_link *link = calloc(1, sizeof(*link));

	if (!link)
		return -ENOMEM;
	link->outbox = (struct outbox){.reserve = stage_reserve,
				       .commit = stage_commit,
				       .reserve_run = stage_reserve_run,
				       .commit_run = stage_commit_run,
				       .takes_sums = memory_sums(),
				       .joins_acks = true};
	link->lane = lane;
	link->segments_max = SEGMENTS_MAX;
	link->stage = aligned_alloc(64, STAGE_BYTES);
	if (!link->stage || udp_receiver_init(&link->receiver) < 0) {
		udp_link_close(link);
		return -ENOMEM;
	}
	*result = link;
	return 0;
}

void udp_link_without_paths(struct udp_link *link)
{
	link->paths.is_off = true;
}

void udp_link_close(struct udp_link *link)
{
	struct udp_address *a;

	if (!link)
		return;
	while ((a = link->addresses)) {
		link->addresses = a->next;
		address_close(link, a);
		free(a);
	}
	udp_receiver_fini(&link->receiver);
	udp_lender_fini(link);
	free(link);
}

void udp_link_abandon(struct udp_link *link)
{
	for (struct udp_address *a = link->addresses; a; a = a->next)
		if (a->way.fd >= 0)
			close(a->way.fd);
	udp_paths_close(&link->paths, NULL);
	udp_lender_abandon(link);
}
