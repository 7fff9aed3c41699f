/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lines: their life, and how messages get onto them and off.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/adapter.h"
#include "engine/line.h"
#include "engine/state.h"
#include "transport/ledger.h"

enum {
	SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW,
	SEND_BUFFER = 1 << 20, /* a window of the peer's; the system may give less */
	BATCH = 64,
};

/* ---- descriptors that a fork closes ---- */

int held_add(struct held *held, int fd)
{
	for (int place = 0; place < HELD_MAX; place++) {
		int none = 0;

		if (atomic_compare_exchange_strong(&held->fds[place], &none, fd + 1))
			return place;
	}
	return -1;
}

/* Out of the list first: the number may be somebody else's as soon as it is closed. */
void held_close(struct held *held, int place)
{
	int fd = atomic_exchange(&held->fds[place], 0) - 1;

	if (fd >= 0)
		close(fd);
}

void held_abandon(struct held *held)
{
	for (int place = 0; place < HELD_MAX; place++)
		held_close(held, place);
}

/* ---- ledgers ---- */

static struct ledger *map(int fd)
{
	void *memory = mmap(NULL, sizeof(struct ledger), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

int ledger_make(struct ledger **ledger)
{
	int fd = memfd_create("verbatim-ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, sizeof(struct ledger)) == 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0) {
		*ledger = map(fd);
		if (*ledger)
			return fd;
	}
	close(fd);
	return -ENOMEM;
}

struct ledger *ledger_take(int fd, uint64_t *id)
{
	struct stat stat;

	if (fcntl(fd, F_GET_SEALS) != SEALS || fstat(fd, &stat) < 0 ||
	    stat.st_size != sizeof(struct ledger))
		return NULL;
	*id = stat.st_ino;
	return map(fd);
}

/* ---- life ---- */

struct line *line_make(struct lane *lane, struct qp *qp, uint32_t slot)
{
	struct line *line = pool_take(&lane->engine->pool, sizeof(*line));

	if (!line)
		return NULL;
	memset(line, 0, sizeof(*line));
	line->source.fd = -1;
	line->source.is_line = true;
	line->source.adapter = qp->adapter;
	line->lane = lane;
	line->qp = qp;
	line->slot = slot;
	line->place = -1;
	CDS_INIT_LIST_HEAD(&line->node);
	return line;
}

int line_attach(struct line *line, int fd, struct ledger *ledger)
{
	int size = SEND_BUFFER, error;

	line->place = held_add(&line->lane->engine->held, fd);
	if (line->place < 0)
		return -EMFILE;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	line->source.fd = fd;
	error = lane_add_source(line->lane, &line->source);
	if (error) {
		line->source.fd = -1;
		atomic_store(&line->lane->engine->held.fds[line->place], 0);
		line->place = -1;
		return error;
	}
	line->ledger = ledger;
	return 0;
}

void line_detach(struct line *line)
{
	if (line->source.fd < 0)
		return;
	lane_remove_source(line->lane, &line->source);
	held_close(&line->lane->engine->held, line->place);
	line->source.fd = -1;
}

void line_close(struct line *line)
{
	line_detach(line);
	if (line->ledger)
		munmap(line->ledger, sizeof(*line->ledger));
	line->ledger = NULL;
	line->state = LINE_CLOSED;
	line->qp = NULL;
	cds_list_del(&line->node);
	cds_list_add(&line->node, &line->lane->dead_lines);
}

/* Not sooner: what the lane looks at now may name them. */
void lines_bury(struct lane *lane)
{
	struct line *line, *next;

	cds_list_for_each_entry_safe (line, next, &lane->dead_lines, node) {
		cds_list_del(&line->node);
		pool_give(&lane->engine->pool, line);
	}
}

/* ---- messages ---- */

static int say(const struct line *line, const struct iovec *iov, size_t count)
{
	struct msghdr message = {.msg_iov = (struct iovec *)iov, .msg_iovlen = count};

	if (line->source.fd < 0)
		return -ENOTCONN;
	return sendmsg(line->source.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int line_say(const struct line *line, enum line_type type, uint32_t value)
{
	struct line_message message = {.type = type, .value = value};
	struct iovec iov = {&message, sizeof(message)};

	return say(line, &iov, 1);
}

int line_say_terms(const struct line *line, enum line_type type)
{
	struct line_message message = {.type = type};
	struct iovec iov = {&message, sizeof(message)};

	transport_get_terms(line->qp, &message.terms);
	return say(line, &iov, 1);
}

int line_pass(const struct line *line, const struct packet *packet)
{
	struct line_message message = {
	    .type = LINE_PACKET,
	    .packet = {.sgid = packet->sgid,
		       .dgid = packet->dgid,
		       .flow_label = packet->flow_label,
		       .source_port = packet->source_port,
		       .traffic_class = packet->traffic_class,
		       .hop_limit = packet->hop_limit},
	};
	struct iovec iov[2] = {{&message, sizeof(message)}, {(void *)packet->bth, packet->length}};

	return say(line, iov, 2);
}

/* False: the line is closed. */
static bool hear(struct line *line, const struct line_message *message, size_t length, uint64_t now)
{
	if (line->is_branch)
		return branch_hears(line, message, length - sizeof(*message), now);
	return home_hears(line, message);
}

/* The other side is gone, and everything that it said has been heard. */
static void lost(struct line *line)
{
	if (line->is_branch)
		branch_lost(line);
	else
		home_lost(line);
}

unsigned int line_receive(struct line *line, uint64_t now)
{
	const struct line_message *message = (const void *)line->lane->room;

	for (unsigned int count = 0; count < BATCH; count++) {
		ssize_t length;

		if (line->source.fd < 0)
			return count;
		length = recv(line->source.fd, line->lane->room, LANE_ROOM, MSG_DONTWAIT);
		/* who closes with something unheard leaves a reset in front of what it said */
		if (length < 0 && (errno == ECONNRESET || errno == EINTR))
			continue;
		if (length < 0)
			return count;
		if (length < (ssize_t)sizeof(*message)) {
			lost(line);
			return count + 1;
		}
		if (!hear(line, message, (size_t)length, now))
			return count + 1;
	}
	return BATCH;
}
