/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From runs to system calls: each run gets its ICRCs and goes out as one segmented send, those of
 * one socket by one sendmmsg(): a system call may cost as much as a tenth of what it does. Segment
 * k of a send has the IPv4 identification k, so an ICRC is right for one way of sending only: when
 * the kernel refuses a segmented send, its packets are sealed anew for what replaces it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include <netinet/udp.h>

#include "link/syscalls.h"
#include "link/udp_link.h"

/* Part of a run: `count` packets from `first` on, which is again a run. */
static struct udp_run run_slice(const struct udp_run *run, uint32_t first, uint32_t count)
{
	struct udp_run slice = *run;

	slice.offset += first * run->segment;
	slice.count = count;
	if (first + count < run->count)
		slice.last = run->segment;
	if (count == 1)
		slice.segment = slice.last;
	return slice;
}

static struct udp_way *way_of(const struct udp_run *run)
{
	return run->path && !run->path->is_dead ? &run->path->way : &run->from->way;
}

static void run_flow(const struct udp_run *run, struct icrc_flow *flow)
{
	const union ibv_gid *from = &run->from->gid, *to = &run->av.dgid;
	uint16_t port = way_of(run)->port;

	if (gid_is_ipv4(from))
		icrc_flow_ipv4(flow, from->raw + 12, to->raw + 12, port, ROCE_PORT);
	else
		icrc_flow_ipv6(flow, from->raw, to->raw, port, ROCE_PORT);
}

/* Of the length of its run, which has begun. */
static void seal_alike(struct udp_link *link, bool is_summed, uint8_t *bytes, uint16_t id)
{
	if (is_summed)
		icrc_summed_seal(&link->sealing_summed, &link->sealing, bytes, id);
	else
		icrc_run_seal(&link->sealing, bytes, id);
}

/* A message with an ACK before it, that was summed as it was copied: flow, kind and length are
 * mostly those of the one before. */
static void seal_joined(struct udp_link *link, const struct udp_run *run,
			const struct icrc_flow *flow, uint16_t id)
{
	icrc_run_resume(&link->joined_run, flow, run->segment - ICRC_BYTES);
	icrc_summed_seal(&link->joined_summed, &link->joined_run, link->stage + run->offset, id);
}

static void seal_lone(struct udp_link *link, const struct udp_run *run,
		      const struct icrc_flow *flow, uint16_t id)
{
	uint8_t *bytes = link->stage + run->offset;
	uint32_t length = run->segment - ICRC_BYTES;
	const struct icrc_run *alike = icrc_singles_run(&link->lone, flow, length);

	if (alike && run->summed[0])
		icrc_summed_seal(&link->lone_summed, alike, bytes, id);
	else if (alike)
		icrc_run_seal(alike, bytes, id);
	else
		icrc_seal(flow, bytes, length, id);
}

/* `id` is the identification that its first packet will have. The ICRCs overwrite sums, so these
 * serve once. */
static void run_seal(struct udp_link *link, struct udp_run *run, uint16_t id)
{
	uint8_t *bytes = link->stage + run->offset;
	uint32_t length = run->segment - ICRC_BYTES, alike = 0, k = 0;
	struct icrc_flow flow;

	run_flow(run, &flow);
	if (run->count == 1) {
		if (run->summed[0] && bytes[0] == OPCODE_ACK_AND)
			seal_joined(link, run, &flow, id);
		else
			seal_lone(link, run, &flow, id);
		run->summed[0] = 0;
		return;
	}
	if (icrc_run_pays(&link->sealing, length, run->count)) {
		icrc_run_begin(&link->sealing, &flow, length);
		alike = run->last == run->segment ? run->count : run->count - 1;
	}
	for (; k < alike; k++, bytes += run->segment)
		seal_alike(link, run->summed[k / 64] >> k % 64 & 1, bytes, (uint16_t)(id + k));
	for (; k + 1 < run->count; k++, bytes += run->segment)
		icrc_seal(&flow, bytes, length, (uint16_t)(id + k));
	if (k < run->count)
		icrc_seal(&flow, bytes, run->last - ICRC_BYTES, (uint16_t)(id + k));
	memset(run->summed, 0, sizeof(run->summed));
}

static uint8_t traffic_class_of(const struct av *av)
{
	return av->traffic_class | av->ecn;
}

/* A control message takes the kernel 0.2 us a send; and to one peer, or one kind of peers, the
 * class is always the same. */
static void set_traffic_class(const struct udp_run *run)
{
	struct udp_way *way = way_of(run);
	bool is_ipv4 = gid_is_ipv4(&run->from->gid);
	int value = traffic_class_of(&run->av);

	if (value != way->traffic_class &&
	    setsockopt(way->fd, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6, is_ipv4 ? IP_TOS : IPV6_TCLASS,
		       &value, sizeof(value)) == 0)
		way->traffic_class = value;
}

/* Appends a control message; the buffer has room for the three that there are. */
static void put_control(struct msghdr *header, int level, int type, const void *data, size_t size)
{
	struct cmsghdr *c =
	    (struct cmsghdr *)((uint8_t *)header->msg_control + header->msg_controllen);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(size);
	memcpy(CMSG_DATA(c), data, size);
	header->msg_controllen += CMSG_SPACE(size);
}

static void put_ip_controls(struct msghdr *header, const struct udp_run *run)
{
	const struct av *av = &run->av;
	bool is_ipv4 = gid_is_ipv4(&run->from->gid);
	int value = traffic_class_of(av);

	if (value != way_of(run)->traffic_class)
		put_control(header, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6,
			    is_ipv4 ? IP_TOS : IPV6_TCLASS, &value, sizeof(value));
	value = av->hop_limit;
	if (value && value != HOP_LIMIT_DEFAULT)
		put_control(header, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6,
			    is_ipv4 ? IP_TTL : IPV6_HOPLIMIT, &value, sizeof(value));
}

/* The socket would cut it, as it does the runs that say nothing. */
static bool wants_uncut(const struct udp_way *way, const struct udp_run *run)
{
	return run->count == 1 && way->segment && way->segment < run->segment;
}

/* Seals the run and describes it to the kernel; `ahead` sends will leave by its socket before. */
static void run_prepare(struct udp_link *link, struct udp_run *run, uint32_t ahead,
			struct msghdr *header, struct udp_message *message)
{
	struct udp_way *way = way_of(run);
	uint16_t segment = run->segment;

	run_seal(link, run, way->is_connected ? (uint16_t)(way->id + ahead) : 0);
	message->iov.iov_base = link->stage + run->offset;
	message->iov.iov_len = udp_run_bytes(run);
	*header = (struct msghdr){
	    .msg_iov = &message->iov,
	    .msg_iovlen = 1,
	    .msg_control = message->control,
	};
	if (!way->is_connected) {
		header->msg_name = &message->address;
		header->msg_namelen = udp_sockaddr_of(&message->address, &run->av.dgid, run->port,
						      run->from->ifindex);
	}
	put_ip_controls(header, run);
	if (wants_uncut(way, run))
		udp_way_cut(way, 0);
	if (run->count > 1 && way->segment != segment)
		put_control(header, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment));
	if (!header->msg_controllen)
		header->msg_control = NULL;
}

static bool is_full(int error)
{
	return error == EAGAIN || error == EWOULDBLOCK;
}

static void count_sent(struct udp_link *link, const struct udp_run *run)
{
	way_of(run)->id++;
	udp_count(&link->counters.sent_packets, run->count);
	udp_count(&link->counters.sent_bytes, udp_run_bytes(run));
}

/* One send call for one run. 0 or a positive errno. */
static int send_one(struct udp_link *link, struct udp_run *run)
{
	struct udp_message message;
	struct msghdr header;
	ssize_t sent;

	run_prepare(link, run, 0, &header, &message);
	do
		sent = sendmsg(way_of(run)->fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return errno;
	udp_count(&link->counters.sends, 1);
	count_sent(link, run);
	return 0;
}

/*
 * The kernel refused this run as one send. Send it in pieces of `size`. Returns how many packets
 * went out before the first piece that failed.
 */
static uint32_t send_pieces(struct udp_link *link, const struct udp_run *run, uint32_t size)
{
	uint32_t done = 0;

	while (done < run->count) {
		uint32_t count = run->count - done < size ? run->count - done : size;
		struct udp_run piece = run_slice(run, done, count);

		if (send_one(link, &piece) != 0)
			break;
		done += count;
	}
	return done;
}

/*
 * Older kernels take 64 segments; some devices (no checksum offload: EIO) and ways (IPsec) take
 * none. Which it was shows by what works, and is remembered. What fails even alone (no route,
 * packet beyond the path MTU) is lost.
 */
static void send_refused(struct udp_link *link, const struct udp_run *run)
{
	uint32_t done = 0;

	if (run->count > SEGMENTS_MAX_OLD) {
		done = send_pieces(link, run, SEGMENTS_MAX_OLD);
		if (done)
			link->segments_max = SEGMENTS_MAX_OLD;
	}
	if (done == 0 && run->count > 1) {
		done = send_pieces(link, run, 1);
		if (done)
			run->from->no_gso = true;
	}
	udp_count(&link->counters.send_drops, run->count - done);
}

/* Runs [first, first + the result) leave by the same socket, copied. */
static uint32_t prepare_batch(struct udp_link *link, uint32_t first)
{
	const struct udp_way *way = way_of(link->runs + first);
	struct udp_run *run = link->runs + first, *end = link->runs + link->run_count;
	uint32_t n = 0;

	do {
		run_prepare(link, run++, n, &link->headers[n].msg_hdr, link->messages + n);
		n++;
	} while (run < end && way_of(run) == way && !wants_uncut(way, run) &&
		 !udp_lends(link, run));
	return n;
}

static int send_message(int fd, const struct msghdr *header)
{
	return sendmsg(fd, header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -1 : 1;
}

/* Sends the first of `n` prepared messages, and as many behind it as go. Their number or -errno. */
static int send_batch(struct udp_link *link, int fd, uint32_t n)
{
	const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
	int sent;

	do
		sent = n == 1 ? send_message(fd, &link->headers[0].msg_hdr)
			      : sendmmsg(fd, link->headers, n, flags);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : sent;
}

/* To be cut again as the run before was: from then on its socket does that by itself. Until a
 * stream is over: what such a socket sends in one piece takes it 0.3 us longer. */
static void settle(const struct udp_run *run, bool is_alone)
{
	struct udp_way *way = way_of(run);

	if (!way->is_connected)
		return;
	if (run->count == 1) {
		if (way->segment && is_alone && ++way->singles == SINGLES_UNCUT)
			udp_way_cut(way, 0);
		return;
	}
	way->singles = 0;
	if (way->cut_last == run->segment)
		udp_way_cut(way, (uint16_t)run->segment);
	way->cut_last = (uint16_t)run->segment;
}

/* Nothing of it is to be said that its socket does not know. */
static bool is_bare(const struct udp_run *run, const struct udp_way *way)
{
	uint8_t hops = run->av.hop_limit;

	if (!way->is_connected || way->traffic_class != traffic_class_of(&run->av) ||
	    (hops && hops != HOP_LIMIT_DEFAULT))
		return false;
	return run->count > 1 ? way->segment == run->segment : !wants_uncut(way, run);
}

/* A header costs the kernel 0.1 us to read, and us some time to write. */
static int send_bare(struct udp_link *link, struct udp_run *run, const struct udp_way *way)
{
	ssize_t sent;

	run_seal(link, run, way->id);
	do
		sent = socket_send(way->fd, link->stage + run->offset, udp_run_bytes(run),
				   MSG_DONTWAIT | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : 1;
}

/* One packet, too short to be lent, by a socket that does not cut: there is nothing to settle. */
static bool is_single(const struct udp_run *run, const struct udp_way *way)
{
	return run->count == 1 && !way->segment && is_bare(run, way);
}

/* Sends the run, and maybe some behind it. How many, or -errno. */
static int send_some(struct udp_link *link, uint32_t first)
{
	struct udp_run *run = link->runs + first;
	const struct udp_way *way = way_of(run);
	bool is_alone = first + 1 == link->run_count;
	int sent;

	if (is_alone && is_single(run, way))
		return send_bare(link, run, way);
	set_traffic_class(run);
	if (udp_lends(link, run)) {
		run_seal(link, run, way_of(run)->id);
		sent = udp_lend(link, run);
		if (sent)
			return sent;
	}
	settle(run, is_alone);
	if (is_alone && is_bare(run, way))
		return send_bare(link, run, way);
	return send_batch(link, way->fd, prepare_batch(link, first));
}

/* What is left begins at run `first`; its packets stay where they lie. */
static bool keep_from(struct udp_link *link, uint32_t first)
{
	link->run_count -= first;
	if (link->run_count)
		memmove(link->runs, link->runs + first, link->run_count * sizeof(*link->runs));
	return link->run_count == 0;
}

bool udp_send_runs(struct udp_link *link)
{
	uint32_t next = 0;

	while (next < link->run_count) {
		int sent = send_some(link, next);

		if (sent < 0 && is_full(-sent))
			break;
		if (sent < 0 && way_of(link->runs + next)->is_connected) {
			/* whether an identification was used up nobody knows */
			link->runs[next].path->is_dead = true;
			continue;
		}
		if (sent < 0) {
			send_refused(link, link->runs + next);
			next++;
			continue;
		}
		udp_count(&link->counters.sends, 1);
		for (; sent > 0; sent--, next++)
			count_sent(link, link->runs + next);
	}
	return keep_from(link, next);
}
