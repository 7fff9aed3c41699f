/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring in shared memory that carries packets one way between two lanes of one host: one producer,
 * one consumer, no lock, no system call.
 *
 * Small packets stand in 64-byte slots, so that a message of a few bytes crosses in one cache line;
 * larger ones lie in the bulk area behind, and a slot says where. A record is there when its first
 * word is: the consumer waits on that word alone. The word says in which lap of the ring it was
 * written, so that what an earlier lap left is not taken for a record; and where bytes of an
 * earlier payload look like a word of this lap, the producer clears them before the record in front
 * is seen. (Clearing the next word each time would move two cache lines a message.) How far the
 * consumer has come stands in a line of its own, which the producer reads only when it seems to run
 * out of room.
 *
 * The other side is a process of the same user, and yet nothing that it writes is believed:
 * positions are one's own, lengths are checked, and a ring that holds nonsense is broken for good.
 */
#ifndef LINK_RING_H
#define LINK_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RING_SLOT_BYTES = 64,
	RING_SLOTS = 1024,
	RING_BULK_UNITS = 32768, /* of 64 bytes: more than the second-level cache holds */
	RING_INLINE_BYTES = 5 * RING_SLOT_BYTES - 8,
	RING_BULK_BYTES = (64 << 10) + 64, /* one record, at most */
};

/* A record's word. */
enum {
	RING_KIND_BITS = 4,
	RING_LENGTH_BITS = 17,
	RING_LAP_SHIFT = RING_KIND_BITS + RING_LENGTH_BITS, /* the lap, from 1, is what is above */
};

enum ring_kind {
	RING_NONE, /* nothing there */
	RING_INLINE,
	RING_BULK,
	RING_ADDRESS,	   /* of the packets behind it */
	RING_EXPRESS,	   /* as RING_INLINE: a record of the express path */
	RING_SKIP,	   /* the rest of the slots stays empty: go on at the first */
	RING_EXPRESS_BULK, /* as RING_BULK; ring_take() says RING_EXPRESS */
	RING_BROKEN,
};

struct ring_slot {
	atomic_uint word; /* kind, length, lap */
	uint32_t unit;	  /* RING_BULK: where its bytes begin, free-running */
	uint8_t bytes[RING_SLOT_BYTES - 8];
};

/* Zeroed memory is an empty ring. */
struct ring_memory {
	_Alignas(64) atomic_uint head; /* the consumer's: slots and units taken, free-running */
	atomic_uint bulk_head;
	_Alignas(64) atomic_uint is_asleep; /* the consumer's thread: it wants a bell */
	_Alignas(64) struct ring_slot slots[RING_SLOTS];
	uint8_t bulk[RING_BULK_UNITS * 64];
};

/* Which lines are asked for ahead of their turn, which depends on the processor. */
struct ring_ahead {
	/* units of the bulk area that the producer asks for, ahead of the next record: all of one
	 * that takes up to `whole`, the `first` of a longer one */
	uint32_t whole, first;
	bool is_claimed; /* ring_claim() does what it says; otherwise nothing */
};

struct ring_producer {
	struct ring_memory *memory;
	uint32_t tail, head_seen;      /* slots */
	uint32_t bulk_tail, bulk_seen; /* units */
	uint32_t reserved_slots, reserved_unit;
	uint32_t touched; /* units of the bulk area; all, after its first lap */
	bool has_news;	  /* published since the last ring_wants_bell() */
	uint32_t streak;  /* published since the other side was heard of last */
	const struct ring_ahead *ahead;
};

struct ring_consumer {
	struct ring_memory *memory;
	uint32_t head, bulk_head;
	uint32_t touched; /* units of the bulk area; all, after its first lap */
	bool is_broken;
	const struct ring_ahead *ahead;
};

void ring_producer_init(struct ring_producer *producer, struct ring_memory *memory);
void ring_consumer_init(struct ring_consumer *consumer, struct ring_memory *memory);

/*
 * Room for a record of `size` bytes (RING_BULK_BYTES at most), NULL when there is none now. The
 * next reserve takes it back unless it was committed; a commit of fewer bytes is fine.
 */
void *ring_reserve(struct ring_producer *producer, size_t size);
void ring_commit(struct ring_producer *producer, size_t size);

/* The same as a RING_EXPRESS. */
void ring_commit_express(struct ring_producer *producer, size_t size);

/* Both of a RING_EXPRESS that one slot holds, in fewer steps: NULL also for a longer one. */
void *ring_reserve_small(struct ring_producer *producer, size_t size);
void ring_commit_small(struct ring_producer *producer, size_t size);

/* A record that says where the packets behind it come from and go to: `size` up to one slot's
 * bytes. False when there is no room. */
bool ring_put_address(struct ring_producer *producer, const void *address, size_t size);

/* Something came from the other side: it may be waiting where the next record will be, and a line
 * that was asked for early would be taken from it in vain. */
static inline void ring_was_heard_of(struct ring_producer *producer)
{
	producer->streak = 0;
}

/* After commits: whether the consumer sleeps. Once for each sleep. */
bool ring_wants_bell(struct ring_producer *producer);

/* The same, but it stays to be told. */
bool ring_is_heard(struct ring_producer *producer);

/* As ring_wants_bell(), after something that is not in the ring. */
bool ring_wakes(struct ring_producer *producer);

/*
 * The next record, RING_INLINE, RING_BULK (a packet both), RING_EXPRESS or RING_ADDRESS; RING_NONE
 * if there is none, RING_BROKEN from the first nonsense on. It stays where it is until
 * ring_release(), which gives back everything taken so far.
 */
enum ring_kind ring_take(struct ring_consumer *consumer, const void **bytes, size_t *length);
void ring_release(struct ring_consumer *consumer);

/* Where the consumer is, to go back to: what was taken since is untaken, if it was not released. */
struct ring_place {
	uint32_t head, bulk_head;
};

static inline struct ring_place ring_place(const struct ring_consumer *consumer)
{
	return (struct ring_place){consumer->head, consumer->bulk_head};
}

static inline void ring_go_back(struct ring_consumer *consumer, struct ring_place place)
{
	consumer->head = place.head;
	consumer->bulk_head = place.bulk_head;
	consumer->is_broken = false; /* what is, will be found so again */
}

/*
 * Makes the line of a record that was just taken the consumer's alone, by writing in it what stands
 * there. A line that both have a copy of is not had any sooner by the producer for asking ahead, as
 * it seems to have it; one that only the consumer has is. For records of a stream: the write itself
 * takes as long as the line's way. And asks for the lines of records behind it, which are likely to
 * be there by now: each would take its way else when its turn comes. Before ring_release(). Where
 * the producer is who is waited for (a Zen 5), all this is in its way, and is not done.
 */
void ring_claim(struct ring_consumer *consumer, struct ring_place place);

/* Which lap of the ring a position is of, as a word says it; zeroed memory has no record of the
 * first one. */
static inline uint32_t ring_lap(uint32_t position)
{
	return (position / RING_SLOTS + 1) << RING_LAP_SHIFT;
}

static inline bool ring_is_of_lap(unsigned int word, uint32_t position)
{
	return (word ^ ring_lap(position)) >> RING_LAP_SHIFT == 0;
}

static inline bool ring_is_empty(const struct ring_consumer *consumer)
{
	const struct ring_slot *slot = &consumer->memory->slots[consumer->head % RING_SLOTS];
	unsigned int word = atomic_load_explicit(&slot->word, memory_order_relaxed);

	return !word || !ring_is_of_lap(word, consumer->head) || consumer->is_broken;
}

/* As ring_take() of the next record, where that is a RING_EXPRESS of one slot. */
static inline bool ring_take_small(struct ring_consumer *consumer, const void **bytes,
				   size_t *length)
{
	const unsigned int lengths = ((1u << RING_LENGTH_BITS) - 1) << RING_KIND_BITS;
	struct ring_slot *slot = &consumer->memory->slots[consumer->head % RING_SLOTS];
	unsigned int word = atomic_load_explicit(&slot->word, memory_order_acquire);

	*length = (word & lengths) >> RING_KIND_BITS;
	*bytes = slot->bytes;
	if ((word & ~lengths) != (ring_lap(consumer->head) | RING_EXPRESS) ||
	    *length > sizeof(slot->bytes) || consumer->is_broken)
		return false;
	consumer->head++;
	return true;
}

/* For the producer: the consumer has taken all in, and given it back. */
bool ring_is_taken(const struct ring_producer *producer);

/* The consumer is about to sleep. False, and then it must not, if there is something to take. */
bool ring_fall_asleep(struct ring_consumer *consumer);
void ring_stay_awake(struct ring_consumer *consumer);

#endif
