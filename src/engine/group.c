/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Joining and making groups, under the host's join lock.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <arpa/inet.h>
#include <unistd.h>

#include "device/av.h"
#include "engine/group.h"
#include "engine/holder.h"
#include "engine/join_lock.h"
#include "engine/meeting.h"
#include "engine/steer.h"
#include "explain/reason.h"
#include "link/udp.h"

enum {
	DRAIN_LIMIT = 1 << 17,
	TRIES_STOPPED = 3,  /* of ANSWER_MS each, when someone doesn't answer */
	TRIES_STARVED = 12, /* the same, but not stopped: it may only have got no core */
	TRIES_LEAVING = 25, /* while a process that dies still has its sockets */
	TRIES_DYING = 250,  /* the same, when no process is seen to have them any more */
	LEAVING_MS = 20,
};

void group_list_init(struct group_list *list)
{
	pthread_mutex_init(&list->lock, NULL);
	CDS_INIT_LIST_HEAD(&list->groups);
}

uint32_t gid_scope(const union ibv_gid *gid, uint32_t ifindex)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80 ? ifindex : 0;
}

/* In reverse: the kernel moves a group's last socket into the place of one that goes. */
static void close_all(int *fds, uint32_t count)
{
	while (count)
		close(fds[--count]);
}

static void close_gsi(const struct group *group)
{
	if (group->gsi >= 0)
		close(group->gsi);
}

/* What a predecessor's peers still sent is nobody's. */
static void drain(int fd)
{
	char byte;

	for (int i = 0; i < DRAIN_LIMIT; i++)
		if (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_TRUNC) < 0)
			break;
}

/* 0 or -errno. */
static int bind_lanes(const struct group *group, int *fds)
{
	for (uint32_t made = 0; made < group->lanes; made++) {
		fds[made] = udp_socket_bind(&group->gid, group->ifindex, true);
		if (fds[made] < 0) {
			int error = fds[made];

			close_all(fds, made);
			return error;
		}
	}
	return 0;
}

/* Binds the sockets of the next slot and puts them into the vault; `fds` are the caller's to close.
 * 0 or -errno. */
static int add_slot(struct group *group, uint32_t slot, int *fds)
{
	int result = bind_lanes(group, fds);

	if (result < 0)
		return result;
	result = vault_put(&group->vault, slot + 1, fds, group->lanes);
	if (result < 0)
		close_all(fds, group->lanes);
	return result;
}

/* The first socket of all, which brings the steering program. With no program it would be given
 * what is not for it. 0 or -errno. */
static int obtain_gsi(struct group *group)
{
	int result;

	group->gsi = -1;
	if (!steer_is_wanted())
		return 0;
	result = vault_get(&group->vault, GROUP_GSI, &group->gsi, 1);
	if (result != -ENOENT)
		return result;
	group->gsi = udp_socket_bind(&group->gid, group->ifindex, true);
	if (group->gsi < 0)
		return group->gsi;
	/* a sandbox may forbid it; the kernel's choice and passing on do as well, if slower */
	steer_attach(group->gsi, group->lanes);
	result = vault_put(&group->vault, GROUP_GSI, &group->gsi, 1);
	if (result < 0)
		close(group->gsi);
	return result;
}

/* The place after the last slot that has sockets, looked for from `slot` downwards. 0 .. slot, or
 * -errno. */
static int first_missing(struct group *group, uint32_t slot)
{
	uint32_t missing = slot;

	while (missing > 0) {
		int fds[GROUP_MAX_LANES];
		int result = vault_get(&group->vault, missing, fds, group->lanes);

		if (result == 0) {
			close_all(fds, group->lanes);
			break;
		}
		if (result != -ENOENT)
			return result;
		missing--;
	}
	return (int)missing;
}

/* Our sockets: adopted where the slot had some, else made, with those of the slots before it. 0 or
 * -errno. */
static int obtain(struct group *group, uint32_t slot)
{
	int next, result;

	/* with no program places mean nothing, and a socket that outlives its owner would still be
	 * given packets */
	if (!steer_is_wanted())
		return bind_lanes(group, group->fds);
	result = vault_get(&group->vault, slot + 1, group->fds, group->lanes);
	if (result == 0) {
		for (uint32_t i = 0; i < group->lanes; i++)
			drain(group->fds[i]);
		return 0;
	}
	if (result != -ENOENT)
		return result;
	next = first_missing(group, slot);
	for (; next >= 0 && next < (int)slot; next++) {
		result = add_slot(group, (uint32_t)next, group->fds);
		if (result < 0)
			return result;
		close_all(group->fds, group->lanes);
	}
	return next < 0 ? next : add_slot(group, slot, group->fds);
}

/* Whether nobody at all has the port: 0, -EADDRINUSE or another -errno. */
static int probe(const struct group *group)
{
	int fd = udp_socket_bind(&group->gid, group->ifindex, false);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static int refuse_error(const struct group *group, int error)
{
	char text[INET6_ADDRSTRLEN];

	gid_text(&group->gid, text);
	if (error == -EMFILE || error == -ENFILE || error == -ETOOMANYREFS)
		return refuse(REASON_NO_DESCRIPTOR, "sockets of %s: %s", text, strerror(-error));
	return refuse(REASON_NO_SOCKET, "%s: %s", text, strerror(-error));
}

/* With the group's lanes checked: they come from another process. 0 or -errno. */
static int ask(struct group *group, uint32_t slot)
{
	int error = meeting_ask(slot, &group->gid, gid_scope(&group->gid, group->ifindex),
				&group->vault, &group->lanes);

	if (error == 0 && (group->lanes == 0 || group->lanes > GROUP_MAX_LANES ||
			   (group->lanes & (group->lanes - 1)))) {
		vault_close(&group->vault);
		return -EPROTO;
	}
	return error;
}

/* Still: whoever did not answer may have ended meanwhile. */
static bool is_held(const struct group *group)
{
	return probe(group) == -EADDRINUSE;
}

/* Whether to ask no more, after that many tries that someone has not answered. */
static bool is_silent(const struct group *group, int tries)
{
	if (tries < TRIES_STOPPED || (tries < TRIES_STARVED && holder_goes_on(&group->gid)))
		return false;
	return is_held(group);
}

/* Whether to ask no more, after that many tries that found none of ours. */
static bool is_foreign(const struct group *group, int tries)
{
	if (tries < TRIES_LEAVING || (tries < TRIES_DYING && holder_is_unseen(&group->gid)))
		return false;
	return is_held(group);
}

/* A new vault, or that of the group that has the port. 0 or a positive errno (noted). */
static int meet(struct group *group, uint32_t slot, uint32_t lanes)
{
	int silent = 0, leaving = 0, error;

	while ((error = probe(group)) == -EADDRINUSE) {
		error = ask(group, slot);
		if (error == 0)
			return 0;
		if (error == -ETIMEDOUT && is_silent(group, ++silent))
			return holder_refuse(&group->gid, true);
		if (error == -ENOENT && is_foreign(group, ++leaving))
			return holder_refuse(&group->gid, false);
		if (error != -ETIMEDOUT && error != -ENOENT)
			return refuse_error(group, error);
		poll(NULL, 0, LEAVING_MS);
	}
	group->lanes = lanes;
	if (error == 0)
		error = vault_create(&group->vault);
	return error ? refuse_error(group, error) : 0;
}

int group_join(struct group_list *list, uint32_t slot, const union ibv_gid *gid, uint32_t ifindex,
	       uint32_t lanes, struct group **result)
{
	struct group *group = calloc(1, sizeof(*group));
	int error, lock;

	if (!group)
		return refuse(REASON_NO_ENGINE_MEMORY, "group");
	group->gid = *gid;
	group->ifindex = ifindex;
	lock = join_lock(gid, gid_scope(gid, ifindex));
	if (lock < 0) {
		free(group);
		return -lock;
	}
	error = meet(group, slot, lanes);
	if (error == 0) {
		int obtained = obtain_gsi(group);

		if (obtained == 0) {
			obtained = obtain(group, slot);
			if (obtained < 0)
				close_gsi(group);
		}
		if (obtained < 0) {
			error = refuse_error(group, obtained);
			vault_close(&group->vault);
		}
	}
	if (error == 0) {
		pthread_mutex_lock(&list->lock);
		cds_list_add_tail(&group->node, &list->groups);
		pthread_mutex_unlock(&list->lock);
	}
	join_unlock(lock);
	if (error)
		free(group);
	else
		*result = group;
	return error;
}

void group_leave(struct group_list *list, struct group *group)
{
	pthread_mutex_lock(&list->lock);
	cds_list_del(&group->node);
	pthread_mutex_unlock(&list->lock);
	close_all(group->fds, group->lanes);
	close_gsi(group);
	vault_close(&group->vault);
	free(group);
}

void group_answer(struct group_list *list, int fd, const struct mail *mail)
{
	size_t length;
	const struct meeting *question = meeting_of(mail, &length);
	const struct group *group, *found = NULL;

	if (!question || question->type != MEETING_ASK)
		return;
	pthread_mutex_lock(&list->lock);
	cds_list_for_each_entry (group, &list->groups, node)
		if (memcmp(&group->gid, &question->gid, sizeof(group->gid)) == 0 &&
		    gid_scope(&group->gid, group->ifindex) == question->scope)
			found = group;
	if (found && mail->is_ours)
		meeting_answer(fd, mail, &found->vault, found->lanes);
	else
		meeting_answer(fd, mail, NULL, 0);
	pthread_mutex_unlock(&list->lock);
}
