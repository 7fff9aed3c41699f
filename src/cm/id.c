/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Communication ids: their numbers, and how they are found by what the peer calls itself.
 */
#include <stdlib.h>
#include <string.h>

#include "cm/state.h"

enum { FIRST_CAPACITY = 64, INDEX_BITS = 16 };

static uint32_t bucket_of(const union ibv_gid *gid, uint32_t number)
{
	uint32_t hash = number;

	for (int i = 0; i < 16; i += 4) {
		uint32_t word;

		memcpy(&word, gid->raw + i, sizeof(word));
		hash = (hash ^ word) * 0x9e3779b1u;
	}
	return hash >> 20;
}

_Static_assert(CM_BUCKETS == 1 << 12, "bucket_of() gives 12 bits");

static bool is_peer(const struct cm_id *id, const union ibv_gid *dgid)
{
	return memcmp(&id->path.dgid, dgid, sizeof(*dgid)) == 0;
}

struct cm_id *cm_find_by_id(const struct cm *cm, const union ibv_gid *dgid, uint32_t remote)
{
	struct cm_id *id = cm->by_id[bucket_of(dgid, remote)];

	while (id && (id->remote != remote || !is_peer(id, dgid)))
		id = id->next_by_id;
	return id;
}

struct cm_id *cm_find_by_qpn(const struct cm *cm, const union ibv_gid *dgid, uint32_t qpn)
{
	struct cm_id *id = cm->by_qpn[bucket_of(dgid, qpn)];

	while (id && (id->remote_qpn != qpn || !is_peer(id, dgid)))
		id = id->next_by_qpn;
	return id;
}

void cm_list_by_id(struct cm *cm, struct cm_id *id)
{
	struct cm_id **bucket = &cm->by_id[bucket_of(&id->path.dgid, id->remote)];

	if (id->is_by_id)
		return;
	id->is_by_id = true;
	id->next_by_id = *bucket;
	*bucket = id;
}

void cm_list_by_qpn(struct cm *cm, struct cm_id *id)
{
	struct cm_id **bucket = &cm->by_qpn[bucket_of(&id->path.dgid, id->remote_qpn)];

	if (id->is_by_qpn)
		return;
	id->is_by_qpn = true;
	id->next_by_qpn = *bucket;
	*bucket = id;
}

void cm_unlist_by_id(struct cm *cm, struct cm_id *id)
{
	struct cm_id **link = &cm->by_id[bucket_of(&id->path.dgid, id->remote)];

	if (!id->is_by_id)
		return;
	while (*link != id)
		link = &(*link)->next_by_id;
	*link = id->next_by_id;
	id->is_by_id = false;
}

void cm_unlist_by_qpn(struct cm *cm, struct cm_id *id)
{
	struct cm_id **link = &cm->by_qpn[bucket_of(&id->path.dgid, id->remote_qpn)];

	if (!id->is_by_qpn)
		return;
	while (*link != id)
		link = &(*link)->next_by_qpn;
	*link = id->next_by_qpn;
	id->is_by_qpn = false;
}

struct cm_id *cm_id_find(const struct cm *cm, uint32_t local)
{
	uint32_t index = local & (CM_MAX_IDS - 1);
	struct cm_id *id = index < cm->capacity ? cm->ids[index] : NULL;

	return id && id->local == local ? id : NULL;
}

static bool grow(struct cm *cm)
{
	uint32_t capacity = cm->capacity ? cm->capacity * 2 : FIRST_CAPACITY;
	struct cm_id **ids;

	if (capacity > CM_MAX_IDS)
		return false;
	ids = realloc(cm->ids, capacity * sizeof(struct cm_id *));
	if (!ids)
		return false;
	memset(ids + cm->capacity, 0, (capacity - cm->capacity) * sizeof(struct cm_id *));
	cm->ids = ids;
	cm->capacity = capacity;
	return true;
}

/* A number comes again late, and then with other middle bits. */
static uint32_t free_index(struct cm *cm)
{
	while (cm->ids[cm->cursor % cm->capacity])
		cm->cursor++;
	return cm->cursor++ % cm->capacity;
}

struct cm_id *cm_id_create(struct cm *cm, const struct cm_path *path)
{
	struct cm_id *id;
	uint32_t index;

	if (cm->count * 2 >= cm->capacity && !grow(cm) && cm->count == cm->capacity)
		return NULL;
	if (timer_queue_reserve(&cm->timers, cm->count + 1) < 0)
		return NULL;
	id = calloc(1, sizeof(*id));
	if (!id)
		return NULL;
	index = free_index(cm);
	cm->ids[index] = id;
	cm->count++;
	/* never 0, which says that an id is not known */
	id->local =
	    cm->slot << CM_ID_SLOT_SHIFT | (1 + cm->host->random(cm) % 0xff) << INDEX_BITS | index;
	id->path = *path;
	id->deadline = UINT64_MAX;
	return id;
}

void cm_id_free(struct cm *cm, struct cm_id *id)
{
	cm_unlist_by_id(cm, id);
	cm_part(cm, id);
	timer_cancel(&cm->timers, &id->timer);
	cm->ids[id->local & (CM_MAX_IDS - 1)] = NULL;
	cm->count--;
	free(id);
}

const char *cm_state_name(enum cm_state state)
{
	static const char *const names[] = {
	    [CM_IDLE] = "IDLE",		  [CM_REQ_SENT] = "REQ_SENT",
	    [CM_REQ_RCVD] = "REQ_RCVD",	  [CM_REP_SENT] = "REP_SENT",
	    [CM_REP_RCVD] = "REP_RCVD",	  [CM_ESTABLISHED] = "ESTABLISHED",
	    [CM_DREQ_SENT] = "DREQ_SENT", [CM_DREQ_RCVD] = "DREQ_RCVD",
	    [CM_TIMEWAIT] = "TIMEWAIT",	  [CM_SIDR_SENT] = "SIDR_SENT",
	    [CM_SIDR_RCVD] = "SIDR_RCVD", [CM_CLOSED] = "CLOSED",
	};

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

struct cm_id *cm_create(struct cm *cm, const struct cm_path *path, void *user)
{
	struct cm_id *id = cm_id_create(cm, path);

	if (id)
		id->user = user;
	return id;
}

void cm_init(struct cm *cm, uint32_t slot, const struct cm_host *host, void *data)
{
	memset(cm, 0, sizeof(*cm));
	cm->slot = slot;
	cm->host = host;
	cm->data = data;
	timer_queue_init(&cm->timers);
	timer_queue_init(&cm->peer_timers);
}

void cm_fini(struct cm *cm)
{
	for (uint32_t i = 0; i < cm->capacity; i++)
		if (cm->ids[i])
			cm_id_free(cm, cm->ids[i]);
	free(cm->ids);
	cm_peers_free(cm);
	timer_queue_fini(&cm->timers);
	timer_queue_fini(&cm->peer_timers);
}
