/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Questions and answers. A question goes to all slots at once and the first vault wins, so that a
 * stopped process holds up nobody as long as another member lives.
 */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/meeting.h"
#include "wire/headers.h"

enum {
	MEETING_MAGIC = 0x56424d31,
	MEETING_VERSION = 14,
	ANSWER_MS = 1500,
};

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void meeting_head(struct meeting *meeting, enum meeting_type type)
{
	memset(meeting, 0, sizeof(*meeting));
	meeting->magic = MEETING_MAGIC;
	meeting->version = MEETING_VERSION;
	meeting->type = (uint16_t)type;
}

/*
 * Another user's process may well say "not here" and be believed: binding the port decides in the
 * end. How many live slots the question went to. A full mailbox counts: its owner lives, and won't
 * answer. */
static unsigned int ask_all(int fd, uint32_t own_slot, const struct meeting *question)
{
	struct iovec iov = {(void *)question, sizeof(*question)};
	unsigned int asked = 0;

	for (uint32_t slot = 0; slot < QPN_SLOTS; slot++) {
		struct mail_address to;
		int error;

		if (slot == own_slot)
			continue;
		mail_address_of_slot(slot, &to);
		error = mail_send(fd, &to, &iov, 1, NULL, 0);
		asked += error == 0 || error == -EAGAIN;
	}
	return asked;
}

/* True with the vault when the mail is the answer that was hoped for; `left` counts answers still
 * out. */
static bool take_answer(struct mail *mail, const struct meeting *question, unsigned int *left,
			struct vault *vault, uint32_t *lanes)
{
	size_t length;
	const struct meeting *answer = meeting_of(mail, &length);

	if (answer && answer->question == question->question) {
		if (answer->type == MEETING_HERE && mail->fd_count == 2) {
			vault->in = mail->fds[0];
			vault->out = mail->fds[1];
			*lanes = answer->lanes;
			return true;
		}
		if (answer->type == MEETING_NOT_HERE)
			--*left;
	}
	mail_close_fds(mail);
	return false;
}

int meeting_ask(uint32_t own_slot, const union ibv_gid *gid, uint32_t scope, struct vault *vault,
		uint32_t *lanes)
{
	static atomic_uint questions;
	uint64_t deadline = now_ms() + ANSWER_MS, now;
	struct meeting question;
	unsigned int left;
	struct mail mail;
	int fd = mail_open();

	if (fd < 0)
		return fd;
	meeting_head(&question, MEETING_ASK);
	question.gid = *gid;
	question.scope = scope;
	question.question = atomic_fetch_add(&questions, 1);
	left = ask_all(fd, own_slot, &question);
	while (left && (now = now_ms()) < deadline) {
		struct pollfd readable = {.fd = fd, .events = POLLIN};

		if (poll(&readable, 1, (int)(deadline - now)) <= 0)
			continue;
		while (left && mail_receive(fd, &mail) == 0)
			if (take_answer(&mail, &question, &left, vault, lanes)) {
				close(fd);
				return 0;
			}
	}
	close(fd);
	return left ? -ETIMEDOUT : -ENOENT;
}

const struct meeting *meeting_of(const struct mail *mail, size_t *length)
{
	const struct meeting *meeting = (const void *)mail->data;

	if (mail->length < sizeof(*meeting) || meeting->magic != MEETING_MAGIC ||
	    meeting->version != MEETING_VERSION)
		return NULL;
	*length = mail->length - sizeof(*meeting);
	return meeting;
}

void meeting_answer(int fd, const struct mail *mail, const struct vault *vault, uint32_t lanes)
{
	size_t length;
	const struct meeting *question = meeting_of(mail, &length);
	struct meeting answer;
	struct iovec iov = {&answer, sizeof(answer)};

	meeting_head(&answer, vault ? MEETING_HERE : MEETING_NOT_HERE);
	answer.gid = question->gid;
	answer.scope = question->scope;
	answer.question = question->question;
	answer.lanes = lanes;
	if (vault)
		mail_send(fd, &mail->from, &iov, 1, (int[]){vault->in, vault->out}, 2);
	else
		mail_send(fd, &mail->from, &iov, 1, NULL, 0);
}

enum { FORWARD_MOMENT_NS = 50000, FORWARD_TRIES = 100 };

int meeting_forward(int fd, const struct mail_address *to, const union ibv_gid *gid, uint32_t scope,
		    const struct packet *packet, bool waits)
{
	struct meeting meeting;
	struct iovec iov[2] = {{&meeting, sizeof(meeting)}, {(void *)packet->bth, packet->length}};
	const struct timespec moment = {.tv_nsec = FORWARD_MOMENT_NS};
	int error, tries = waits ? FORWARD_TRIES : 0;

	if (packet->length > MAIL_MAX_SIZE - sizeof(meeting))
		return -EMSGSIZE;
	meeting_head(&meeting, MEETING_PACKET);
	meeting.gid = *gid;
	meeting.scope = scope;
	meeting.sgid = packet->sgid;
	meeting.dgid = packet->dgid;
	meeting.flow_label = packet->flow_label;
	meeting.source_port = packet->source_port;
	meeting.traffic_class = packet->traffic_class;
	meeting.hop_limit = packet->hop_limit;
	/* a mailbox holds ten letters on many machines: give its reader a moment */
	do {
		error = mail_send(fd, to, iov, 2, NULL, 0);
	} while (error == -EAGAIN && tries-- > 0 && nanosleep(&moment, NULL) == 0);
	return error;
}

bool meeting_packet(const struct meeting *meeting, size_t length, struct packet *packet)
{
	if (meeting->type != MEETING_PACKET || length < BTH_BYTES)
		return false;
	memset(packet, 0, sizeof(*packet));
	packet->bth = (const uint8_t *)(meeting + 1);
	packet->length = length;
	packet->is_express = false;
	packet->sgid = meeting->sgid;
	packet->dgid = meeting->dgid;
	packet->flow_label = meeting->flow_label;
	packet->source_port = meeting->source_port;
	packet->traffic_class = meeting->traffic_class;
	packet->hop_limit = meeting->hop_limit;
	return true;
}
