// SPDX-License-Identifier: BSD-2-Clause
/*
 * Rings in shared memory and the same-host link over them: what goes in comes out, in order, across
 * every wrap; a full ring says so; the bell rings once for each sleep; and nonsense in the shared
 * memory breaks the ring and nothing else.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/populate.h"
#include "device/limits.h"
#include "link/ring.h"
#include "link/samehost.h"
#include "wire/headers.h"

enum { RECORDS = 20000, OWN_QP = 0x050004, DEST_QP = 0x070006, PAGE = 4096 };

static struct ring_memory *memory;
static struct ring_producer producer;
static struct ring_consumer consumer;

static void *map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static int make(void **state)
{
	(void)state;
	memory = map(sizeof(*memory));
	ring_producer_init(&producer, memory);
	ring_consumer_init(&consumer, memory);
	return 0;
}

static int unmake(void **state)
{
	(void)state;
	munmap(memory, sizeof(*memory));
	return 0;
}

/* Sizes of all kinds: of a slot, of several, in the bulk area; wraps come at all offsets. */
static size_t size_of(uint32_t n)
{
	static const size_t sizes[] = {12, 56, 57, 120, 312, 313, 1040, 4124, 64, 65536};

	return n % 97 ? sizes[n % 9] : sizes[9];
}

static bool put(uint32_t n)
{
	size_t size = size_of(n);
	uint8_t *bytes = ring_reserve(&producer, size);

	if (!bytes)
		return false;
	memset(bytes, (int)n, size);
	memcpy(bytes, &n, sizeof(n));
	ring_commit(&producer, size);
	return true;
}

/* False when there is nothing. Some of them are claimed. */
static bool get(uint32_t n)
{
	struct ring_place before = ring_place(&consumer);
	const void *bytes;
	size_t length;
	uint32_t found;
	enum ring_kind kind = ring_take(&consumer, &bytes, &length);

	if (kind == RING_NONE)
		return false;
	if (n % 3)
		ring_claim(&consumer, before);
	assert_int_equal(kind, size_of(n) > RING_INLINE_BYTES ? RING_BULK : RING_INLINE);
	assert_int_equal(length, size_of(n));
	memcpy(&found, bytes, sizeof(found));
	assert_int_equal(found, n);
	for (size_t i = sizeof(n); i < length; i++)
		assert_int_equal(((const uint8_t *)bytes)[i], (uint8_t)n);
	ring_release(&consumer);
	return true;
}

static void what_goes_in_comes_out_in_order(void **state)
{
	uint32_t in = 0, out = 0;

	(void)state;
	while (out < RECORDS) {
		for (uint32_t burst = in % 7 + 1; burst && in < RECORDS && put(in); burst--)
			in++;
		for (uint32_t burst = out % 5 + 1; burst && get(out); burst--)
			out++;
	}
	assert_false(get(out));
	assert_true(ring_is_empty(&consumer));
}

static void a_full_ring_has_no_room_until_its_records_are_taken(void **state)
{
	uint32_t in = 0, out = 0;

	(void)state;
	for (int round = 0; round < 50; round++) {
		while (put(in))
			in++;
		assert_true(in - out > 100);
		while (get(out))
			out++;
		assert_int_equal(in, out);
	}
	assert_null(ring_reserve(&producer, RING_BULK_BYTES + 1));
}

static void a_small_record_is_one_like_any(void **state)
{
	const size_t most = RING_SLOT_BYTES - offsetof(struct ring_slot, bytes);
	const void *bytes;
	size_t length;
	char *record;

	(void)state;
	assert_null(ring_reserve_small(&producer, most + 1));
	for (int i = 0; i < 3 * RING_SLOTS; i++) {
		record = ring_reserve_small(&producer, most);
		assert_non_null(record);
		memset(record, i, most);
		ring_commit_small(&producer, most - (size_t)i % most);
		assert_int_equal(ring_take(&consumer, &bytes, &length), RING_EXPRESS);
		assert_int_equal(length, most - (size_t)i % most);
		assert_int_equal(((const char *)bytes)[length - 1], (char)i);
		ring_release(&consumer);
	}
	while (ring_reserve_small(&producer, most))
		ring_commit_small(&producer, most);
	assert_null(ring_reserve(&producer, most));
}

static void *produce(void *unused)
{
	for (uint32_t n = 0; n < RECORDS; n++)
		while (!put(n))
			sched_yield();
	return unused;
}

static void two_threads_need_no_lock(void **state)
{
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, produce, NULL), 0);
	for (uint32_t n = 0; n < RECORDS; n++)
		while (!get(n))
			sched_yield();
	pthread_join(thread, NULL);
}

static void the_bell_rings_once_for_each_sleep(void **state)
{
	(void)state;
	assert_false(ring_wants_bell(&producer));
	assert_true(put(0));
	assert_false(ring_wants_bell(&producer)); /* awake */
	assert_false(ring_fall_asleep(&consumer));
	assert_true(get(0));
	assert_true(ring_fall_asleep(&consumer));
	assert_false(ring_wants_bell(&producer)); /* nothing new */
	assert_true(put(1));
	assert_true(ring_wants_bell(&producer));
	assert_true(put(2));
	assert_false(ring_wants_bell(&producer));
}

static uint32_t word_of(uint32_t lap, uint32_t length, uint32_t kind)
{
	return lap << RING_LAP_SHIFT | length << RING_KIND_BITS | kind;
}

/* Each word of a long record's bytes looks like a record of the lap that comes next. */
static void earlier_bytes_are_no_record(void **state)
{
	uint32_t bytes[RING_INLINE_BYTES / 4];
	const void *taken;
	size_t length;
	void *room;

	(void)state;
	for (uint32_t lap = 1; lap < 4; lap++) {
		for (size_t i = 0; i < sizeof(bytes) / 4; i++)
			bytes[i] = word_of(lap + 1, 8, RING_INLINE);
		for (uint32_t slot = 0; slot < RING_SLOTS;) {
			bool is_long = slot % 7 == lap % 7 && slot + 5 <= RING_SLOTS;
			size_t size = is_long ? sizeof(bytes) : 8;

			room = ring_reserve(&producer, size);
			assert_non_null(room);
			memcpy(room, bytes, size);
			ring_commit(&producer, size);
			slot += is_long ? 5 : 1;
			assert_int_equal(ring_take(&consumer, &taken, &length), RING_INLINE);
			assert_int_equal(length, size);
			assert_int_equal(ring_take(&consumer, &taken, &length), RING_NONE);
			assert_true(ring_is_empty(&consumer));
			ring_release(&consumer);
		}
	}
}

/* Looks like records of this lap and the two behind it, also where it is not committed. */
static void *reserve_of_words(size_t size, unsigned int *seed)
{
	uint32_t *room = ring_reserve(&producer, size), lap = producer.tail / RING_SLOTS + 1;

	assert_non_null(room);
	for (size_t i = 0; i < size / 4; i++)
		room[i] = word_of(lap + rand_r(seed) % 3, 8, RING_INLINE);
	return room;
}

/* Whatever lengths follow each other, what is given up between them, and what a wrap leaves out. */
static void bytes_of_no_record_are_none(void **state)
{
	static const size_t sizes[] = {8, 8, 8, 56, 120, 184, 312};
	unsigned int seed = 1;
	const void *taken;
	size_t length;

	(void)state;
	for (uint32_t n = 0; n < 40 * RING_SLOTS; n++) {
		/* one lap in four is of short ones alone */
		uint32_t kinds = producer.tail / RING_SLOTS % 4 == 3 ? 3 : 7;
		size_t size = sizes[rand_r(&seed) % kinds];

		if (rand_r(&seed) % 5 == 0)
			reserve_of_words(sizes[rand_r(&seed) % kinds], &seed);
		reserve_of_words(size, &seed);
		ring_commit(&producer, size);
		assert_int_equal(ring_take(&consumer, &taken, &length), RING_INLINE);
		assert_int_equal(length, size);
		assert_int_equal(ring_take(&consumer, &taken, &length), RING_NONE);
		ring_release(&consumer);
	}
}

/* As who looks at what comes and leaves it to somebody else. */
static void what_was_taken_is_there_again_after_going_back(void **state)
{
	const void *bytes;
	size_t length;

	(void)state;
	for (uint32_t n = 0; n < RECORDS / 10; n++) {
		struct ring_place before = ring_place(&consumer);

		assert_int_equal(ring_take(&consumer, &bytes, &length), RING_NONE);
		ring_go_back(&consumer, before);
		assert_true(put(n));
		assert_int_not_equal(ring_take(&consumer, &bytes, &length), RING_NONE);
		assert_true(ring_is_empty(&consumer));
		ring_go_back(&consumer, before);
		assert_false(ring_is_empty(&consumer));
		assert_true(get(n));
	}
}

static void what_was_claimed_is_the_same_after_going_back(void **state)
{
	const void *bytes;
	size_t length;

	(void)state;
	for (uint32_t n = 0; n < RECORDS / 10; n++) {
		struct ring_place before = ring_place(&consumer);
		struct ring_slot slot;

		assert_true(put(n));
		memcpy(&slot, &memory->slots[before.head % RING_SLOTS], sizeof(slot));
		assert_int_not_equal(ring_take(&consumer, &bytes, &length), RING_NONE);
		ring_claim(&consumer, before);
		assert_memory_equal(&slot, &memory->slots[before.head % RING_SLOTS], sizeof(slot));
		ring_go_back(&consumer, before);
		assert_true(get(n));
	}
}

static void expect_broken(uint32_t word, uint32_t unit)
{
	struct ring_place before;
	const void *bytes;
	size_t length;

	make(NULL);
	memory->slots[0].unit = unit;
	atomic_store(&memory->slots[0].word, word_of(1, 0, 0) | word);
	before = ring_place(&consumer);
	assert_int_equal(ring_take(&consumer, &bytes, &length), RING_BROKEN);
	ring_go_back(&consumer, before);
	assert_false(ring_is_empty(&consumer)); /* who takes it in finds that it is nonsense */
	assert_int_equal(ring_take(&consumer, &bytes, &length), RING_BROKEN);
	assert_int_equal(ring_take(&consumer, &bytes, &length), RING_BROKEN);
	assert_true(ring_is_empty(&consumer));
	unmake(NULL);
}

static void nonsense_breaks_the_ring(void **state)
{
	(void)state;
	expect_broken(word_of(0, RING_INLINE_BYTES + 1, RING_INLINE), 0);
	expect_broken(word_of(0, RING_BULK_BYTES + 1, RING_BULK), 0);
	expect_broken(word_of(0, 4096u, RING_BULK), RING_BULK_UNITS - 1);
	expect_broken(word_of(0, 57u, RING_ADDRESS), 0);
	expect_broken(word_of(0, 1u, RING_NONE), 0);
	expect_broken(RING_SKIP, 0); /* from the first slot */
	expect_broken(RING_BROKEN, 0);
	expect_broken(0xff, 0);
}

/* ---- the link ---- */

static struct {
	int count, elsewhere;
	struct packet packet;
	uint8_t bytes[5000];
	void *owner;
} seen;

static int device;

static void *find(const union ibv_gid *dgid, uint32_t ifindex, void *data)
{
	(void)dgid;
	(void)data;
	return ifindex == 9 ? &device : NULL;
}

static void deliver(const struct packet *packet, void *owner, void *data)
{
	(void)data;
	seen.count++;
	seen.packet = *packet;
	seen.owner = owner;
	assert_true(packet->length <= sizeof(seen.bytes));
	memcpy(seen.bytes, packet->bth, packet->length);
}

static uint8_t *reserve_elsewhere(struct outbox *outbox, const struct av *av, uint32_t dest_qp,
				  size_t size)
{
	static uint8_t bytes[5000];

	(void)outbox;
	(void)av;
	(void)dest_qp;
	assert_true(size <= sizeof(bytes));
	return bytes;
}

static void commit_elsewhere(struct outbox *outbox, size_t size)
{
	(void)outbox;
	(void)size;
	seen.elsewhere++;
}

static struct outbox elsewhere = {.reserve = reserve_elsewhere, .commit = commit_elsewhere};

static struct av av_to(uint8_t last)
{
	struct av av = {.hop_limit = 64, .traffic_class = 7};

	av.sgid.raw[15] = 1;
	av.dgid.raw[15] = last;
	return av;
}

static void send(struct samehost *from, uint8_t to, uint32_t qpn, size_t size)
{
	struct outbox *outbox = samehost_outbox(from);
	struct av av = av_to(to);
	uint8_t *bytes = outbox->reserve(outbox, &av, qpn, size);

	assert_non_null(bytes);
	memset(bytes, to, size);
	outbox->commit(outbox, size);
}

struct hosts {
	struct samehost *a, *b;
	struct channel *at_a, *at_b;
	void *memory;
	int bell;
};

/* Two lanes with a channel between them: a has slot 5, b slot 7. */
static void open_hosts(struct hosts *h)
{
	struct av av = av_to(2);

	memset(&seen, 0, sizeof(seen));
	h->a = samehost_open(&elsewhere, false, true, 0);
	h->b = samehost_open(&elsewhere, false, true, 0);
	h->bell = eventfd(0, EFD_NONBLOCK);
	h->memory = map(channel_bytes());
	h->at_a = channel_open(h->memory, CHANNEL_OFFERED, dup(h->bell));
	h->at_b = channel_open(mremap(h->memory, 0, channel_bytes(), MREMAP_MAYMOVE), 0, -1);
	samehost_set_local(h->a, &av.sgid, 9);
	samehost_set_local(h->a, &av.dgid, 9);
	samehost_set_local(h->b, &av.sgid, 9);
	assert_int_equal(samehost_add(h->a, h->at_a, 7, 1u << 2), 0);
	assert_int_equal(samehost_add(h->b, h->at_b, 5, 1u << 0), 0);
}

static void close_hosts(struct hosts *h)
{
	close(h->bell);
	samehost_close(h->a);
	samehost_close(h->b);
}

static void packets_of_the_host_take_the_channel(void **state)
{
	struct hosts h;
	struct av av = av_to(2);

	(void)state;
	open_hosts(&h);
	send(h.a, 2, DEST_QP, 40);
	assert_int_equal(samehost_receive(h.b, find, deliver, NULL), 2); /* and the address */
	assert_int_equal(seen.count, 1);
	assert_ptr_equal(seen.owner, &device);
	assert_int_equal(seen.packet.length, 40);
	assert_int_equal(seen.bytes[39], 2);
	assert_memory_equal(&seen.packet.sgid, &av.sgid, 16);
	assert_memory_equal(&seen.packet.dgid, &av.dgid, 16);
	assert_int_equal(seen.packet.traffic_class, 7);
	send(h.a, 2, DEST_QP, 4108);
	assert_int_equal(samehost_receive(h.b, find, deliver, NULL), 1);
	assert_int_equal(seen.packet.length, 4108);
	assert_int_equal(seen.elsewhere, 0);
	close_hosts(&h);
}

static void all_else_goes_elsewhere(void **state)
{
	uint32_t slot, way;
	struct hosts h;

	(void)state;
	open_hosts(&h);
	send(h.a, 3, DEST_QP, 40); /* another host's address */
	send(h.a, 2, QPN_GSI, 40);
	assert_int_equal(seen.elsewhere, 2);
	assert_false(samehost_wanted(h.a, &slot, &way));
	close_hosts(&h);
}

static void what_wants_a_channel_waits_until_that_is_settled(void **state)
{
	struct outbox *outbox;
	uint32_t slot, way;
	struct hosts h;
	struct av av = av_to(2);

	(void)state;
	open_hosts(&h);
	outbox = samehost_outbox(h.a);
	assert_null(outbox->reserve(outbox, &av, DEST_QP + 1, 40));
	assert_null(outbox->reserve(outbox, &av, DEST_QP + 1, 40));
	assert_false(samehost_flush(h.a));
	assert_true(samehost_wanted(h.a, &slot, &way));
	assert_int_equal(slot, 7);
	assert_int_equal(way, 3);
	assert_false(samehost_wanted(h.a, &slot, &way));
	samehost_settle(h.a, slot, way);
	send(h.a, 2, DEST_QP + 1, 40);
	assert_int_equal(seen.elsewhere, 1);
	assert_false(samehost_wanted(h.a, &slot, &way));
	samehost_remove(h.a, h.at_a);
	channel_close(h.at_a);
	assert_null(outbox->reserve(outbox, &av, DEST_QP, 40));
	assert_true(samehost_wanted(h.a, &slot, &way));
	close_hosts(&h);
}

static void off_is_off(void **state)
{
	struct samehost *lane = samehost_open(&elsewhere, true, false, 0);
	uint32_t slot, way;

	(void)state;
	memset(&seen, 0, sizeof(seen));
	send(lane, 1, OWN_QP, 40);
	assert_int_equal(seen.elsewhere, 1);
	assert_false(samehost_wanted(lane, &slot, &way));
	samehost_close(lane);
}

static void a_sleeper_is_woken_and_a_full_ring_told_of(void **state)
{
	struct hosts h;
	struct outbox *outbox;
	struct av av = av_to(2);
	uint64_t rings = 0;

	(void)state;
	open_hosts(&h);
	outbox = samehost_outbox(h.a);
	assert_true(samehost_fall_asleep(h.b));
	send(h.a, 2, DEST_QP, 40);
	send(h.a, 2, DEST_QP, 40);
	assert_true(samehost_flush(h.a));
	assert_int_equal(read(h.bell, &rings, sizeof(rings)), sizeof(rings));
	assert_int_equal(rings, 1);
	assert_false(samehost_fall_asleep(h.b));
	while (outbox->reserve(outbox, &av, DEST_QP, 4108))
		outbox->commit(outbox, 4108);
	assert_false(samehost_flush(h.a));
	while (samehost_receive(h.b, find, deliver, NULL))
		;
	send(h.a, 2, DEST_QP, 4108);
	assert_true(samehost_flush(h.a));
	close_hosts(&h);
}

static void records_go_along_to_where_the_last_one_went(void **state)
{
	struct hosts h;
	struct av av = av_to(2), other = av;
	struct outbox *outbox;

	(void)state;
	open_hosts(&h);
	outbox = samehost_outbox(h.a);
	assert_false(outbox->is_along(outbox, &av, DEST_QP));
	assert_non_null(outbox->reserve_express(outbox, &av, DEST_QP, 40));
	assert_true(outbox->is_along(outbox, &av, DEST_QP));
	assert_true(outbox->is_along(outbox, &av, DEST_QP + SAMEHOST_WAYS));
	assert_false(outbox->is_along(outbox, &av, DEST_QP + 1)); /* another lane's */
	other.traffic_class ^= 1;
	assert_false(outbox->is_along(outbox, &other, DEST_QP));
	outbox->commit_express(outbox, 40);
	close_hosts(&h);
}

static void a_lane_may_send_to_itself(void **state)
{
	struct samehost *lane = samehost_open(&elsewhere, false, true, 0);
	struct channel *channel = channel_open(map(channel_bytes()), CHANNEL_OWN, -1);
	struct av av = av_to(1);

	(void)state;
	memset(&seen, 0, sizeof(seen));
	samehost_set_local(lane, &av.sgid, 9);
	assert_int_equal(samehost_add(lane, channel, 5, 1u << 0), 0);
	assert_false(samehost_has_own_news(lane));
	send(lane, 1, OWN_QP, 40);
	assert_true(samehost_has_own_news(lane));
	assert_int_equal(samehost_receive(lane, find, deliver, NULL), 2);
	assert_int_equal(seen.count, 1);
	samehost_close(lane);
}

/* How many of the bulk area's pages that mapping has. */
static size_t mapped_pages(const struct ring_memory *of)
{
	uintptr_t first = ((uintptr_t)of->bulk + PAGE - 1) / PAGE;
	size_t count = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	for (size_t i = 0; i < sizeof(of->bulk) / PAGE - 1; i++) {
		uint64_t entry;

		assert_int_equal(pread(fd, &entry, sizeof(entry), (off_t)((first + i) * 8)), 8);
		count += entry >> 63;
	}
	close(fd);
	return count;
}

static void pass_record(size_t size)
{
	const void *bytes;
	size_t length;

	assert_non_null(ring_reserve(&producer, size));
	ring_commit(&producer, size);
	assert_int_equal(ring_take(&consumer, &bytes, &length), RING_BULK);
	assert_int_equal(length, size);
	ring_release(&consumer);
}

/* Without a fault for each, at both ends, and no more than are used soon. */
static void pages_come_many_at_a_time(void **state)
{
	enum { SIZE = PAGE, LAP = RING_BULK_UNITS * 64 / SIZE, FEW = 3 };
	struct ring_memory *own = memory, *others;

	madvise(own, sizeof(*own), MADV_NOHUGEPAGE);
	if (sysconf(_SC_PAGESIZE) != PAGE || madvise(own, 1, MADV_POPULATE_WRITE) < 0)
		skip();					       /* Linux before 5.14 */
	others = mremap(own, 0, sizeof(*own), MREMAP_MAYMOVE); /* once more */
	assert_ptr_not_equal(others, MAP_FAILED);
	madvise(others, sizeof(*others), MADV_NOHUGEPAGE);
	ring_consumer_init(&consumer, others);
	assert_int_equal(mapped_pages(own), 0);
	pass_record(SIZE);
	assert_in_range(mapped_pages(own), FEW, 2 * FEW);
	assert_in_range(mapped_pages(others), FEW, 2 * FEW);
	for (size_t passed = 1; passed < LAP; passed++) {
		pass_record(SIZE);
		assert_in_range(mapped_pages(own), passed, 2 * passed + 2 * FEW);
		assert_in_range(mapped_pages(others), passed, 2 * passed + 2 * FEW);
	}
	pass_record(SIZE);
	munmap(others, sizeof(*others));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(what_goes_in_comes_out_in_order, make, unmake),
	    cmocka_unit_test_setup_teardown(a_full_ring_has_no_room_until_its_records_are_taken,
					    make, unmake),
	    cmocka_unit_test_setup_teardown(a_small_record_is_one_like_any, make, unmake),
	    cmocka_unit_test_setup_teardown(two_threads_need_no_lock, make, unmake),
	    cmocka_unit_test_setup_teardown(the_bell_rings_once_for_each_sleep, make, unmake),
	    cmocka_unit_test_setup_teardown(earlier_bytes_are_no_record, make, unmake),
	    cmocka_unit_test_setup_teardown(bytes_of_no_record_are_none, make, unmake),
	    cmocka_unit_test_setup_teardown(what_was_taken_is_there_again_after_going_back, make,
					    unmake),
	    cmocka_unit_test_setup_teardown(what_was_claimed_is_the_same_after_going_back, make,
					    unmake),
	    cmocka_unit_test_setup_teardown(pages_come_many_at_a_time, make, unmake),
	    cmocka_unit_test(nonsense_breaks_the_ring),
	    cmocka_unit_test(packets_of_the_host_take_the_channel),
	    cmocka_unit_test(all_else_goes_elsewhere),
	    cmocka_unit_test(what_wants_a_channel_waits_until_that_is_settled),
	    cmocka_unit_test(off_is_off),
	    cmocka_unit_test(a_sleeper_is_woken_and_a_full_ring_told_of),
	    cmocka_unit_test(records_go_along_to_where_the_last_one_went),
	    cmocka_unit_test(a_lane_may_send_to_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
