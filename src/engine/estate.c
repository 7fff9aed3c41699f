/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeping a slot. Everything is tried, and tried again at the next tick: another keeper may just be
 * on its way out, and so may the slot's owner; somebody may be joining a group.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/estate.h"
#include "engine/join_lock.h"
#include "engine/meeting.h"
#include "engine/state.h"
#include "engine/steer.h"
#include "engine/visitor.h"
#include "link/udp.h"
#include "wire/headers.h"

/* An address's sockets. */
struct kept {
	struct cds_list_head node;
	union ibv_gid gid;
	struct source near[NEAR_PORTS], lanes[GROUP_MAX_LANES];
	int near_places[NEAR_PORTS], lane_places[GROUP_MAX_LANES];
	uint32_t near_count, lane_count;
	bool is_done;
};

struct estate {
	struct cds_list_head node;
	struct engine *engine;
	struct station *station;
	uint32_t slot;
	unsigned int users;
	int keeper, mailbox; /* places among the held; the first -1 if another process keeps it */
	struct cds_list_head kept;
	bool is_done;
};

static struct estate *find(const struct engine *engine, const struct station *station,
			   uint32_t slot)
{
	struct estate *estate;

	cds_list_for_each_entry (estate, &engine->estates.list, node)
		if (estate->slot == slot && (!station || estate->station == station))
			return estate;
	return NULL;
}

static int fd_at(const struct engine *engine, int place)
{
	return atomic_load(&engine->held.fds[place]) - 1;
}

/* ---- coming and going ---- */

bool estate_enter(struct engine *engine, struct station *station, uint32_t slot, int mailbox)
{
	struct estate *estate = find(engine, station, slot);
	int fd;

	if (estate) {
		estate->users++;
		return true;
	}
	estate = calloc(1, sizeof(*estate));
	fd = fcntl(fd_at(engine, mailbox), F_DUPFD_CLOEXEC, 0);
	if (estate && fd >= 0)
		estate->mailbox = held_add(&engine->held, fd);
	if (!estate || fd < 0 || estate->mailbox < 0) {
		if (fd >= 0)
			close(fd);
		free(estate);
		return false;
	}
	estate->engine = engine;
	estate->station = station;
	estate->slot = slot;
	estate->users = 1;
	estate->keeper = -1;
	CDS_INIT_LIST_HEAD(&estate->kept);
	cds_list_add_tail(&estate->node, &engine->estates.list);
	atomic_fetch_or(&engine->estates.slots[slot / 32], 1u << slot % 32);
	return true;
}

static void drop(struct estate *estate, struct source *sources, const int *places, uint32_t count)
{
	station_remove_sources(estate->station, sources, count);
	while (count)
		held_close(&estate->engine->held, places[--count]);
}

static void end(struct estate *estate)
{
	struct engine *engine = estate->engine;
	struct kept *kept, *next;

	cds_list_for_each_entry_safe (kept, next, &estate->kept, node) {
		drop(estate, kept->near, kept->near_places, kept->near_count);
		drop(estate, kept->lanes, kept->lane_places, kept->lane_count);
		free(kept);
	}
	cds_list_del(&estate->node);
	if (!find(engine, NULL, estate->slot))
		atomic_fetch_and(&engine->estates.slots[estate->slot / 32],
				 ~(1u << estate->slot % 32));
	if (estate->keeper >= 0)
		held_close(&engine->held, estate->keeper);
	held_close(&engine->held, estate->mailbox);
	free(estate);
}

void estate_leave(struct engine *engine, const struct station *station, uint32_t slot)
{
	struct estate *estate = find(engine, station, slot);

	if (estate && --estate->users == 0)
		end(estate);
}

void estates_close(struct engine *engine, const struct station *station)
{
	struct estate *estate, *next;

	pthread_mutex_lock(&engine->openings.call_lock);
	cds_list_for_each_entry_safe (estate, next, &engine->estates.list, node)
		if (estate->station == station)
			end(estate);
	pthread_mutex_unlock(&engine->openings.call_lock);
}

int estate_mailbox(struct engine *engine, uint32_t slot)
{
	const struct estate *estate = find(engine, NULL, slot);

	return estate ? fd_at(engine, estate->mailbox) : -1;
}

/* ---- sockets ---- */

/* The descriptor is the source's, or closed. */
static bool add(struct estate *estate, struct source *source, int *place, uint32_t number, int fd,
		const union ibv_gid *gid)
{
	*place = held_add(&estate->engine->held, fd);
	if (*place < 0) {
		close(fd);
		return false;
	}
	if (station_add_source(estate->station, source, number, fd, gid) < 0) {
		held_close(&estate->engine->held, *place);
		return false;
	}
	return true;
}

static bool keep_near(struct estate *estate, struct kept *kept)
{
	while (kept->near_count < NEAR_PORTS) {
		uint32_t i = kept->near_count;
		uint16_t port = udp_near_port(estate->slot << QPN_SLOT_SHIFT | i);
		int fd = udp_socket_bind_near(&kept->gid, estate->station->info.ifindex, port);

		kept->near[i].near_port = port;
		if (fd < 0 ||
		    !add(estate, &kept->near[i], &kept->near_places[i], i, fd, &kept->gid))
			return false;
		kept->near_count++;
	}
	return true;
}

/* False: somebody is joining. */
static bool get_lanes(const struct estate *estate, struct group *group, int *fds, int *error)
{
	int lock = join_trylock(&group->gid, gid_scope(&group->gid, group->ifindex));

	if (lock < 0)
		return false;
	*error = vault_get(&group->vault, estate->slot + 1, fds, group->lanes);
	join_unlock(lock);
	return true;
}

/* What lies in them is taken in: it is for QPs that live. */
static bool keep_lanes(struct estate *estate, struct kept *kept, struct group *group)
{
	int fds[GROUP_MAX_LANES], error;

	if (!steer_is_wanted() || kept->lane_count)
		return true;
	if (!get_lanes(estate, group, fds, &error))
		return false;
	if (error) /* the slot never had any on this address; or another time */
		return error == -ENOENT;
	for (uint32_t i = 0; i < group->lanes; i++) {
		if (kept->lane_count == i &&
		    add(estate, &kept->lanes[i], &kept->lane_places[i], i, fds[i], &kept->gid))
			kept->lane_count++;
		else if (kept->lane_count != i)
			close(fds[i]);
	}
	return true;
}

static struct kept *kept_of(struct estate *estate, const union ibv_gid *gid)
{
	struct kept *kept;

	cds_list_for_each_entry (kept, &estate->kept, node)
		if (!memcmp(&kept->gid, gid, sizeof(*gid)))
			return kept;
	kept = calloc(1, sizeof(*kept));
	if (!kept)
		return NULL;
	kept->gid = *gid;
	cds_list_add_tail(&kept->node, &estate->kept);
	return kept;
}

static void keep_address(struct group *group, void *data)
{
	struct estate *estate = data;
	struct kept *kept = kept_of(estate, &group->gid);

	if (kept && !kept->is_done) {
		bool has_near = keep_near(estate, kept);

		kept->is_done = keep_lanes(estate, kept, group) && has_near;
	}
	estate->is_done &= kept && kept->is_done;
}

static bool become_keeper(struct estate *estate)
{
	struct mail_address name;
	int fd;

	mail_address_of_keeper(estate->slot, estate->station->info.ifindex, &name);
	fd = mail_bind(&name);
	if (fd < 0)
		return false;
	estate->keeper = held_add(&estate->engine->held, fd);
	if (estate->keeper < 0)
		close(fd);
	return estate->keeper >= 0;
}

bool estates_tick(struct engine *engine)
{
	struct estate *estate;
	bool is_done = true;

	cds_list_for_each_entry (estate, &engine->estates.list, node) {
		if (!estate->is_done && (estate->keeper >= 0 || become_keeper(estate))) {
			pthread_mutex_lock(&engine->stations_lock);
			estate->is_done = true;
			station_for_each_group(estate->station, keep_address, estate);
			pthread_mutex_unlock(&engine->stations_lock);
		}
		is_done &= estate->is_done;
	}
	return !is_done;
}

/* ---- mail ---- */

unsigned int estates_poll(const struct engine *engine, struct pollfd *fds, unsigned int room)
{
	struct estate *estate;
	unsigned int count = 0;

	cds_list_for_each_entry (estate, &engine->estates.list, node)
		if (estate->keeper >= 0 && count < room)
			fds[count++] = (struct pollfd){fd_at(engine, estate->mailbox), POLLIN, 0};
	return count;
}

static void pass_on(struct engine *engine, const struct estate *estate,
		    const struct meeting *meeting, size_t length)
{
	struct mail_address to;
	struct packet packet;

	if (!meeting_packet(meeting, length, &packet))
		return;
	mail_address_of_qp(estate->station->info.ifindex, bth_dest_qp(packet.bth), &to);
	meeting_forward(engine->slot.fd, &to, &meeting->gid, meeting->scope, &packet, false);
}

/* Somebody wants to open a QP that another process has by now, or will have in a moment. */
static void show_on(struct engine *engine, const struct estate *estate,
		    const struct meeting *meeting, struct mail *mail)
{
	struct iovec iov = {mail->data, mail->length};
	struct mail_address to;

	if (mail->fd_count != VISIT_FDS)
		return;
	mail_address_of_qp(estate->station->info.ifindex, meeting->question, &to);
	if (mail_send(engine->slot.fd, &to, &iov, 1, mail->fds, mail->fd_count))
		visitor_come_again(mail->fds[0]);
}

/* For a slot with nothing of its own any more. */
static void hear(struct engine *engine, const struct estate *estate, struct mail *mail)
{
	size_t length;
	const struct meeting *meeting = meeting_of(mail, &length);

	if (meeting && meeting->type == MEETING_ASK)
		meeting_answer(engine->slot.fd, mail, NULL, 0);
	else if (meeting && mail->is_ours && meeting->type == MEETING_PACKET)
		pass_on(engine, estate, meeting, length);
	else if (meeting && mail->is_ours && meeting->type == MEETING_VISIT)
		show_on(engine, estate, meeting, mail);
	else if (meeting && mail->is_ours && meeting->type == MEETING_OFFER)
		neighbours_decline(engine, estate->slot, meeting, mail);
}

bool estates_hear(struct engine *engine, int fd)
{
	struct estate *estate;
	struct mail mail;

	cds_list_for_each_entry (estate, &engine->estates.list, node) {
		if (fd_at(engine, estate->mailbox) != fd)
			continue;
		while (mail_receive(fd, &mail) == 0) {
			hear(engine, estate, &mail);
			mail_close_fds(&mail);
		}
		return true;
	}
	return false;
}
