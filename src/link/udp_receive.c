/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From a socket to packets: a GRO batch is taken apart by its segment size, and each segment whose
 * ICRC is right is delivered where it lies. Asking for one message is cheapest when there is one or
 * none, for many when there are many: the batch doubles while it comes back full.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <netinet/udp.h>

#include "device/memory.h"
#include "link/syscalls.h"
#include "link/udp_link.h"
#include "wire/filled.h"

#ifndef IPV6_FLOWINFO
#define IPV6_FLOWINFO 11
#endif

int udp_receiver_init(struct udp_receiver *r)
{
	r->batch = 1;
	r->buffers = aligned_alloc(RECEIVE_ALIGNMENT, RECEIVE_BATCH * RECEIVE_BYTES);
	return r->buffers ? 0 : -ENOMEM;
}

void udp_receiver_fini(struct udp_receiver *r)
{
	free(r->buffers);
}

void udp_link_offer(struct udp_link *link)
{
	link->receiver.is_offering = memory_sums();
}

/* The kernel overwrites these lengths with each message. */
static void prepare(struct udp_receiver *r, int n)
{
	for (int i = 0; i < n; i++) {
		struct udp_message *m = r->messages + i;

		m->iov.iov_base = r->buffers + (size_t)i * RECEIVE_BYTES;
		m->iov.iov_len = RECEIVE_BYTES;
		r->headers[i].msg_hdr = (struct msghdr){
		    .msg_name = &m->address,
		    .msg_namelen = sizeof(m->address),
		    .msg_iov = &m->iov,
		    .msg_iovlen = 1,
		    .msg_control = m->control,
		    .msg_controllen = sizeof(m->control),
		};
	}
}

/* The number of messages, 0 for none. Errors are ICMP's echo of something sent, or none of our
 * business: none. */
static int take(struct udp_receiver *r, int fd)
{
	ssize_t got;

	prepare(r, r->batch);
	if (r->batch > 1)
		return recvmmsg(fd, r->headers, r->batch, MSG_DONTWAIT, NULL);
	got = socket_recvmsg(fd, &r->headers[0].msg_hdr, MSG_DONTWAIT);
	if (got < 0)
		return 0;
	r->headers[0].msg_len = got;
	return 1;
}

/*
 * A ping-pong comes back full each time that it is not empty, and has nothing behind: whoever found
 * that twice in a row asks for one message at a time for a while.
 */
static void adapt(struct udp_receiver *r, int got)
{
	if (got > 1)
		r->alone = r->singles = 0;
	if (got == r->batch) {
		if (got == 1 && r->singles > 0)
			r->singles--;
		else
			r->batch = 2 * got < RECEIVE_BATCH ? 2 * got : RECEIVE_BATCH;
		return;
	}
	if (got == 1 && ++r->alone >= ALONE_MAX)
		r->singles = SINGLES;
	r->batch = got > 1 ? got : 1;
}

static int control_int(const struct cmsghdr *c)
{
	int value = 0;

	/* IP_TOS alone comes as one byte. */
	if (c->cmsg_len == CMSG_LEN(1))
		return *CMSG_DATA(c);
	if (c->cmsg_len >= CMSG_LEN(sizeof(value)))
		memcpy(&value, CMSG_DATA(c), sizeof(value));
	return value;
}

/* What the kernel tells beside the bytes. Returns the segment size, 0 if the message is one packet.
 */
static uint32_t read_controls(struct msghdr *header, struct packet *packet)
{
	uint32_t segment = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		int value = control_int(c);

		if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO)
			segment = value;
		else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS)
			packet->traffic_class = value;
		else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL)
			packet->hop_limit = value;
		else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS)
			packet->traffic_class = value;
		else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_HOPLIMIT)
			packet->hop_limit = value;
		else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_FLOWINFO)
			packet->flow_label = ntohl(value) & 0xfffff;
	}
	return segment;
}

static void read_source(const union udp_sockaddr *from, struct packet *packet)
{
	if (from->any.sa_family == AF_INET) {
		packet->source_port = ntohs(from->in.sin_port);
		packet->sgid.raw[10] = packet->sgid.raw[11] = 0xff;
		memcpy(packet->sgid.raw + 12, &from->in.sin_addr, 4);
	} else {
		packet->source_port = ntohs(from->in6.sin6_port);
		memcpy(packet->sgid.raw, &from->in6.sin6_addr, 16);
	}
}

static void flow_of(struct icrc_flow *flow, const struct packet *packet)
{
	if (gid_is_ipv4(&packet->dgid))
		icrc_flow_ipv4(flow, packet->sgid.raw + 12, packet->dgid.raw + 12,
			       packet->source_port, ROCE_PORT);
	else
		icrc_flow_ipv6(flow, packet->sgid.raw, packet->dgid.raw, packet->source_port,
			       ROCE_PORT);
}

struct splitting {
	struct udp_link *link;
	struct packet packet;
	struct icrc_flow flow;
	const struct icrc_run *run; /* packets of this length; NULL: they are too few */
	bool is_offering;	    /* packets of the run */
	udp_deliver deliver;
	void *data;
};

static void begin_run(struct splitting *s, uint32_t segment, uint32_t total)
{
	struct udp_receiver *receiver = &s->link->receiver;
	struct icrc_run *run = &receiver->checking;

	if (total <= segment) {
		if (total >= BTH_BYTES + ICRC_BYTES)
			s->run = icrc_singles_run(&receiver->lone, &s->flow, total - ICRC_BYTES);
		return;
	}
	if (segment < BTH_BYTES + ICRC_BYTES ||
	    !icrc_run_pays(run, segment - ICRC_BYTES, total / segment))
		return;
	icrc_run_begin(run, &s->flow, segment - ICRC_BYTES);
	s->run = run;
	s->is_offering = receiver->is_offering;
}

static bool is_right(const struct splitting *s, const uint8_t *bytes, uint32_t length, uint16_t *id)
{
	uint32_t summed = length - ICRC_BYTES;

	if (s->run && s->run->length == summed &&
	    icrc_run_compute(s->run, bytes, *id) == get_le32(bytes + summed))
		return true;
	return icrc_is_right(&s->flow, bytes, length, id);
}

/* True if the packet may be delivered. *id is the identification expected, then the one found. */
static bool is_sound(const struct splitting *s, const uint8_t *bytes, uint32_t length, uint16_t *id)
{
	struct udp_link *link = s->link;

	if (length < BTH_BYTES + ICRC_BYTES || length % 4) {
		udp_count(&link->counters.malformed, 1);
		return false;
	}
	if (!is_right(s, bytes, length, id)) {
		udp_count(&link->counters.bad_icrc, 1);
		return false;
	}
	return true;
}

/* What waits for those that go on with it. */
static void pass_on(struct splitting *s)
{
	if (s->packet.bth)
		s->deliver(&s->packet, s->data);
	s->packet.bth = s->packet.ack = NULL;
	s->packet.more = 0;
}

/* All but PSN and payload is as in the packet before, which lies a segment before it. */
static bool goes_on(const struct splitting *s, const uint8_t *bytes, uint32_t length)
{
	const struct packet *first = &s->packet;
	const uint8_t *last = first->bth + (size_t)first->more * first->stride;

	return first->bth && bytes == last + first->stride && length == first->length &&
	       (first->more + 2) * length <= TRAIN_BYTES && udp_follows(last, bytes);
}

/* What comes in rows leaves by the train: it costs its receiver half as much. `ack` is what it came
 * behind, or NULL. */
static void add(struct splitting *s, const uint8_t *ack, const uint8_t *bytes, uint32_t length,
		uint32_t segment)
{
	if (!ack && goes_on(s, bytes, length)) {
		s->packet.more++;
		return;
	}
	pass_on(s);
	s->packet.ack = ack;
	s->packet.bth = bytes;
	s->packet.length = length;
	s->packet.stride = segment;
	if (!opcode_comes_in_rows(bytes[0]))
		pass_on(s);
}

/* An ACK and a packet behind it (join_ack() in udp.c): both are for the same QP. */
static bool is_joined(const uint8_t *bytes, uint32_t length)
{
	return length >= ACK_BYTES + BTH_BYTES &&
	       bth_dest_qp(bytes) == bth_dest_qp(bytes + ACK_BYTES);
}

/* One segment; `id` as for is_sound(). */
static void take_segment(struct splitting *s, uint8_t *bytes, uint32_t length, uint16_t *id)
{
	const uint32_t segment = length;
	const uint8_t *ack = NULL;
	bool is_taken = is_sound(s, bytes, length, id);

	++*id; /* the sender counts over its segments */
	if (!is_taken)
		return;
	length -= ICRC_BYTES;
	if (bytes[0] == OPCODE_FILLED && !packet_empty(bytes, &length)) {
		udp_count(&s->link->counters.malformed, 1);
		return;
	}
	if (bytes[0] == OPCODE_ACK_AND && is_joined(bytes, length)) {
		ack = bytes;
		bytes += ACK_BYTES;
		length -= ACK_BYTES;
	}
	udp_count(&s->link->counters.received_packets, 1);
	add(s, ack, bytes, length, segment);
}

/*
 * The identification that a message begins with is 0 where its sender is not connected, and one
 * more than that of his message before where he is. To find another one costs 0.2 us.
 */
static uint16_t expected_id(const struct udp_receiver *r, uint16_t port)
{
	return r->id && r->id_port == port ? r->id + 1 : 0;
}

static void remember_id(struct udp_receiver *r, uint16_t port, uint16_t id)
{
	r->id = id;
	r->id_port = port;
}

/* What goes on as the packet there may be taken in before it is checked. How many are. Where none
 * is, nothing else of the message is offered: it would be looked through anew for each packet. */
static uint32_t offer(struct splitting *s, uint8_t *bytes, uint32_t total, uint32_t segment,
		      uint16_t id)
{
	const struct udp_offer row = {s->run, bytes, total, segment, id};
	uint32_t opened;

	if (!s->is_offering || total < segment || !udp_may_offer(s->run, bytes))
		return 0;
	pass_on(s);
	opened = udp_offer(&s->link->receiver, &row, &s->packet, s->deliver, s->data);
	s->is_offering = opened > 0;
	udp_count(&s->link->counters.received_packets, opened);
	return opened;
}

/* As many packets as go together. How many. */
static uint32_t take_segments(struct splitting *s, uint8_t *bytes, uint32_t total, uint32_t segment,
			      uint16_t *id)
{
	uint32_t opened = offer(s, bytes, total, segment, *id);

	*id = (uint16_t)(*id + opened);
	if (opened)
		return opened;
	take_segment(s, bytes, total < segment ? total : segment, id);
	return 1;
}

/* Takes a message apart. Returns the number of packets in it, sound or not. */
static int split(struct splitting *s, uint8_t *bytes, uint32_t total, uint32_t segment)
{
	struct udp_receiver *receiver = &s->link->receiver;
	uint16_t id = expected_id(receiver, s->packet.source_port);
	uint32_t count = 0, taken, length;

	if (segment == 0)
		segment = total ? total : 1;
	flow_of(&s->flow, &s->packet);
	begin_run(s, segment, total);
	udp_count(&s->link->counters.received_bytes, total);
	do {
		taken = take_segments(s, bytes, total, segment, &id);
		if (!count)
			remember_id(receiver, s->packet.source_port, (uint16_t)(id - taken));
		length = taken * segment < total ? taken * segment : total;
		count += taken;
		bytes += length;
		total -= length;
	} while (total);
	pass_on(s);
	return (int)count;
}

static int split_message(struct udp_link *link, int index, const union ibv_gid *dgid,
			 udp_deliver deliver, void *data)
{
	struct msghdr *header = &link->receiver.headers[index].msg_hdr;
	struct splitting s = {
	    .link = link,
	    .packet = {.dgid = *dgid, .lane = link->lane},
	    .deliver = deliver,
	    .data = data,
	};
	uint32_t segment;

	read_source(header->msg_name, &s.packet);
	segment = read_controls(header, &s.packet);
	return split(&s, header->msg_iov->iov_base, link->receiver.headers[index].msg_len, segment);
}

int udp_receive(struct udp_link *link, int fd, const union ibv_gid *dgid, udp_deliver deliver,
		void *data)
{
	int messages = take(&link->receiver, fd), packets = 0;

	if (messages < 0)
		messages = 0;
	adapt(&link->receiver, messages);
	if (messages == 0)
		return 0;
	udp_count(&link->counters.receives, 1);
	for (int i = 0; i < messages; i++)
		packets += split_message(link, i, dgid, deliver, data);
	return packets;
}

int udp_receive_terse(struct udp_link *link, int fd, const union ibv_gid *dgid,
		      const union ibv_gid *peer, uint16_t port, udp_deliver deliver, void *data)
{
	struct splitting s = {
	    .link = link,
	    .packet = {.sgid = *peer, .dgid = *dgid, .source_port = port, .lane = link->lane},
	    .deliver = deliver,
	    .data = data,
	};
	ssize_t got = socket_recv(fd, link->receiver.buffers, RECEIVE_BYTES, MSG_DONTWAIT);

	if (got < 0)
		return 0;
	udp_count(&link->counters.receives, 1);
	return split(&s, link->receiver.buffers, (uint32_t)got, 0);
}
