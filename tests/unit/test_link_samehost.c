/* SPDX-License-Identifier: BSD-2-Clause */
/* The same-host link of a lane with several neighbours: what a glance takes in, and in which order.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "device/av.h"
#include "device/limits.h"
#include "link/ring.h"
#include "link/samehost_link.h"
#include "transport/express.h"

enum { NEIGHBOURS = 3, OUR_SLOT = 9, ALL_WAYS = (1 << SAMEHOST_WAYS) - 1 };

/* We, and a lane of each neighbour; and what `accept` was asked to take. */
static struct world {
	struct samehost *ours, *theirs[NEIGHBOURS + 1];
	struct av av;
	uint8_t taken[128];
	unsigned int count, room;
} world;

static char owner;

static void *find(const union ibv_gid *dgid, uint32_t ifindex, void *data)
{
	return &owner;
}

static void deliver(const struct packet *packet, void *to, void *data)
{
	assert_ptr_equal(to, &owner);
	world.taken[world.count++] = packet->bth[0];
}

/* Records that begin with 0 are left; of others only so many are wanted. */
static enum samehost_taken accept(const struct packet *packet, void *to, void *data)
{
	if (!packet->bth[0])
		return SAMEHOST_LEFT;
	deliver(packet, to, data);
	return world.count == world.room ? SAMEHOST_ENOUGH : SAMEHOST_TAKEN;
}

static void *map(int fd)
{
	void *memory = mmap(NULL, channel_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_true(memory != MAP_FAILED);
	return memory;
}

static void connect_with(uint32_t neighbour)
{
	int fd = memfd_create("channel", MFD_CLOEXEC);

	assert_int_equal(ftruncate(fd, (off_t)channel_bytes()), 0);
	world.theirs[neighbour] = samehost_open(NULL, false, true, 0);
	samehost_set_local(world.theirs[neighbour], &world.av.dgid, 1);
	assert_int_equal(samehost_add(world.theirs[neighbour],
				      channel_open(map(fd), CHANNEL_OFFERED, -1), OUR_SLOT,
				      ALL_WAYS),
			 0);
	assert_int_equal(
	    samehost_add(world.ours, channel_open(map(fd), 0, -1), neighbour + 1, ALL_WAYS), 0);
	close(fd);
}

static bool send_long(uint32_t neighbour, uint8_t what, size_t size)
{
	struct outbox *outbox = samehost_outbox(world.theirs[neighbour]);
	uint8_t *record =
	    outbox->reserve_express(outbox, &world.av, OUR_SLOT << QPN_SLOT_SHIFT, size);

	if (!record)
		return false;
	memset(record, what, size);
	outbox->commit_express(outbox, size);
	return true;
}

static void send(uint32_t neighbour, uint8_t what)
{
	assert_true(send_long(neighbour, what, 24));
}

static void send_packet(uint32_t neighbour, uint8_t what)
{
	struct outbox *outbox = samehost_outbox(world.theirs[neighbour]);
	uint8_t *packet = outbox->reserve(outbox, &world.av, OUR_SLOT << QPN_SLOT_SHIFT, 24);

	assert_non_null(packet);
	memset(packet, what, 24);
	outbox->commit(outbox, 24);
}

static unsigned int glance(unsigned int room, bool *has_left)
{
	world.count = 0;
	world.room = room;
	return samehost_glance(world.ours, accept, NULL, has_left);
}

/* The addresses have been taken in, and a first record of each. */
static int setup(void **state)
{
	memset(&world, 0, sizeof(world));
	world.av.dgid.raw[15] = world.av.sgid.raw[15] = 1;
	world.av.hop_limit = 1;
	world.ours = samehost_open(NULL, false, true, 0);
	for (uint32_t i = 0; i < NEIGHBOURS; i++) {
		connect_with(i);
		send(i, 99);
	}
	samehost_receive(world.ours, find, deliver, NULL);
	return world.count == NEIGHBOURS ? 0 : -1;
}

static int teardown(void **state)
{
	for (int i = 0; i <= NEIGHBOURS; i++)
		if (world.theirs[i])
			samehost_close(world.theirs[i]);
	samehost_close(world.ours);
	return 0;
}

static void a_glance_takes_what_all_have_sent(void **state)
{
	bool has_left;

	send(2, 3);
	send(0, 1);
	send(1, 2);
	send(2, 4);
	assert_int_equal(glance(64, &has_left), 4);
	assert_false(has_left);
	assert_memory_equal(world.taken, ((uint8_t[]){1, 2, 3, 4}), 4);
	assert_int_equal(glance(64, &has_left), 0);
	assert_false(has_left);
}

static bool were_packets[4];
static uint32_t asked;

static enum samehost_taken accept_either(const struct packet *packet, void *to, void *data)
{
	were_packets[asked++] = !packet->is_express;
	return accept(packet, to, data);
}

/* Who accepts says which of them. */
static void packets_are_offered_as_well(void **state)
{
	bool has_left;

	send(0, 1);
	send_packet(0, 2);
	send(0, 3);
	send_packet(0, 0);
	world.count = asked = 0;
	world.room = 64;
	assert_int_equal(samehost_glance(world.ours, accept_either, NULL, &has_left), 3);
	assert_true(has_left);
	assert_memory_equal(world.taken, ((uint8_t[]){1, 2, 3}), 3);
	assert_memory_equal(were_packets, ((bool[]){false, true, false, true}), asked);
	assert_int_equal(asked, 4);
}

static void who_has_enough_leaves_the_rest_to_the_next_glance(void **state)
{
	uint8_t seen[6];
	bool has_left;

	for (uint8_t i = 0; i < 6; i++)
		send(i / 2, i + 1);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(glance(1, &has_left), 1);
		assert_false(has_left);
		seen[i] = world.taken[0];
	}
	assert_memory_equal(seen, ((uint8_t[]){1, 2, 3, 4, 5, 6}), 6);
	assert_int_equal(glance(1, &has_left), 0);
}

static void who_sent_last_is_looked_at_first(void **state)
{
	bool has_left;

	send(2, 1);
	assert_int_equal(glance(64, &has_left), 1);
	send(0, 2);
	send(1, 3);
	send(2, 4);
	assert_int_equal(glance(64, &has_left), 3);
	assert_memory_equal(world.taken, ((uint8_t[]){4, 3, 2}), 3);
}

static void what_is_not_taken_stays_and_keeps_nobody_else_s_back(void **state)
{
	bool has_left;

	send(0, 0);
	send(0, 1);
	send(1, 2);
	assert_int_equal(glance(64, &has_left), 1);
	assert_true(has_left);
	assert_int_equal(world.taken[0], 2);
	world.count = 0;
	assert_int_equal(samehost_receive(world.ours, find, deliver, NULL), 2);
	assert_memory_equal(world.taken, ((uint8_t[]){0, 1}), 2);
}

/* Whose they are the general path finds out. */
static void what_comes_first_of_a_neighbour_is_left(void **state)
{
	bool has_left;

	connect_with(NEIGHBOURS);
	send(NEIGHBOURS, 8);
	assert_int_equal(glance(64, &has_left), 0);
	assert_true(has_left);
	assert_int_equal(samehost_receive(world.ours, find, deliver, NULL), 2); /* its address */
	assert_int_equal(world.count, 1);
	assert_int_equal(world.taken[0], 8);
	send(NEIGHBOURS, 9);
	assert_int_equal(glance(64, &has_left), 1);
	assert_false(has_left);
}

/* It is for no turn, which would take it in more slowly. */
static void more_than_a_batch_is_the_next_glance_s(void **state)
{
	enum { BATCH = 64, MORE = 6 };
	bool has_left;

	for (int i = 0; i < BATCH + MORE; i++)
		send(0, 5);
	assert_int_equal(glance(100, &has_left), BATCH);
	assert_false(has_left);
	assert_int_equal(glance(100, &has_left), MORE);
	assert_false(has_left);
}

static void nobody_s_records_are_lost_whoever_takes_turns(void **state)
{
	bool has_left;

	for (int i = 0; i < 100; i++) {
		send(1 + i % 2, 5);
		send(0, 6);
		assert_int_equal(glance(64, &has_left), 2);
		assert_int_equal(world.taken[0] + world.taken[1], 11);
	}
}

/* As long as records are; and answers leave in between. */
static void of_long_ones_a_few_at_a_time(void **state)
{
	const size_t size = sizeof(struct express) + EXPRESS_BYTES;
	unsigned int sent = 0, few, taken;
	bool has_left;

	while (send_long(0, 7, size))
		sent++;
	assert_int_equal(sent, RING_BULK_UNITS * 64 / (size + 48)); /* whole lines */
	send(1, 8);
	few = glance(64, &has_left) - 1;
	assert_int_equal(few, 4);
	assert_int_equal(world.taken[few], 8); /* another one's is not kept back by them */
	assert_false(has_left);
	assert_true(send_long(0, 7, size)); /* what is taken has made room */
	assert_int_equal(glance(64, &has_left), few);
	world.count = 0;
	assert_int_equal(samehost_receive(world.ours, find, deliver, NULL), few);
	for (taken = 3 * few; few; taken += few)
		few = glance(64, &has_left);
	assert_int_equal(taken, sent + 1);
	assert_false(send_long(0, 7, size + 64)); /* longer ones there are not */
}

/* ---- one by one ---- */

static void expect_record(uint8_t what, size_t size, bool is_next)
{
	const struct packet *packet = samehost_take_record(world.ours, is_next);

	assert_non_null(packet);
	assert_true(packet->is_express);
	assert_int_equal(packet->length, size);
	assert_int_equal(packet->bth[0], what);
	assert_int_equal(packet->bth[size - 1], what);
	assert_ptr_equal(samehost_owner_of_record(world.ours), &owner);
}

/* Those that stand in one slot, in several, and behind the slots; in their order, once. */
static void one_by_one_of_any_size(void **state)
{
	const size_t sizes[] = {24, 56, 57, 312, 313, 4096, 24};
	const int count = sizeof(sizes) / sizeof(sizes[0]);

	for (int round = 0; round < 600; round++) { /* around the ring */
		for (int i = 0; i < count; i++)
			assert_true(send_long(0, (uint8_t)(i + 1), sizes[i]));
		assert_false(samehost_is_empty(world.ours));
		for (int i = 0; i < count; i++)
			expect_record((uint8_t)(i + 1), sizes[i], i);
		assert_null(samehost_take_record(world.ours, true));
		samehost_release_records(world.ours, count);
		assert_true(samehost_is_empty(world.ours));
	}
}

static void what_is_left_is_there_again(void **state)
{
	bool has_left;

	send(0, 1);
	assert_true(send_long(0, 2, 1024));
	expect_record(1, 24, false);
	expect_record(2, 1024, true);
	samehost_leave_record(world.ours);
	samehost_release_records(world.ours, 1);
	assert_int_equal(glance(64, &has_left), 1);
	assert_int_equal(world.taken[0], 2);
}

/* Another neighbour's records, packets, and what is new of addresses, are for others to take. */
static void only_records_and_only_of_who_sent_last(void **state)
{
	struct outbox *outbox = samehost_outbox(world.theirs[0]);

	send(1, 1);
	assert_null(samehost_take_record(world.ours, false));
	assert_false(samehost_is_empty(world.ours));
	memset(outbox->reserve(outbox, &world.av, OUR_SLOT << QPN_SLOT_SHIFT, 24), 1, 24);
	outbox->commit(outbox, 24);
	assert_null(samehost_take_record(world.ours, false));
	world.count = 0;
	assert_int_equal(samehost_receive(world.ours, find, deliver, NULL), 2);
	world.av.hop_limit++;
	send(0, 1);
	assert_null(samehost_take_record(world.ours, false));
}

static void nobody_s_records_are_left_alone(void **state)
{
	send(0, 1);
	samehost_forget(world.ours, &owner);
	assert_null(samehost_take_record(world.ours, false));
	world.count = 0;
	assert_int_equal(samehost_receive(world.ours, find, deliver, NULL), 1);
	send(0, 1);
	expect_record(1, 24, false);
}

/* ---- ways ---- */

static void a_way_is_there_when_something_has_left_by_it(void **state)
{
	struct samehost *samehost = world.theirs[0];
	struct channel *way = samehost_find_way(samehost, &world.av, OUR_SLOT << QPN_SLOT_SHIFT);
	struct av other = world.av;
	void *record;

	assert_non_null(way);
	assert_null(samehost_find_way(samehost, &world.av, (OUR_SLOT + 1) << QPN_SLOT_SHIFT));
	other.sgid.raw[15]++;
	assert_null(samehost_find_way(samehost, &other, OUR_SLOT << QPN_SLOT_SHIFT));
	record = samehost_reserve_record(way, 24);
	assert_non_null(record);
	memset(record, 5, 24);
	samehost_commit_record(samehost, way, 24);
	assert_true(samehost_is_heard_by(samehost, way));
	expect_record(5, 24, false);
}

/* At either end: what is remembered of a channel is not to be believed any more. */
static void what_changes_is_counted(void **state)
{
	unsigned long theirs = samehost_changes(world.theirs[0]), ours;

	ours = samehost_changes(world.ours);
	send(0, 1);
	world.count = 0;
	samehost_receive(world.ours, find, deliver, NULL);
	assert_int_equal(samehost_changes(world.theirs[0]), theirs);
	assert_int_equal(samehost_changes(world.ours), ours);
	world.av.hop_limit++;
	send(0, 1);
	assert_true(samehost_changes(world.theirs[0]) > theirs);
	samehost_receive(world.ours, find, deliver, NULL);
	assert_true(samehost_changes(world.ours) > ours);
	ours = samehost_changes(world.ours);
	samehost_forget(world.ours, &owner);
	assert_true(samehost_changes(world.ours) > ours);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* ---- behind what is delivered ---- */

static uint8_t behinds[8][2]; /* what began the next two behind each; 0: none was there */

static void deliver_and_look(const struct packet *packet, void *to, void *data)
{
	for (uint32_t next = 0; next < 2; next++) {
		size_t length = 0;
		const uint8_t *behind = samehost_behind(world.ours, next, &length);

		behinds[world.count][next] = behind ? behind[0] : 0;
		assert_true(!behind || length == 24);
	}
	deliver(packet, to, data);
}

static void the_packets_behind_are_seen_and_stay(void **state)
{
	static const uint8_t order[] = {1, 2, 6, 3, 4, 7};
	static const uint8_t seen[][2] = {{2, 6}, {6, 0}, {0, 0}, {4, 7}, {7, 0}, {0, 0}};
	size_t length;

	send_packet(0, 1);
	send_packet(0, 2);
	send_packet(0, 6);
	send(0, 3); /* no packet */
	send_packet(0, 4);
	send_packet(0, 7);
	assert_null(samehost_behind(world.ours, 0, &length));
	world.count = 0;
	while (world.count < sizeof(order))
		assert_true(samehost_receive(world.ours, find, deliver_and_look, NULL) > 0);
	assert_memory_equal(world.taken, order, sizeof(order));
	assert_memory_equal(behinds, seen, sizeof(seen));
	send_packet(0, 5);
	assert_null(samehost_behind(world.ours, 0, &length));
}

static void what_is_asked_no_more_for_counts_for_nothing(void **state)
{
	struct assist *assist = &world.ours->channels[1]->assist;

	*assist = (struct assist){
	    .board = assist->board,
	    .is_waiting = true,
	    .qpn = 5,
	    .done_then = 1,
	    .bundle = {.others = {{.question.qpn = 5}}, .done = 1},
	};
	samehost_forget_reach(world.ours, 6);
	assert_int_equal(assist->qpn, 5);
	assert_int_equal(assist->bundle.next, 0);
	samehost_forget_reach(world.ours, 5); /* of who is stopped */
	assert_int_equal(assist->bundle.next, 1);
	assert_true(assist->is_waiting);
	assert_int_equal(assist->qpn, 0);
	assist->qpn = 5;
	atomic_store(&assist->board->done, 1);
	samehost_forget_reach(world.ours, 5);
	assert_false(assist->is_waiting);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(a_glance_takes_what_all_have_sent),
	    TEST(packets_are_offered_as_well),
	    TEST(who_has_enough_leaves_the_rest_to_the_next_glance),
	    TEST(who_sent_last_is_looked_at_first),
	    TEST(what_is_not_taken_stays_and_keeps_nobody_else_s_back),
	    TEST(what_comes_first_of_a_neighbour_is_left),
	    TEST(more_than_a_batch_is_the_next_glance_s),
	    TEST(nobody_s_records_are_lost_whoever_takes_turns),
	    TEST(of_long_ones_a_few_at_a_time),
	    TEST(one_by_one_of_any_size),
	    TEST(what_is_left_is_there_again),
	    TEST(only_records_and_only_of_who_sent_last),
	    TEST(nobody_s_records_are_left_alone),
	    TEST(a_way_is_there_when_something_has_left_by_it),
	    TEST(what_changes_is_counted),
	    TEST(the_packets_behind_are_seen_and_stay),
	    TEST(what_is_asked_no_more_for_counts_for_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
