/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The mail thread: answers other processes that look for a group's sockets, and takes in packets
 * that they pass on, keeps company with those that share memory, and makes lines. It waits for
 * nothing else, so that a process that is itself joining still answers.
 */
#include <poll.h>

#include "engine/line.h"
#include "engine/meeting.h"
#include "engine/opening.h"
#include "engine/state.h"
#include "engine/steer.h"
#include "wire/headers.h"

enum { LIFELINES = 1022, OPENINGS = 1024 };

static void take_packet(struct engine *engine, const struct meeting *meeting, size_t length)
{
	struct adapter *adapter;
	struct packet packet;
	uint32_t qpn;

	if (!meeting_packet(meeting, length, &packet))
		return;
	qpn = bth_dest_qp(packet.bth);
	pthread_mutex_lock(&engine->stations_lock);
	adapter = engine_find_adapter(engine, &meeting->gid, meeting->scope);
	if (adapter &&
	    (qpn >> QPN_SLOT_SHIFT == engine->slot.number || adapter_find_qp(adapter, qpn)))
		lane_hand_over(engine->lanes[steer_lane(qpn, engine->lane_count)], adapter,
			       &packet);
	pthread_mutex_unlock(&engine->stations_lock);
}

void mail_read(struct engine *engine, int fd)
{
	struct mail mail;

	while (mail_receive(fd, &mail) == 0) {
		size_t length;
		const struct meeting *meeting = meeting_of(&mail, &length);

		if (meeting && meeting->type == MEETING_ASK)
			group_answer(&engine->groups, engine->slot.fd, &mail);
		else if (meeting && mail.is_ours && meeting->type == MEETING_PACKET)
			take_packet(engine, meeting, length);
		else if (meeting && mail.is_ours && meeting->type == MEETING_LINE)
			home_connect(engine, meeting);
		else if (meeting && mail.is_ours && meeting->type == MEETING_BRANCH)
			branch_open(engine, meeting, length, &mail);
		else if (meeting && mail.is_ours && meeting->type == MEETING_VISIT)
			opening_visit(engine, meeting, length, &mail);
		else if (meeting && mail.is_ours && meeting->type >= MEETING_OFFER)
			neighbours_read(engine, meeting, &mail);
		mail_close_fds(&mail);
	}
}

void *mail_thread(void *data)
{
	struct engine *engine = data;
	struct pollfd fds[2 + LIFELINES + OPENINGS] = {
	    {.fd = engine->slot.fd, .events = POLLIN},
	    {.fd = engine->stop_fd, .events = POLLIN},
	};
	unsigned int lines, openings;
	int timeout;

	while (!fds[1].revents) {
		lines = neighbours_poll(&engine->neighbours, fds + 2, LIFELINES, &timeout);
		openings = openings_poll(engine, fds + 2 + lines, OPENINGS, &timeout);
		if (poll(fds, 2 + lines + openings, timeout) < 0)
			continue;
		pthread_mutex_lock(&engine->mail_lock);
		if (fds[0].revents)
			mail_read(engine, engine->slot.fd);
		neighbours_polled(engine, fds + 2, lines);
		openings_polled(engine, fds + 2 + lines, openings);
		pthread_mutex_unlock(&engine->mail_lock);
	}
	return NULL;
}
