/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The same-host link: which channel a packet takes, and what comes in on them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <urcu/compiler.h>

#include "base/hot.h"
#include "device/av.h"
#include "link/samehost_link.h"
#include "wire/headers.h"

enum {
	BATCH_PACKETS = 64,	 /* from a channel at a time, so that answers leave in between, */
	BATCH_BYTES = 256 << 10, /* and as much of what is copied */
};

/* ---- channels ---- */

size_t channel_bytes(void)
{
	return sizeof(struct channel_memory);
}

struct channel *channel_open(void *memory, unsigned int flags, int bell)
{
	static atomic_ulong channels;
	struct channel *channel = calloc(1, sizeof(*channel));
	struct channel_memory *shared = memory;
	int out = flags & (CHANNEL_OFFERED | CHANNEL_OWN) ? 0 : 1;
	int in = flags & CHANNEL_OWN || !(flags & CHANNEL_OFFERED) ? 0 : 1;

	if (!channel)
		return NULL;
	ring_producer_init(&channel->out, &shared->rings[out]);
	ring_consumer_init(&channel->in, &shared->rings[in]);
	channel->side = &shared->sides[out];
	channel->their_side = &shared->sides[in];
	channel->assist.board = &channel->side->board;
	channel->number = atomic_fetch_add(&channels, 1) + 1;
	channel->lifeline = -1;
	channel->memory = memory;
	channel->bell = flags & CHANNEL_OWN ? -1 : bell;
	channel->is_bell_lent = flags & CHANNEL_BELL_LENT;
	return channel;
}

void channel_set_reach(struct channel *channel, int lifeline, struct reach *reach)
{
	channel->lifeline = lifeline;
	channel->reach = reach;
}

void channel_close(struct channel *channel)
{
	reach_close(channel->reach);
	munmap(channel->memory, channel_bytes());
	if (channel->bell >= 0 && !channel->is_bell_lent)
		close(channel->bell);
	free(channel);
}

void channel_abandon(struct channel *channel)
{
	reach_abandon(channel->reach);
	if (channel->bell >= 0 && !channel->is_bell_lent)
		close(channel->bell);
}

/* ---- the way out ---- */

static struct samehost *samehost_of(struct outbox *outbox)
{
	return caa_container_of(outbox, struct samehost, outbox);
}

static const struct local *local_find(const struct samehost *samehost, const union ibv_gid *gid)
{
	for (uint32_t i = 0; i < samehost->local_count; i++)
		if (gid_is_same(&samehost->locals[i].gid, gid))
			return &samehost->locals[i];
	return NULL;
}

bool samehost_is_local(const struct samehost *samehost, const struct av *av)
{
	return gid_is_same(&av->sgid, &av->dgid) || local_find(samehost, &av->dgid);
}

/* Who has no channel to offer now may have one later: another process, in the same slot. */
static void ask(struct samehost *samehost, uint32_t slot, uint32_t way)
{
	if (samehost->wanted_count == WANTED_MAX)
		return;
	samehost->states[slot][way] = WAY_ASKED;
	samehost->wanted[samehost->wanted_count++] = (uint16_t)(slot * SAMEHOST_WAYS + way);
}

bool samehost_is_open(struct samehost *samehost, uint32_t slot, uint32_t way)
{
	if (samehost->way_to[slot][way])
		return false;
	if (samehost->states[slot][way] == WAY_UNKNOWN)
		ask(samehost, slot, way);
	return samehost->states[slot][way] != WAY_ELSEWHERE;
}

/* False if the packet has to wait. Without a channel it goes elsewhere. */
static bool choose(struct samehost *samehost, const struct av *av, uint32_t dest_qp,
		   struct channel **channel)
{
	uint32_t slot = dest_qp >> QPN_SLOT_SHIFT, way = samehost_way(dest_qp);

	*channel = NULL;
	if (samehost->is_off || dest_qp <= QPN_GSI || dest_qp == QPN_MULTICAST ||
	    !samehost_is_local(samehost, av))
		return true;
	*channel = samehost->way_to[slot][way];
	if (*channel)
		return true;
	if (samehost->states[slot][way] == WAY_UNKNOWN ||
	    (samehost->states[slot][way] == WAY_ELSEWHERE && ++samehost->passed[slot] == 0))
		ask(samehost, slot, way);
	return samehost->states[slot][way] == WAY_ELSEWHERE;
}

static bool has_address(const struct channel *channel, const struct av *av)
{
	const struct channel_address *sent = &channel->sent;

	return gid_is_same(&sent->dgid, &av->dgid) && gid_is_same(&sent->sgid, &av->sgid) &&
	       sent->traffic_class == av->traffic_class && sent->hop_limit == av->hop_limit &&
	       sent->flow_label == av->flow_label;
}

static bool put_address(struct samehost *samehost, struct channel *channel, const struct av *av)
{
	const struct local *local = local_find(samehost, &av->sgid);
	struct channel_address address;

	memset(&address, 0, sizeof(address));
	address.sgid = av->sgid;
	address.dgid = av->dgid;
	address.ifindex = local ? local->ifindex : 0;
	address.flow_label = av->flow_label;
	address.traffic_class = av->traffic_class;
	address.hop_limit = av->hop_limit;
	if (!ring_put_address(&channel->out, &address, sizeof(address)))
		return false;
	channel->sent = address;
	samehost->changes++;
	return true;
}

static void touch(struct samehost *samehost, struct channel *channel)
{
	channel->is_touched = true;
	samehost->has_touched = true;
}

static uint8_t *reserve(struct outbox *outbox, const struct av *av, uint32_t dest_qp, size_t size)
{
	struct samehost *samehost = samehost_of(outbox);
	struct channel *channel;
	uint8_t *bytes = NULL;

	if (!choose(samehost, av, dest_qp, &channel)) {
		samehost->is_full = true;
		return NULL;
	}
	samehost->reserved = channel;
	if (!channel)
		return samehost->elsewhere->reserve(samehost->elsewhere, av, dest_qp, size);
	if (size < BTH_BYTES || size > RING_BULK_BYTES)
		return NULL;
	if (has_address(channel, av) || put_address(samehost, channel, av))
		bytes = ring_reserve(&channel->out, size);
	samehost->is_full |= !bytes;
	return bytes;
}

/* A stream is what leaves without anything that comes in, on whichever channel. */
static struct ring_producer *ring_to(struct samehost *samehost, struct channel *channel)
{
	if (channel->heard != samehost->heard) {
		channel->heard = samehost->heard;
		ring_was_heard_of(&channel->out);
	}
	return &channel->out;
}

static void commit(struct outbox *outbox, size_t size)
{
	struct samehost *samehost = samehost_of(outbox);

	if (!samehost->reserved) {
		samehost->elsewhere->commit(samehost->elsewhere, size);
		return;
	}
	ring_commit(ring_to(samehost, samehost->reserved), size);
	touch(samehost, samehost->reserved);
}

/* Not in a ring: packets there are whole messages. */
static uint32_t reserve_run(struct outbox *outbox, const struct av *av, uint32_t dest_qp,
			    uint8_t opcode, size_t size, uint32_t count, uint8_t **bytes,
			    uint32_t *stride)
{
	struct samehost *samehost = samehost_of(outbox);
	struct outbox *elsewhere = samehost->elsewhere;
	struct channel *channel;

	if (!elsewhere->reserve_run || !choose(samehost, av, dest_qp, &channel) || channel)
		return 0;
	samehost->reserved = NULL;
	return elsewhere->reserve_run(elsewhere, av, dest_qp, opcode, size, count, bytes, stride);
}

static void commit_run(struct outbox *outbox, size_t size, uint32_t count, bool is_summed)
{
	struct outbox *elsewhere = samehost_of(outbox)->elsewhere;

	elsewhere->commit_run(elsewhere, size, count, is_summed);
}

ASIDE static struct channel *open_way(struct samehost *samehost, const struct av *av,
				      uint32_t dest_qp)
{
	struct channel *channel;

	if (!choose(samehost, av, dest_qp, &channel) || !channel ||
	    !put_address(samehost, channel, av))
		return NULL;
	return channel;
}

WHOLE static void *reserve_express(struct outbox *outbox, const struct av *av, uint32_t dest_qp,
				   size_t size)
{
	struct samehost *samehost = samehost_of(outbox);
	struct channel *channel = channel_to(samehost, dest_qp);

	/* what has left by it with this address was of this host */
	if (!channel || !has_address(channel, av))
		channel = open_way(samehost, av, dest_qp);
	if (!channel)
		return NULL;
	samehost->reserved = channel;
	return ring_reserve(&channel->out, size);
}

static bool is_along(const struct outbox *outbox, const struct av *av, uint32_t dest_qp)
{
	const struct samehost *samehost = samehost_of((struct outbox *)outbox);
	const struct channel *channel = channel_to(samehost, dest_qp);

	return channel && channel == samehost->reserved && has_address(channel, av);
}

static bool has_records(const struct outbox *outbox, const struct av *av, uint32_t dest_qp)
{
	return samehost_find_way(samehost_of((struct outbox *)outbox), av, dest_qp);
}

WHOLE static void commit_express(struct outbox *outbox, size_t size)
{
	struct samehost *samehost = samehost_of(outbox);

	touch(samehost, samehost->reserved);
	ring_commit_express(ring_to(samehost, samehost->reserved), size);
}

/* ---- the same, by a way that was found before ---- */

unsigned long samehost_changes(const struct samehost *samehost)
{
	return samehost->changes;
}

struct channel *samehost_find_way(const struct samehost *samehost, const struct av *av,
				  uint32_t dest_qp)
{
	struct channel *channel = channel_to(samehost, dest_qp);

	return channel && has_address(channel, av) ? channel : NULL;
}

APART static void *reserve_long(struct ring_producer *out, size_t size)
{
	return ring_reserve(out, size);
}

APART static void commit_long(struct ring_producer *out, size_t size)
{
	ring_commit_express(out, size);
}

static bool is_small(size_t size)
{
	return size <= RING_SLOT_BYTES - offsetof(struct ring_slot, bytes);
}

void *samehost_reserve_record(struct channel *way, size_t size)
{
	return is_small(size) ? ring_reserve_small(&way->out, size) : reserve_long(&way->out, size);
}

void samehost_commit_record(struct samehost *samehost, struct channel *way, size_t size)
{
	struct ring_producer *out = ring_to(samehost, way);

	if (is_small(size))
		ring_commit_small(out, size);
	else
		commit_long(out, size);
}

bool samehost_is_heard_by(struct samehost *samehost, struct channel *way)
{
	if (way->bell < 0 || ring_is_heard(&way->out))
		return true;
	touch(samehost, way);
	return false;
}

bool samehost_is_heard(struct samehost *samehost)
{
	return !samehost->reserved || samehost_is_heard_by(samehost, samehost->reserved);
}

static void ring_bells(struct samehost *samehost)
{
	uint64_t one = 1;

	samehost->has_touched = false;
	for (uint32_t i = 0; i < samehost->channel_count; i++) {
		struct channel *channel = samehost->channels[i];

		if (!channel->is_touched)
			continue;
		channel->is_touched = false;
		if (ring_wants_bell(&channel->out) && channel->bell >= 0 &&
		    write(channel->bell, &one, sizeof(one)) < 0)
			continue; /* EAGAIN: it rings as it is */
	}
}

bool samehost_flush(struct samehost *samehost)
{
	bool was_full = samehost->is_full;

	samehost->is_full = false;
	if (samehost->has_touched)
		ring_bells(samehost);
	return !was_full;
}

bool samehost_is_taken(const struct samehost *samehost, uint32_t slot, uint32_t way)
{
	const struct channel *channel = samehost->way_to[slot][way];

	return channel && ring_is_taken(&channel->out);
}

/* ---- the way in ---- */

static bool take_address(struct samehost *samehost, struct channel *channel, const void *bytes,
			 size_t length)
{
	struct channel_address address;

	if (length != sizeof(address))
		return false;
	memcpy(&address, bytes, sizeof(address));
	channel->packet = (struct packet){
	    .sgid = address.sgid,
	    .dgid = address.dgid,
	    .flow_label = address.flow_label,
	    .traffic_class = address.traffic_class,
	    .hop_limit = address.hop_limit,
	    .lane = channel->lane,
	};
	channel->ifindex = address.ifindex;
	channel->owner = NULL;
	samehost->changes++;
	return true;
}

static unsigned int receive(struct samehost *samehost, struct channel *channel, samehost_find find,
			    samehost_deliver deliver, void *data)
{
	unsigned int count = 0;
	const void *bytes;
	size_t length;

	samehost->copied = 0;
	samehost->receiving = channel;
	while (count < BATCH_PACKETS && samehost->copied < BATCH_BYTES) {
		enum ring_kind kind = ring_take(&channel->in, &bytes, &length);

		if (kind == RING_NONE || kind == RING_BROKEN)
			break;
		count++;
		samehost->copied += length;
		if (kind == RING_ADDRESS) {
			channel->in.is_broken |= !take_address(samehost, channel, bytes, length);
			continue;
		}
		if (!channel->owner)
			channel->owner = find(&channel->packet.dgid, channel->ifindex, data);
		if (!channel->owner || length < BTH_BYTES)
			continue;
		channel->packet.bth = bytes;
		channel->packet.length = length;
		channel->packet.is_express = kind == RING_EXPRESS;
		deliver(&channel->packet, channel->owner, data);
	}
	samehost->receiving = NULL;
	if (count)
		ring_release(&channel->in);
	return count;
}

static bool is_packet(enum ring_kind kind)
{
	return kind == RING_INLINE || kind == RING_BULK;
}

const uint8_t *samehost_behind(struct samehost *samehost, uint32_t next, size_t *length)
{
	struct channel *channel = samehost->receiving;
	bool is_found = channel;
	struct ring_place before;
	const void *bytes;

	if (!channel)
		return NULL;
	before = ring_place(&channel->in);
	for (uint32_t i = 0; is_found && i <= next; i++)
		is_found = is_packet(ring_take(&channel->in, &bytes, length));
	ring_go_back(&channel->in, before);
	return is_found ? bytes : NULL;
}

/* What is not accepted stays. Of several at a time the first is not claimed: one that comes alone
 * may have somebody wait for the answer, and to write in its line takes as long as its way here. */
static unsigned int glance(struct channel *channel, samehost_accept accept, void *data,
			   enum samehost_taken *last)
{
	unsigned int count = 0;
	const void *bytes;
	size_t length, copied = 0;

	*last = channel->owner ? SAMEHOST_TAKEN : SAMEHOST_LEFT;
	for (; channel->owner && count < BATCH_PACKETS && copied < BATCH_BYTES;
	     count++, copied += length) {
		struct ring_place before = ring_place(&channel->in);
		enum ring_kind kind = ring_take(&channel->in, &bytes, &length);

		if (kind == RING_NONE)
			break;
		*last = SAMEHOST_LEFT;
		if (kind == RING_EXPRESS || (is_packet(kind) && length >= BTH_BYTES)) {
			channel->packet.bth = bytes;
			channel->packet.length = length;
			channel->packet.is_express = kind == RING_EXPRESS;
			if (count)
				ring_claim(&channel->in, before);
			*last = accept(&channel->packet, channel->owner, data);
			if (*last == SAMEHOST_TAKEN)
				continue;
			count += *last == SAMEHOST_ENOUGH;
			if (*last == SAMEHOST_ENOUGH)
				break;
		}
		ring_go_back(&channel->in, before);
		break;
	}
	if (count)
		ring_release(&channel->in);
	return count;
}

/* ---- one by one ---- */

APART static bool take_any(struct ring_consumer *consumer, const void **bytes, size_t *length)
{
	return ring_take(consumer, bytes, length) == RING_EXPRESS;
}

const struct packet *samehost_take_record(struct samehost *samehost, bool is_next)
{
	struct channel *channel = samehost->channel_count ? samehost->channels[0] : NULL;
	const void *bytes;
	size_t length;

	if (!channel || ring_is_empty(&channel->in) || !channel->owner)
		return NULL;
	samehost->before = ring_place(&channel->in);
	if (!ring_take_small(&channel->in, &bytes, &length) &&
	    !take_any(&channel->in, &bytes, &length)) {
		ring_go_back(&channel->in, samehost->before);
		return NULL;
	}
	channel->packet.bth = bytes;
	channel->packet.length = length;
	channel->packet.is_express = true;
	if (is_next)
		ring_claim(&channel->in, samehost->before);
	return &channel->packet;
}

void *samehost_owner_of_record(const struct samehost *samehost)
{
	return samehost->channels[0]->owner;
}

void samehost_leave_record(struct samehost *samehost)
{
	ring_go_back(&samehost->channels[0]->in, samehost->before);
}

void samehost_release_records(struct samehost *samehost, unsigned int count)
{
	samehost->heard += count;
	ring_release(&samehost->channels[0]->in);
}

bool samehost_is_empty(const struct samehost *samehost)
{
	for (uint32_t i = 0; i < samehost->channel_count; i++)
		if (!ring_is_empty(&samehost->channels[i]->in))
			return false;
	return true;
}

/* Where something came in, more is likely to; that it is looked at first. */
static void put_first(struct samehost *samehost, uint32_t index)
{
	struct channel *channel = samehost->channels[index];

	samehost->channels[index] = samehost->channels[0];
	samehost->channels[0] = channel;
}

WHOLE unsigned int samehost_glance(struct samehost *samehost, samehost_accept accept, void *data,
				   bool *has_left)
{
	enum samehost_taken last = SAMEHOST_TAKEN;
	unsigned int count = 0;

	*has_left = false;
	for (uint32_t i = 0; i < samehost->channel_count && last != SAMEHOST_ENOUGH; i++) {
		struct channel *channel = samehost->channels[i];

		if (ring_is_empty(&channel->in))
			continue;
		count += glance(channel, accept, data, &last);
		if (i)
			put_first(samehost, i);
		*has_left |= last == SAMEHOST_LEFT;
	}
	samehost->heard += count;
	return count;
}

unsigned int samehost_receive(struct samehost *samehost, samehost_find find,
			      samehost_deliver deliver, void *data)
{
	unsigned int count = 0;

	for (uint32_t i = 0; i < samehost->channel_count; i++)
		if (!ring_is_empty(&samehost->channels[i]->in))
			count += receive(samehost, samehost->channels[i], find, deliver, data);
	samehost->heard += count;
	return count;
}

bool samehost_has_own_news(const struct samehost *samehost)
{
	return samehost->own && !ring_is_empty(&samehost->own->in);
}

void samehost_forget(struct samehost *samehost, const void *owner)
{
	for (uint32_t i = 0; i < samehost->channel_count; i++)
		if (samehost->channels[i]->owner == owner)
			samehost->channels[i]->owner = NULL;
	samehost->changes++;
}

bool samehost_fall_asleep(struct samehost *samehost)
{
	for (uint32_t i = 0; i < samehost->channel_count; i++)
		if (!ring_fall_asleep(&samehost->channels[i]->in)) {
			samehost_stay_awake(samehost);
			return false;
		}
	if (!samehost_is_called(samehost))
		return true;
	samehost_stay_awake(samehost);
	return false;
}

void samehost_stay_awake(struct samehost *samehost)
{
	for (uint32_t i = 0; i < samehost->channel_count; i++)
		ring_stay_awake(&samehost->channels[i]->in);
}

/* ---- who polls where ---- */

enum { POLLER_CPU_BITS = 12, POLLER_SLOT_BITS = 8 };

uint32_t samehost_poller(int cpu, uint32_t slot, uint32_t thread)
{
	if (cpu < 0 || cpu + 1 >= 1 << POLLER_CPU_BITS)
		return 0;
	return (uint32_t)(cpu + 1) | slot << POLLER_CPU_BITS |
	       thread << (POLLER_CPU_BITS + POLLER_SLOT_BITS);
}

void samehost_say_poller(struct samehost *samehost, uint32_t poller)
{
	samehost->poller = poller;
	for (uint32_t i = 0; i < samehost->channel_count; i++)
		atomic_store_explicit(&samehost->channels[i]->side->poller, poller,
				      memory_order_relaxed);
}

bool samehost_has_peers_here(const struct samehost *samehost, uint32_t poller)
{
	const uint32_t cpu = (1u << POLLER_CPU_BITS) - 1;

	for (uint32_t i = 0; i < samehost->channel_count; i++) {
		uint32_t other = atomic_load_explicit(&samehost->channels[i]->their_side->poller,
						      memory_order_relaxed);

		if (other && other != poller && (other & cpu) == (poller & cpu))
			return true;
	}
	return false;
}

/* ---- life ---- */

struct samehost *samehost_open(struct outbox *elsewhere, bool is_off, bool has_express,
			       uint8_t lane)
{
	struct samehost *samehost = calloc(1, sizeof(*samehost));

	if (!samehost)
		return NULL;
	samehost->outbox = (struct outbox){.reserve = reserve,
					   .commit = commit,
					   .reserve_run = reserve_run,
					   .commit_run = commit_run,
					   .takes_sums = elsewhere && elsewhere->takes_sums,
					   .joins_acks = elsewhere && elsewhere->joins_acks};
	if (has_express) {
		samehost->outbox.reserve_express = reserve_express;
		samehost->outbox.commit_express = commit_express;
		samehost->outbox.has_records = has_records;
		samehost->outbox.is_along = is_along;
	}
	samehost->elsewhere = elsewhere;
	samehost->is_off = is_off;
	samehost->lane = lane;
	return samehost;
}

void samehost_close(struct samehost *samehost)
{
	if (!samehost)
		return;
	while (samehost->channel_count)
		channel_close(samehost->channels[--samehost->channel_count]);
	free(samehost->channels);
	free(samehost);
}

void samehost_abandon(struct samehost *samehost)
{
	for (uint32_t i = 0; i < samehost->channel_count; i++)
		channel_abandon(samehost->channels[i]);
}

struct outbox *samehost_outbox(struct samehost *samehost)
{
	return &samehost->outbox;
}

/* More addresses than there is room for: they are reached by UDP. */
void samehost_set_local(struct samehost *samehost, const union ibv_gid *gid, uint32_t ifindex)
{
	if (samehost->local_count == LOCALS_MAX || local_find(samehost, gid))
		return;
	samehost->locals[samehost->local_count++] = (struct local){*gid, ifindex};
}

int samehost_add(struct samehost *samehost, struct channel *channel, uint32_t slot,
		 unsigned int ways)
{
	uint32_t room = samehost->channel_room ? 2 * samehost->channel_room : 4;

	if (samehost->channel_count == samehost->channel_room) {
		struct channel **more =
		    realloc(samehost->channels, room * sizeof(struct channel *));

		if (!more)
			return -ENOMEM;
		samehost->channels = more;
		samehost->channel_room = room;
	}
	samehost->channels[samehost->channel_count++] = channel;
	samehost->changes++;
	channel->lane = samehost->lane;
	atomic_store(&channel->side->is_watching, 1);
	atomic_store(&channel->side->poller, samehost->poller);
	if (channel->out.memory == channel->in.memory)
		samehost->own = channel;
	for (uint32_t way = 0; way < SAMEHOST_WAYS; way++)
		if ((ways & 1u << way) && !samehost->way_to[slot][way])
			samehost->way_to[slot][way] = channel;
	return 0;
}

void samehost_remove(struct samehost *samehost, struct channel *channel)
{
	for (uint32_t slot = 0; slot < QPN_SLOTS; slot++)
		for (uint32_t way = 0; way < SAMEHOST_WAYS; way++)
			if (samehost->way_to[slot][way] == channel) {
				samehost->way_to[slot][way] = NULL;
				samehost->states[slot][way] = WAY_UNKNOWN;
			}
	for (uint32_t i = 0; i < samehost->channel_count; i++)
		if (samehost->channels[i] == channel) {
			samehost->channels[i] = samehost->channels[--samehost->channel_count];
			break;
		}
	if (samehost->reserved == channel)
		samehost->reserved = NULL;
	if (samehost->helped == channel)
		samehost->helped = NULL;
	samehost->changes++;
}

bool samehost_has_way(const struct samehost *samehost, uint32_t slot, uint32_t way)
{
	return samehost->way_to[slot][way];
}

bool samehost_wanted(struct samehost *samehost, uint32_t *slot, uint32_t *way)
{
	uint16_t wanted;

	if (!samehost->wanted_count)
		return false;
	wanted = samehost->wanted[--samehost->wanted_count];
	*slot = wanted / SAMEHOST_WAYS;
	*way = wanted % SAMEHOST_WAYS;
	return true;
}

void samehost_settle(struct samehost *samehost, uint32_t slot, uint32_t way)
{
	samehost->states[slot][way] = WAY_ELSEWHERE;
}
