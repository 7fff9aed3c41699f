/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ring of ring.h.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/lines.h"
#include "base/populate.h"
#include "base/processor.h"
#include "link/ring.h"

enum {
	SPARE_SLOTS = 1,   /* whose word is of no record */
	STREAK = 4,	   /* so many, and the consumer is likely to be behind */
	FETCHED_AHEAD = 3, /* of one slot; with more the consumer, reading ahead, takes it back */
	TAKEN_AHEAD = 8,   /* by a consumer who has a batch in hand */
	READ_UNITS = 72,   /* of the bulk area: a path MTU of 4096, and its head */
	SHORT_UNITS = 33,  /* a payload of 2 KiB, and its head */
	TOUCHED_LEAST = 256,
	TOUCHED_MOST = 2048, /* units at once: 16 and 128 KiB */
};

_Static_assert(RING_BULK_BYTES < 1 << RING_LENGTH_BITS, "fits a word");

static enum ring_kind kind_of(unsigned int word)
{
	return word & ((1u << RING_KIND_BITS) - 1);
}

static size_t length_of(unsigned int word)
{
	return word >> RING_KIND_BITS & ((1u << RING_LENGTH_BITS) - 1);
}

static struct ring_slot *slot_at(struct ring_memory *memory, uint32_t position)
{
	return &memory->slots[position % RING_SLOTS];
}

static uint32_t slots_of(size_t size)
{
	return (uint32_t)((size + 8 + RING_SLOT_BYTES - 1) / RING_SLOT_BYTES);
}

static uint32_t units_of(size_t size)
{
	return (uint32_t)((size + 63) / 64);
}

/* A Zen 5 finds the lines of a long record as soon as its string instruction has the first ones. */
static const struct ring_ahead *find_ahead(void)
{
	static const struct ring_ahead zen5 = {.whole = SHORT_UNITS, .first = 4};
	static const struct ring_ahead others = {.whole = READ_UNITS, .is_claimed = true};

	return processor_is_zen5() ? &zen5 : &others;
}

void ring_producer_init(struct ring_producer *producer, struct ring_memory *memory)
{
	*producer = (struct ring_producer){.memory = memory, .ahead = find_ahead()};
}

void ring_consumer_init(struct ring_consumer *consumer, struct ring_memory *memory)
{
	*consumer = (struct ring_consumer){.memory = memory, .ahead = find_ahead()};
}

static uint8_t *unit_at(struct ring_memory *memory, uint32_t position)
{
	return memory->bulk + position % RING_BULK_UNITS * 64;
}

static void touch_more(struct ring_memory *memory, uint32_t *touched, uint32_t end)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start, until;

	while (*touched < end) {
		uint32_t units = *touched < TOUCHED_LEAST ? TOUCHED_LEAST : *touched;

		start = *touched ? (uintptr_t)unit_at(memory, *touched) & ~(page - 1)
				 : (uintptr_t)memory & ~(page - 1);
		*touched += units < TOUCHED_MOST ? units : TOUCHED_MOST;
		until = (uintptr_t)memory->bulk + (uintptr_t)*touched * 64;
		madvise((void *)start, until - start, MADV_POPULATE_WRITE);
	}
}

/*
 * The bulk area up to there is about to be used, and the slots. Their pages come into being, and
 * into the mapping of either side, as they are touched first, for which a fault each takes several
 * times as long as a call for many: 13 us a page and 1.6 on some virtual machines. As many again as
 * there are already, so that who sends little has few. Where the kernel does not know the call,
 * each is a fault.
 */
static void touch(struct ring_memory *memory, uint32_t *touched, uint32_t end)
{
	if (end > *touched)
		touch_more(memory, touched, end);
}

/* ---- the producer ---- */

static bool has_slots(struct ring_producer *p, uint32_t slots)
{
	if (p->tail - p->head_seen + slots + SPARE_SLOTS <= RING_SLOTS)
		return true;
	p->head_seen = atomic_load_explicit(&p->memory->head, memory_order_acquire);
	return p->tail - p->head_seen + slots + SPARE_SLOTS <= RING_SLOTS;
}

static bool has_units(struct ring_producer *p, uint32_t units)
{
	if (p->bulk_tail - p->bulk_seen + units <= RING_BULK_UNITS)
		return true;
	p->bulk_seen = atomic_load_explicit(&p->memory->bulk_head, memory_order_acquire);
	return p->bulk_tail - p->bulk_seen + units <= RING_BULK_UNITS;
}

/* Where the record behind the next one is going to be, if both are as long as the one just shown.
 */
static void fetch_slots(const struct ring_producer *p, uint32_t slots)
{
	uint32_t behind = slots > 1 ? slots : FETCHED_AHEAD;

	for (uint32_t i = 0; i < slots; i++)
		lines_fetch(slot_at(p->memory, p->tail + behind + i));
}

/* The word behind the record is of none before the record is seen. */
static void publish(struct ring_producer *p, uint32_t slots, enum ring_kind kind, size_t length)
{
	struct ring_slot *slot = slot_at(p->memory, p->tail), *next;
	unsigned int word = ring_lap(p->tail) | (unsigned int)length << RING_KIND_BITS | kind;

	p->tail += slots;
	next = slot_at(p->memory, p->tail);
	if (ring_is_of_lap(atomic_load_explicit(&next->word, memory_order_relaxed), p->tail))
		atomic_store_explicit(&next->word, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->word, word, memory_order_release);
	if (++p->streak > STREAK)
		fetch_slots(p, slots);
	p->has_news = true;
}

/* `slots` in a row. */
static bool make_room(struct ring_producer *p, uint32_t slots)
{
	uint32_t left = RING_SLOTS - p->tail % RING_SLOTS;

	if (left >= slots)
		return has_slots(p, slots);
	if (!has_slots(p, left + slots))
		return false;
	publish(p, left, RING_SKIP, 0);
	return true;
}

static void *reserve_bulk(struct ring_producer *p, size_t size)
{
	uint32_t units = units_of(size), left = RING_BULK_UNITS - p->bulk_tail % RING_BULK_UNITS;
	uint32_t skipped = left < units ? left : 0;

	if (!has_units(p, skipped + units) || !make_room(p, 1))
		return NULL;
	p->reserved_slots = 0;
	p->reserved_unit = p->bulk_tail + skipped;
	touch(p->memory, &p->touched, p->reserved_unit % RING_BULK_UNITS + units);
	return p->memory->bulk + p->reserved_unit % RING_BULK_UNITS * 64;
}

void *ring_reserve(struct ring_producer *p, size_t size)
{
	if (size > RING_INLINE_BYTES)
		return size <= RING_BULK_BYTES ? reserve_bulk(p, size) : NULL;
	p->reserved_slots = slots_of(size);
	return make_room(p, p->reserved_slots) ? slot_at(p->memory, p->tail)->bytes : NULL;
}

/* Where the next record, if it is as long as this one, is going to be. There nobody waits. */
static void fetch_ahead(const struct ring_producer *p, uint32_t units)
{
	if (units > READ_UNITS)
		return;
	if (units > p->ahead->whole)
		units = p->ahead->first;
	for (uint32_t i = 0; i < units; i++)
		lines_fetch(unit_at(p->memory, p->bulk_tail + i));
}

static void commit(struct ring_producer *p, size_t size, enum ring_kind in_slots,
		   enum ring_kind in_bulk)
{
	if (p->reserved_slots) {
		publish(p, slots_of(size), in_slots, size);
		return;
	}
	slot_at(p->memory, p->tail)->unit = p->reserved_unit;
	p->bulk_tail = p->reserved_unit + units_of(size);
	publish(p, 1, in_bulk, size);
	fetch_ahead(p, units_of(size));
}

void ring_commit(struct ring_producer *p, size_t size)
{
	commit(p, size, RING_INLINE, RING_BULK);
}

void ring_commit_express(struct ring_producer *p, size_t size)
{
	commit(p, size, RING_EXPRESS, RING_EXPRESS_BULK);
}

void *ring_reserve_small(struct ring_producer *p, size_t size)
{
	struct ring_slot *slot = slot_at(p->memory, p->tail);

	return size <= sizeof(slot->bytes) && has_slots(p, 1) ? slot->bytes : NULL;
}

void ring_commit_small(struct ring_producer *p, size_t size)
{
	publish(p, 1, RING_EXPRESS, size);
}

bool ring_put_address(struct ring_producer *p, const void *address, size_t size)
{
	if (!has_slots(p, 1))
		return false;
	memcpy(slot_at(p->memory, p->tail)->bytes, address, size);
	publish(p, 1, RING_ADDRESS, size);
	return true;
}

/* Against ring_fall_asleep(): either it sees the record, or this sees that it sleeps. */
bool ring_wants_bell(struct ring_producer *p)
{
	if (!p->has_news)
		return false;
	p->has_news = false;
	return ring_wakes(p);
}

bool ring_wakes(struct ring_producer *p)
{
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&p->memory->is_asleep, memory_order_relaxed) &&
	       atomic_exchange(&p->memory->is_asleep, 0);
}

bool ring_is_heard(struct ring_producer *p)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&p->memory->is_asleep, memory_order_relaxed))
		return false;
	p->has_news = false;
	return true;
}

/* ---- the consumer ---- */

static enum ring_kind broken(struct ring_consumer *c)
{
	c->is_broken = true;
	return RING_BROKEN;
}

static enum ring_kind take_bulk(struct ring_consumer *c, const struct ring_slot *slot,
				size_t length, const void **bytes, enum ring_kind kind)
{
	uint32_t unit = slot->unit, units = units_of(length);

	if (length > RING_BULK_BYTES || unit % RING_BULK_UNITS + units > RING_BULK_UNITS)
		return broken(c);
	touch(c->memory, &c->touched, unit % RING_BULK_UNITS + units);
	*bytes = c->memory->bulk + unit % RING_BULK_UNITS * 64;
	c->bulk_head = unit + units;
	c->head++;
	return kind;
}

enum ring_kind ring_take(struct ring_consumer *c, const void **bytes, size_t *length)
{
	struct ring_slot *slot = slot_at(c->memory, c->head);
	unsigned int word = atomic_load_explicit(&slot->word, memory_order_acquire);
	enum ring_kind kind = kind_of(word);
	uint32_t left = RING_SLOTS - c->head % RING_SLOTS;

	*length = length_of(word);
	*bytes = slot->bytes;
	if (c->is_broken)
		return RING_BROKEN;
	if (!word || !ring_is_of_lap(word, c->head))
		return RING_NONE;
	switch (kind) {
	case RING_INLINE:
	case RING_EXPRESS:
		if (*length > RING_INLINE_BYTES || slots_of(*length) > left)
			return broken(c);
		c->head += slots_of(*length);
		return kind;
	case RING_BULK:
		return take_bulk(c, slot, *length, bytes, RING_BULK);
	case RING_EXPRESS_BULK:
		return take_bulk(c, slot, *length, bytes, RING_EXPRESS);
	case RING_ADDRESS:
		if (*length > sizeof(slot->bytes))
			return broken(c);
		c->head++;
		return RING_ADDRESS;
	case RING_SKIP:
		if (left == RING_SLOTS)
			return broken(c);
		c->head += left;
		return ring_take(c, bytes, length);
	default:
		return broken(c);
	}
}

/* The same of a record that has been taken: the next one may be there. */
static void read_ahead(const struct ring_consumer *c, uint32_t units)
{
	for (uint32_t i = 0; i < units; i++)
		__builtin_prefetch(unit_at(c->memory, c->bulk_head + i));
}

void ring_claim(struct ring_consumer *c, struct ring_place place)
{
	struct ring_slot *slot = slot_at(c->memory, place.head);
	unsigned int word = atomic_load_explicit(&slot->word, memory_order_relaxed);
	uint32_t units = c->bulk_head - place.bulk_head;

	if (!c->ahead->is_claimed)
		return;
	atomic_store_explicit(&slot->word, word, memory_order_relaxed);
	if (c->head - place.head > 1 || units > READ_UNITS)
		return;
	lines_fetch(slot_at(c->memory, c->head + TAKEN_AHEAD));
	read_ahead(c, units);
}

void ring_release(struct ring_consumer *c)
{
	atomic_store_explicit(&c->memory->bulk_head, c->bulk_head, memory_order_release);
	atomic_store_explicit(&c->memory->head, c->head, memory_order_release);
}

bool ring_is_taken(const struct ring_producer *p)
{
	return atomic_load_explicit(&p->memory->head, memory_order_acquire) == p->tail;
}

bool ring_fall_asleep(struct ring_consumer *c)
{
	atomic_store_explicit(&c->memory->is_asleep, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	if (ring_is_empty(c))
		return true;
	ring_stay_awake(c);
	return false;
}

void ring_stay_awake(struct ring_consumer *c)
{
	if (atomic_load_explicit(&c->memory->is_asleep, memory_order_relaxed))
		atomic_store_explicit(&c->memory->is_asleep, 0, memory_order_relaxed);
}
