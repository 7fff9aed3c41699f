/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers: the processes that connections lead to, and whether they live. One of this host is watched
 * by the caller. One of another host is asked, by a LAP for one of its connections, which a
 * manager without alternate paths answers with "unsupported", and with a rejection when it does not
 * know the connection. Managers that never answer it (the kernel's, on Ethernet) are not asked
 * again: they do not die with a process, and disconnect for it.
 */
#include <stdlib.h>
#include <string.h>

#include "cm/state.h"

#define MS	       UINT64_C(1000000)
#define PROBE_INTERVAL (2000 * MS)
#define FIRST_INTERVAL (100 * MS)
#define AGAIN_INTERVAL (500 * MS) /* after one that was not answered */

static uint32_t bucket_of(const union ibv_gid *gid, uint32_t slot)
{
	uint32_t hash = slot;

	for (int i = 0; i < 16; i++)
		hash = (hash ^ gid->raw[i]) * 0x01000193u;
	return (hash ^ hash >> 16) % CM_PEER_BUCKETS;
}

static bool has_ids(const struct cm_peer *peer)
{
	return peer->ids.next != &peer->ids;
}

static struct cm_id *first_id(const struct cm_peer *peer)
{
	return cds_list_first_entry(&peer->ids, struct cm_id, of_peer);
}

static struct cm_peer *find(const struct cm *cm, const struct cm_path *path, uint32_t slot)
{
	struct cm_peer *peer = cm->peers[bucket_of(&path->dgid, slot)];

	while (peer &&
	       (peer->slot != slot || memcmp(&peer->gid, &path->dgid, sizeof(peer->gid)) != 0))
		peer = peer->next;
	return peer;
}

/* NULL when there is no memory: then nobody is asked. */
static struct cm_peer *create(struct cm *cm, const struct cm_path *path, uint32_t slot)
{
	struct cm_peer **bucket = &cm->peers[bucket_of(&path->dgid, slot)], *peer;

	if (timer_queue_reserve(&cm->peer_timers, cm->peer_count + 1) < 0)
		return NULL;
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return NULL;
	peer->gid = path->dgid;
	peer->slot = slot;
	peer->is_here = path->is_here;
	peer->deadline = UINT64_MAX;
	CDS_INIT_LIST_HEAD(&peer->ids);
	peer->next = *bucket;
	*bucket = peer;
	cm->peer_count++;
	return peer;
}

static void destroy(struct cm *cm, struct cm_peer *peer)
{
	struct cm_peer **link = &cm->peers[bucket_of(&peer->gid, peer->slot)];

	while (*link != peer)
		link = &(*link)->next;
	*link = peer->next;
	timer_cancel(&cm->peer_timers, &peer->timer);
	cm->peer_count--;
	free(peer);
}

void cm_peers_free(struct cm *cm)
{
	for (int i = 0; i < CM_PEER_BUCKETS; i++)
		while (cm->peers[i])
			destroy(cm, cm->peers[i]);
}

static void set_deadline(struct cm *cm, struct cm_peer *peer, uint64_t deadline)
{
	peer->deadline = deadline;
	timer_set(&cm->peer_timers, &peer->timer, deadline);
}

void cm_join_peer(struct cm *cm, struct cm_id *id, uint64_t now)
{
	uint32_t slot = id->remote >> CM_ID_SLOT_SHIFT;
	struct cm_peer *peer = find(cm, &id->path, slot);

	if (!peer) {
		peer = create(cm, &id->path, slot);
		if (!peer)
			return;
		if (peer->is_here && slot != cm->slot && cm->host->watch)
			cm->host->watch(cm, slot);
	}
	if (!peer->is_here && !has_ids(peer) && !peer->is_mute)
		set_deadline(cm, peer, now + (peer->answers ? PROBE_INTERVAL : FIRST_INTERVAL));
	id->peer = peer;
	cds_list_add_tail(&id->of_peer, &peer->ids);
}

void cm_part(struct cm *cm, struct cm_id *id)
{
	cm_unlist_by_qpn(cm, id);
	if (!id->peer)
		return;
	cds_list_del(&id->of_peer);
	if (!has_ids(id->peer) && id->peer->is_mute)
		destroy(cm, id->peer);
	id->peer = NULL;
}

/* Each connection ends as if its peer had, without an answer owed. */
static void end_all(struct cm *cm, struct cm_peer *peer, uint64_t now)
{
	cm->counters.dead += has_ids(peer);
	while (has_ids(peer)) {
		struct cm_id *id = first_id(peer);

		cm_enter_timewait(cm, id, true, now);
		cm_tell(cm, id, CM_EVENT_DISCONNECTED, NULL);
	}
}

void cm_peer_died(struct cm *cm, uint32_t slot, uint64_t now)
{
	for (int i = 0; i < CM_PEER_BUCKETS; i++) {
		struct cm_peer *peer = cm->peers[i], *next;

		for (; peer; peer = next) {
			next = peer->next;
			if (!peer->is_here || peer->slot != slot)
				continue;
			end_all(cm, peer, now);
			destroy(cm, peer);
		}
	}
}

void cm_peer_answered(struct cm_peer *peer)
{
	peer->answers = true;
	peer->unanswered = 0;
}

void cm_peer_denied(struct cm *cm, struct cm_peer *peer, uint64_t now)
{
	if (!peer || peer->is_here)
		return;
	peer->unanswered = 0;
	set_deadline(cm, peer, now);
}

/* One after the other: a connection that only we know of is found when its turn comes. */
static void probe(struct cm *cm, struct cm_peer *peer, uint64_t now)
{
	struct cm_id *id = first_id(peer);
	struct cm_mad mad = {.attribute = CM_LAP,
			     .transaction = id->transaction,
			     .local_id = id->local,
			     .remote_id = id->remote};

	set_deadline(cm, peer, now + (peer->unanswered++ ? AGAIN_INTERVAL : PROBE_INTERVAL));
	cm->counters.probes++;
	cds_list_del(&id->of_peer);
	cds_list_add_tail(&id->of_peer, &peer->ids);
	cm_send(cm, &id->path, &mad);
}

static void due(struct cm *cm, struct cm_peer *peer, uint64_t now)
{
	peer->deadline = UINT64_MAX;
	if (has_ids(peer) && peer->unanswered < CM_PROBES_UNANSWERED) {
		probe(cm, peer, now);
	} else if (has_ids(peer) && !peer->answers) {
		peer->is_mute = true;
	} else {
		end_all(cm, peer, now);
		destroy(cm, peer);
	}
}

void cm_peers_run(struct cm *cm, uint64_t now)
{
	struct timer *timer;

	while ((timer = timer_take_due(&cm->peer_timers, now))) {
		struct cm_peer *peer =
		    (struct cm_peer *)((char *)timer - offsetof(struct cm_peer, timer));

		if (peer->deadline <= now)
			due(cm, peer, now);
		else
			timer_set(&cm->peer_timers, timer, peer->deadline);
	}
}
