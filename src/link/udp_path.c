/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Paths: sockets that are connected to a peer, for what is sent most. To send on one spares the
 * kernel the look-up of the route each time, and its source port is the mark by which the peer may
 * connect a socket, too. A path leads to one lane of one process, as far as the number of a QP of
 * ours says. Few have one: who has much of a thousand runs gets it, as soon as he has it, who has
 * little loses it, and time plays no part, so an idle link does nothing. To open one costs what
 * some hundred runs spare by it, so one may come in a thousand.
 *
 * The kernel numbers what a connected IPv4 socket sends from a random start, and the ICRC covers
 * that number. So the start is asked for: a packet to ourselves, which the kernel then shows as it
 * left. Where it does not, and for peers that are not known as ours, there are no paths.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <netinet/ip.h>
#include <netinet/udp.h>

#include "link/udp_link.h"

enum {
	LINK_HEADER_BYTES = 14, /* of the loopback interface */
	SHOWN_BYTES = 256,
};

static bool is_same_place(const struct udp_place *a, const struct udp_place *b)
{
	return a->from == b->from && a->part == b->part && a->port == b->port &&
	       gid_is_same(&a->dgid, &b->dgid);
}

/* The identification of the IPv4 packet with those ports that begins there; -1 if none does. */
static int identification_at(const uint8_t *bytes, size_t length, const struct udp_way *way,
			     uint16_t port)
{
	struct iphdr ip;
	struct udphdr udp;

	if (length < sizeof(ip) + sizeof(udp))
		return -1;
	memcpy(&ip, bytes, sizeof(ip));
	memcpy(&udp, bytes + sizeof(ip), sizeof(udp));
	if (ip.version != 4 || ip.ihl != sizeof(ip) / 4 || ip.protocol != IPPROTO_UDP ||
	    ntohs(udp.source) != way->port || ntohs(udp.dest) != port)
		return -1;
	return ntohs(ip.id);
}

/* What was sent to ourselves, as the kernel shows it: -1 if it does not. */
static int read_identification(const struct udp_way *way, uint16_t port)
{
	uint8_t bytes[SHOWN_BYTES], control[SHOWN_BYTES];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct msghdr header = {
	    .msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = control,
	    .msg_controllen = sizeof(control),
	};
	ssize_t got = recvmsg(way->fd, &header, MSG_ERRQUEUE | MSG_DONTWAIT);
	int id;

	if (got < 0)
		return -1;
	id = identification_at(bytes, (size_t)got, way, port);
	if (id < 0 && got > LINK_HEADER_BYTES)
		id = identification_at(bytes + LINK_HEADER_BYTES, (size_t)got - LINK_HEADER_BYTES,
				       way, port);
	return id;
}

/* The packet goes to the socket that we send to anybody from, which has room for next to nothing
 * and is never read. */
static bool learn_identification(const struct udp_address *from, struct udp_way *way)
{
	int show = SOF_TIMESTAMPING_TX_SCHED, hide = 0, id;
	union udp_sockaddr self;
	socklen_t length = udp_sockaddr_of(&self, &from->gid, from->way.port, from->ifindex);

	if (setsockopt(way->fd, SOL_SOCKET, SO_TIMESTAMPING, &show, sizeof(show)) < 0 ||
	    sendto(way->fd, NULL, 0, MSG_DONTWAIT | MSG_NOSIGNAL, &self.any, length) < 0)
		return false;
	id = read_identification(way, from->way.port);
	if (setsockopt(way->fd, SOL_SOCKET, SO_TIMESTAMPING, &hide, sizeof(hide)) < 0)
		return false;
	way->id = (uint16_t)(id + 1);
	return id >= 0;
}

static void path_close(struct udp_paths *paths, struct udp_path *path)
{
	close(path->way.fd);
	*path = (struct udp_path){.way = {.fd = -1}};
	paths->latest = NULL;
}

/* True if it is open. */
static bool path_open(struct udp_path *path, const struct udp_place *to)
{
	const struct udp_address *from = to->from;

	if (udp_socket_open_path(from, &to->dgid, to->port, &path->way) < 0)
		return false;
	if (gid_is_ipv4(&from->gid) && !learn_identification(from, &path->way)) {
		close(path->way.fd);
		return false;
	}
	path->to = *to;
	return true;
}

void udp_paths_close(struct udp_paths *paths, const struct udp_address *from)
{
	for (struct udp_path *p = paths->paths; p < paths->paths + PATHS_MAX; p++)
		if (p->to.from && (!from || p->to.from == from))
			path_close(paths, p);
	memset(paths->candidates, 0, sizeof(paths->candidates));
	memset(paths->doubts, 0, sizeof(paths->doubts));
}

static struct udp_path *find_free(struct udp_paths *paths)
{
	for (struct udp_path *p = paths->paths; p < paths->paths + PATHS_MAX; p++)
		if (!p->to.from)
			return p;
	return NULL;
}

static struct udp_doubt *find_doubt(struct udp_paths *paths, const struct udp_place *to)
{
	for (struct udp_doubt *d = paths->doubts; d < paths->doubts + PATH_DOUBTS; d++)
		if (d->to.from && is_same_place(&d->to, to))
			return d;
	return NULL;
}

/*
 * Nothing came back of what went by the path, or there: whether it is the path's fault, nobody
 * knows. It is closed, and what follows goes as if there were none.
 */
static void doubt(struct udp_paths *paths, struct udp_path *path)
{
	struct udp_doubt *d = find_doubt(paths, &path->to);

	if (!d) {
		d = paths->doubts + paths->doubted++ % PATH_DOUBTS;
		*d = (struct udp_doubt){.to = path->to};
	}
	if (path->has_worked)
		d->last = 0;
	else
		d->last = d->last ? d->last * PATH_DOUBT_AGAIN : PATH_DOUBT;
	if (d->last > PATH_DOUBT_MAX)
		d->last = PATH_DOUBT_MAX;
	d->windows = d->last ? d->last : PATH_DOUBT_OLD;
	path->is_dead = true;
}

/*
 * A path that has worked is not left at once: most often a core was gone for a while, or a packet
 * was lost, and it works on. What goes again goes as if there were none all the same.
 */
static bool endures(struct udp_path *path)
{
	if (!path->has_worked)
		return false;
	path->setbacks += !path->is_doubted;
	path->is_doubted = true;
	path->runs = path->witness = 0;
	return path->setbacks < PATH_SETBACKS;
}

/*
 * By what was answered, and not by how seldom it was doubted: where more processes than cores run,
 * many answers come late, and yet come. Several QPs may go by a path; one of them is enough.
 */
static void count_run(struct udp_path *path, const struct av *av, uint32_t dest_qp)
{
	path->used++;
	path->runs++;
	path->is_doubted = false;
	if (!path->witness) {
		path->witness = dest_qp;
		path->rounds = av->rounds;
	}
	if (path->runs >= PATH_RUNS ||
	    (path->witness == dest_qp && (uint16_t)(av->rounds - path->rounds) >= PATH_ROUNDS)) {
		path->has_worked = true;
		path->setbacks = path->runs = path->witness = 0;
	}
}

static bool is_doubted(struct udp_paths *paths, const struct udp_place *to)
{
	const struct udp_doubt *d = find_doubt(paths, to);

	return d && d->windows;
}

/* A window is over, and nothing is staged: paths may go. */
static void review(struct udp_paths *paths)
{
	for (struct udp_path *p = paths->paths; p < paths->paths + PATHS_MAX; p++) {
		if (p->to.from && (p->is_dead || p->used < PATH_COLD))
			path_close(paths, p);
		p->used = 0;
	}
	for (struct udp_doubt *d = paths->doubts; d < paths->doubts + PATH_DOUBTS; d++)
		d->windows -= d->windows > 0;
	patience_pass(&paths->patience);
	paths->has_tried = false;
	memset(paths->candidates, 0, sizeof(paths->candidates));
	paths->runs = 0;
}

/* NULL if it gets none. Nothing is staged. */
static struct udp_path *admit(struct udp_paths *paths, const struct udp_place *to)
{
	struct udp_path *path = find_free(paths);

	if (!path || paths->has_tried || !patience_is_over(&paths->patience) ||
	    is_doubted(paths, to))
		return NULL;
	paths->has_tried = true;
	if (path_open(path, to)) {
		patience_worked(&paths->patience);
		return path;
	}
	*path = (struct udp_path){.way = {.fd = -1}};
	patience_failed(&paths->patience);
	return NULL;
}

/* Those that share a place in the table wear each other out, and the busiest is left. How many were
 * counted for this one. */
static uint32_t count_candidate(struct udp_paths *paths, const struct udp_place *to)
{
	uint32_t hash = (to->part >> 16) ^ to->part ^ to->dgid.raw[15] ^ to->dgid.raw[14];
	struct udp_candidate *c = paths->candidates + hash % PATH_CANDIDATES;

	if (c->used && !is_same_place(&c->to, to)) {
		c->used--;
		return 0;
	}
	c->to = *to;
	return ++c->used;
}

static struct udp_path *find(struct udp_paths *paths, const struct udp_place *to)
{
	struct udp_path *path = paths->latest;

	if (path && is_same_place(&path->to, to))
		return path;
	for (path = paths->paths; path < paths->paths + PATHS_MAX; path++) {
		if (path->to.from && is_same_place(&path->to, to)) {
			paths->latest = path;
			return path;
		}
	}
	return NULL;
}

struct udp_path *udp_path_for(struct udp_link *link, const struct udp_address *from,
			      const struct av *av, uint32_t dest_qp, uint16_t port)
{
	struct udp_place to = {
	    .from = from,
	    .dgid = av->dgid,
	    .part = dest_qp & PLACE_PART,
	    .port = port,
	};
	struct udp_paths *paths = &link->paths;
	struct udp_path *path;

	if (paths->is_off || !av->carrier_max)
		return NULL;
	if (++paths->runs >= PATH_WINDOW && link->run_count == 0)
		review(paths);
	path = find(paths, &to);
	if (path && !path->is_dead && av->is_doubted) {
		if (endures(path))
			return NULL;
		doubt(paths, path);
	}
	if (!path && count_candidate(paths, &to) >= PATH_HOT && link->run_count == 0 &&
	    !av->is_doubted)
		path = admit(paths, &to);
	if (path && !path->is_dead)
		count_run(path, av, dest_qp);
	return path && !path->is_dead ? path : NULL;
}
