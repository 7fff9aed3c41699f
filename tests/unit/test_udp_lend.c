/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lent pages: a stream is sent from a ring of pages without a copy, and what arrives is what was
 * sent; the ring is for one place; whatever can't be lent is sent as ever.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/wait.h>

#include "link/clock.h"
#include "transport/window.h"
#include "udp_stream.h"

enum {
	PAYLOAD = 1024,
	PACKETS = 60, /* of a run */
	RUN_BYTES = PACKETS * (BTH_BYTES + PAYLOAD + ICRC_BYTES),
	LAP_RUNS = LEND_RING_BYTES / (64 << 10),
	REFUSALS = 4,
	UNTIL_LENT = PATH_WINDOW, /* runs at most: a path, and as many as ask for a ring */
};

/* No trial comes, but where it is what is tested. */
static void open_lender(struct pair *pair, const union ibv_gid *gid)
{
	stream_open(pair, gid, gid);
	pair->av.lends = 1;
	pair->a->lender.trial.duel.stage = DUEL_NEVER;
}

static void stage_run(struct pair *pair, uint32_t qpn)
{
	for (int i = 0; i < PACKETS; i++)
		stage(pair, qpn, PAYLOAD);
}

static void send_runs(struct pair *pair, uint32_t qpn, int count)
{
	for (; count > 0; count -= 2) {
		stage_run(pair, qpn);
		stage_run(pair, qpn);
		pass(pair);
	}
}

static bool lends_to(const struct pair *pair, uint32_t qpn)
{
	const struct udp_lender *lender = &pair->a->lender;

	return lender->ring && lender->to.part == (qpn & PLACE_PART);
}

/* An older kernel never does: then all of it is copied, and that is all there is to see. */
static void begin_to_lend(struct pair *pair)
{
	for (int i = 0; i < UNTIL_LENT && !lends_to(pair, DEST_QP); i += 2)
		send_runs(pair, DEST_QP, 2);
	if (!udp_kernel_lends()) {
		assert_null(pair->a->lender.ring);
		pair_close(pair);
		skip();
	}
	assert_true(lends_to(pair, DEST_QP));
}

static uint8_t *place(const struct pair *pair)
{
	return pair->a->stage;
}

static void what_arrives(const union ibv_gid *gid)
{
	struct pair pair;
	uint8_t *at;

	open_lender(&pair, gid);
	begin_to_lend(&pair);
	assert_false(pair.a->lender.is_staging);
	send_runs(&pair, DEST_QP, 2);
	assert_true(pair.a->lender.is_staging);
	at = place(&pair);
	send_runs(&pair, DEST_QP, 2);
	assert_true(place(&pair) >= at + 2 * PACKETS * PAYLOAD);
	send_runs(&pair, DEST_QP, 3 * LAP_RUNS);
	assert_true(place(&pair) >= pair.a->lender.ring);
	assert_true(place(&pair) + STAGE_BYTES <= pair.a->lender.ring + LEND_RING_BYTES);
	assert_int_equal(pair.a->counters.send_drops, 0);
	assert_int_equal(pair.b->counters.bad_icrc, 0);
	pair_close(&pair);
}

static void test_what_is_lent_arrives_over_ipv4(void **state)
{
	(void)state;
	what_arrives(&ipv4_a);
}

static void test_what_is_lent_arrives_over_ipv6(void **state)
{
	(void)state;
	what_arrives(&ipv6);
}

static void copy_now(struct pair *pair)
{
	pair->a->lender.trial.duel.way = WAY_COPIED;
}

/* The ring waits, and is where it was. */
static void test_the_same_stream_is_copied_where_that_is_faster(void **state)
{
	struct pair pair;
	const struct udp_lender *lender;
	const uint8_t *ring, *at;

	(void)state;
	open_lender(&pair, &ipv4_a);
	begin_to_lend(&pair);
	send_runs(&pair, DEST_QP, 2);
	lender = &pair.a->lender;
	ring = lender->ring;
	at = place(&pair);
	copy_now(&pair);
	send_runs(&pair, DEST_QP, 2 * UNTIL_LENT);
	assert_false(lender->is_staging);
	assert_ptr_equal(place(&pair), lender->plain);
	assert_ptr_equal(lender->ring, ring);
	pair.a->lender.trial.duel.way = WAY_LENT;
	stage_run(&pair, DEST_QP);
	assert_ptr_equal(place(&pair), at);
	pass(&pair);
	assert_int_equal(pair.b->counters.bad_icrc, 0);
	pair_close(&pair);
}

/* While pages are copied nobody needs one. */
static void test_another_one_gets_the_ring_when_it_is_lent_again(void **state)
{
	struct pair pair;
	const uint8_t *ring;

	(void)state;
	open_lender(&pair, &ipv4_a);
	begin_to_lend(&pair);
	ring = pair.a->lender.ring;
	copy_now(&pair);
	send_runs(&pair, OTHER_QP, 2 * UNTIL_LENT);
	assert_true(lends_to(&pair, DEST_QP));
	assert_ptr_equal(pair.a->lender.ring, ring);
	pair.a->lender.trial.duel.way = WAY_LENT;
	for (int i = 0; i < 2 * UNTIL_LENT && !lends_to(&pair, OTHER_QP); i += 2)
		send_runs(&pair, OTHER_QP, 2);
	assert_true(lends_to(&pair, OTHER_QP));
	pair_close(&pair);
}

/* However long a pass takes here, it is one of a stream. */
static void send_in_trial(struct pair *pair)
{
	pair->a->lender.trial.since = clock_ns();
	send_runs(pair, DEST_QP, 2);
}

/* Both ways by turns, and one of them afterwards. */
static void test_a_trial_comes_by_itself(void **state)
{
	enum { TRIED_RUNS = 2 * LEND_TRIAL_TIMES * LEND_TRIAL_STRETCH / RUN_BYTES };
	struct pair pair;
	const struct lend_trial *lend;

	(void)state;
	open_lender(&pair, &ipv4_a);
	begin_to_lend(&pair);
	pair.a->lender.trial = (struct lend_trial){0};
	lend = &pair.a->lender.trial;
	for (int i = 0; i < LEND_TRIAL_FIRST / RUN_BYTES + 4 && !lend->duel.is_running; i += 2)
		send_runs(&pair, DEST_QP, 2);
	assert_true(lend->duel.is_running);
	for (int i = 0; i < 2 * TRIED_RUNS && lend->duel.is_running; i += 2)
		send_in_trial(&pair);
	assert_false(lend->duel.is_running);
	assert_true(lend->least[WAY_LENT] > 0 && lend->least[WAY_COPIED] > 0);
	assert_int_equal(pair.a->counters.send_drops, 0);
	assert_int_equal(pair.b->counters.bad_icrc, 0);
	pair_close(&pair);
}

/* It begins a page of its own, and its sum moves there with it. */
static void test_a_sum_behind_what_is_lent_stays_with_its_packet(void **state)
{
	struct pair pair;
	struct outbox *outbox;
	const uint32_t size = BTH_BYTES + PAYLOAD;
	uint8_t *at;

	(void)state;
	open_lender(&pair, &ipv4_a);
	begin_to_lend(&pair);
	send_runs(&pair, DEST_QP, 2);
	outbox = udp_link_outbox(pair.a);
	for (int i = 0; i < 3; i++) {
		stage_run(&pair, DEST_QP);
		at = outbox->reserve(outbox, &pair.av, DEST_QP + NEAR_PORTS, size);
		assert_non_null(at);
		write_packet(at, DEST_QP + NEAR_PORTS, pair.sent++, PAYLOAD);
		put_le32(at + size, icrc_sum(0, at + BTH_BYTES, PAYLOAD));
		outbox->commit_run(outbox, size, 1, true);
		assert_int_equal(pair.a->runs[1].offset % 4096, 0);
		assert_int_equal(pair.a->runs[1].summed[0], 1);
		pass(&pair);
	}
	assert_int_equal(pair.b->counters.bad_icrc, 0);
	pair_close(&pair);
}

/* Where less is lent the stage stays where it is, and the next may be written over it. */
static void test_who_may_not_or_sends_little_is_copied(void **state)
{
	struct pair pair;
	uint8_t *at;

	(void)state;
	open_lender(&pair, &ipv4_a);
	begin_to_lend(&pair);
	send_runs(&pair, DEST_QP, 2);
	at = place(&pair);
	for (int i = 0; i < 10; i++)
		stage(&pair, DEST_QP, PAYLOAD);
	pass(&pair);
	assert_ptr_equal(place(&pair), at);
	pair.av.lends = 0;
	send_runs(&pair, DEST_QP, 2);
	assert_ptr_equal(place(&pair), at);
	pair.av.lends = 1;
	pair.av.hop_limit = 3;
	send_runs(&pair, DEST_QP, 2);
	assert_ptr_equal(place(&pair), at);
	pair_close(&pair);
}

/* The socket cuts what it is given: what is one packet has to stay one. */
static void test_a_longer_packet_stays_whole(void **state)
{
	struct pair pair;

	(void)state;
	open_lender(&pair, &ipv4_a);
	begin_to_lend(&pair);
	send_runs(&pair, DEST_QP, 2);
	stage(&pair, DEST_QP, 4 * PAYLOAD);
	pass(&pair);
	stage(&pair, DEST_QP, 8);
	pass(&pair);
	send_runs(&pair, DEST_QP, 2);
	stage_run(&pair, DEST_QP);
	stage(&pair, DEST_QP, 2 * PAYLOAD);
	pass(&pair);
	pair_close(&pair);
}

static void test_what_is_for_others_never_lies_in_the_ring(void **state)
{
	struct pair pair;
	const struct udp_lender *lender;

	(void)state;
	open_lender(&pair, &ipv4_a);
	begin_to_lend(&pair);
	send_runs(&pair, DEST_QP, 2);
	lender = &pair.a->lender;
	stage_run(&pair, DEST_QP);
	assert_true(lender->is_staging);
	stage(&pair, OTHER_QP, PAYLOAD);
	assert_false(lender->is_staging);
	assert_ptr_equal(place(&pair), lender->plain);
	stage(&pair, DEST_QP + NEAR_PORTS, PAYLOAD);
	assert_true(lender->is_staging);
	pass(&pair);
	pair_close(&pair);
}

static void test_who_follows_has_a_ring_of_his_own(void **state)
{
	struct pair pair;

	(void)state;
	open_lender(&pair, &ipv4_a);
	begin_to_lend(&pair);
	send_runs(&pair, DEST_QP, 2);
	for (int i = 0; i < 2 * UNTIL_LENT && !lends_to(&pair, OTHER_QP); i += 2)
		send_runs(&pair, OTHER_QP, 2);
	assert_true(lends_to(&pair, OTHER_QP));
	send_runs(&pair, OTHER_QP, 2 * LAP_RUNS);
	assert_true(pair.a->lender.is_staging);
	send_runs(&pair, DEST_QP, 2);
	assert_false(pair.a->lender.is_staging);
	pair_close(&pair);
}

static void test_few_queue_pairs_lend(void **state)
{
	struct pair pair;
	uint8_t *at;

	(void)state;
	open_lender(&pair, &ipv4_a);
	begin_to_lend(&pair);
	for (int i = 0; i < LEND_WINDOWS; i++)
		send_runs(&pair, DEST_QP + i * NEAR_PORTS, 2);
	assert_int_equal(pair.a->lender.count, LEND_WINDOWS);
	at = place(&pair);
	send_runs(&pair, DEST_QP + LEND_WINDOWS * NEAR_PORTS, 2);
	assert_ptr_equal(place(&pair), at);
	/* in the next lap it may */
	send_runs(&pair, DEST_QP, LAP_RUNS);
	send_runs(&pair, DEST_QP + LEND_WINDOWS * NEAR_PORTS, 2);
	assert_int_equal(pair.a->lender.count, 2);
	pair_close(&pair);
}

static void test_who_has_more_under_way_is_several(void **state)
{
	enum { WINDOWS = 2, QPS = LEND_WINDOWS / WINDOWS };
	struct pair pair;
	uint8_t *at;

	(void)state;
	open_lender(&pair, &ipv4_a);
	pair.av.lends = WINDOWS;
	begin_to_lend(&pair);
	for (int i = 0; i < QPS; i++)
		send_runs(&pair, DEST_QP + i * NEAR_PORTS, 2);
	assert_int_equal(pair.a->lender.count, QPS);
	at = place(&pair);
	send_runs(&pair, DEST_QP + QPS * NEAR_PORTS, 2);
	assert_ptr_equal(place(&pair), at);
	pair_close(&pair);
}

static void test_who_gets_more_under_way_needs_room_for_it(void **state)
{
	struct pair pair;
	uint8_t *at;

	(void)state;
	open_lender(&pair, &ipv4_a);
	begin_to_lend(&pair);
	for (int i = 0; i < LEND_WINDOWS - 1; i++)
		send_runs(&pair, DEST_QP + i * NEAR_PORTS, 2);
	pair.av.lends = 2;
	send_runs(&pair, DEST_QP, 2);
	assert_int_equal(pair.a->lender.windows, LEND_WINDOWS);
	at = place(&pair);
	send_runs(&pair, DEST_QP + NEAR_PORTS, 2);
	assert_ptr_equal(place(&pair), at);
	send_runs(&pair, DEST_QP, 2);
	assert_ptr_not_equal(place(&pair), at);
	assert_int_equal(pair.a->lender.windows, LEND_WINDOWS);
	pair_close(&pair);
}

/* All that may be under way of the QPs of a lap and of those of the next one, wherever in the ring
 * it begins. */
static void test_no_page_is_written_again_while_windows_are_under_way(void **state)
{
	enum { UNDER_WAY = 2 * LEND_WINDOWS * WINDOW_MAX_BYTES / RUN_BYTES, LAPS = 4 };
	struct pair pair;

	(void)state;
	open_lender(&pair, &ipv4_a);
	begin_to_lend(&pair);
	send_runs(&pair, DEST_QP, 2);
	for (int runs = 0; runs < LAPS * LAP_RUNS; runs += UNDER_WAY) {
		for (int i = 0; i < UNDER_WAY; i++) {
			stage_run(&pair, DEST_QP);
			assert_true(udp_link_flush(pair.a));
		}
		stage_run(&pair, DEST_QP); /* and the ring's next pages are written */
		take_all(&pair);
		assert_int_equal(pair.taken.count, pair.sent - PACKETS);
		pass(&pair);
	}
	assert_true(pair.a->lender.is_staging);
	assert_int_equal(pair.a->counters.send_drops, 0);
	assert_int_equal(pair.b->counters.bad_icrc, 0);
	pair_close(&pair);
}

/* Its receiver was stopped: what is broken meanwhile is never delivered. */
static void test_pages_that_are_written_too_early(void **state)
{
	struct pair pair;

	(void)state;
	open_lender(&pair, &ipv4_a);
	begin_to_lend(&pair);
	pair.taken.is_sparse = true;
	for (int i = 0; i < 2 * LAP_RUNS; i++) {
		stage_run(&pair, DEST_QP);
		assert_true(udp_link_flush(pair.a));
	}
	stage_run(&pair, DEST_QP); /* and the ring's next pages are half written */
	take_all(&pair);
	assert_true(pair.taken.count > 0);
	pair_close(&pair);
}

/* No pages can be had into the pipe: the run leaves at once, copied, and none is tried again. */
static void test_a_kernel_that_does_not_lend(void **state)
{
	struct pair pair;
	int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);

	(void)state;
	open_lender(&pair, &ipv4_a);
	begin_to_lend(&pair);
	send_runs(&pair, DEST_QP, 2);
	assert_true(dup3(nothing, pair.a->lender.pipe[1], O_CLOEXEC) >= 0);
	close(nothing);
	send_runs(&pair, DEST_QP, 2);
	assert_true(pair.a->lender.is_off);
	send_runs(&pair, DEST_QP, 2 * UNTIL_LENT);
	assert_int_equal(pair.a->counters.send_drops, 0);
	pair_close(&pair);
}

static struct udp_path *path_of(const struct pair *pair)
{
	for (int i = 0; i < PATHS_MAX; i++)
		if (pair->a->paths.paths[i].to.from)
			return pair->a->paths.paths + i;
	fail_msg("there is no path");
	return NULL;
}

static void disconnect(int fd)
{
	struct sockaddr nobody = {.sa_family = AF_UNSPEC};

	assert_int_equal(connect(fd, &nobody, sizeof(nobody)), 0);
}

/* The socket refuses: the path is given up, and what was in the pipe leaves by the other socket,
 * once. */
static void test_a_socket_that_refuses(void **state)
{
	struct pair pair;

	(void)state;
	open_lender(&pair, &ipv4_a);
	begin_to_lend(&pair);
	send_runs(&pair, DEST_QP, 2);
	disconnect(path_of(&pair)->way.fd);
	send_runs(&pair, DEST_QP, 2);
	assert_int_equal(pair.a->lender.refusals, 1);
	for (int i = 0; i < 8 && pair.a->lender.refusals; i++)
		send_runs(&pair, DEST_QP, PATH_WINDOW);
	assert_int_equal(pair.a->lender.refusals, 0); /* there is another path */
	assert_false(pair.a->lender.is_off);
	assert_int_equal(pair.a->counters.send_drops, 0);
	pair_close(&pair);
}

static void test_a_socket_that_always_refuses(void **state)
{
	struct pair pair;

	(void)state;
	open_lender(&pair, &ipv4_a);
	begin_to_lend(&pair);
	send_runs(&pair, DEST_QP, 2);
	stage_run(&pair, DEST_QP);
	disconnect(path_of(&pair)->way.fd);
	for (uint32_t i = 0; i < REFUSALS; i++) {
		assert_true(udp_lends(pair.a, pair.a->runs));
		assert_true(udp_lend(pair.a, pair.a->runs) < 0);
	}
	assert_false(udp_lends(pair.a, pair.a->runs));
	pass(&pair);
	assert_int_equal(pair.a->counters.send_drops, 0);
	pair_close(&pair);
}

/* A full socket (here: a pipe of which nothing comes) keeps the run: it waits for room, and nothing
 * of it is lost or leaves twice. */
static void test_a_socket_that_is_full(void **state)
{
	struct pair pair;
	int empty[2], reader;

	(void)state;
	open_lender(&pair, &ipv4_a);
	begin_to_lend(&pair);
	send_runs(&pair, DEST_QP, 2);
	assert_int_equal(pipe2(empty, O_CLOEXEC | O_NONBLOCK), 0);
	reader = dup(pair.a->lender.pipe[0]);
	assert_true(dup3(empty[0], pair.a->lender.pipe[0], O_CLOEXEC) >= 0);
	stage_run(&pair, DEST_QP);
	stage_run(&pair, DEST_QP);
	assert_false(udp_link_flush(pair.a));
	assert_int_equal(pair.a->run_count, 2);
	pass(&pair);
	assert_false(pair.a->lender.is_off);
	send_runs(&pair, DEST_QP, 2 * LAP_RUNS);
	assert_int_equal(pair.a->counters.send_drops, 0);
	close(reader);
	close(empty[0]);
	close(empty[1]);
	pair_close(&pair);
}

/* As the kernel says it of the mapping: "dc", do not copy. (In a child something else may lie there
 * by the time that it looks.) */
static bool is_kept_from_children(const void *memory)
{
	char line[512];
	bool is_in = false, is_kept = false;
	FILE *file = fopen("/proc/self/smaps", "re");

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		uintptr_t begin, end;

		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2)
			is_in = (uintptr_t)memory >= begin && (uintptr_t)memory < end;
		else if (is_in && strncmp(line, "VmFlags:", 8) == 0)
			is_kept = strstr(line, " dc") != NULL;
	}
	fclose(file);
	return is_kept;
}

/* What the parent lends after fork() is what it has stored since. */
static void test_a_child_does_not_keep_the_pages(void **state)
{
	struct pair pair;
	int status;
	pid_t child;

	(void)state;
	open_lender(&pair, &ipv4_a);
	begin_to_lend(&pair);
	send_runs(&pair, DEST_QP, 2);
	assert_true(pair.a->lender.is_staging);
	assert_true(is_kept_from_children(pair.a->lender.ring));
	assert_true(is_kept_from_children(pair.a->lender.ring + LEND_RING_BYTES - 1));
	assert_false(is_kept_from_children(pair.a->lender.plain));
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		udp_link_abandon(pair.a);
		_exit(0);
	}
	send_runs(&pair, DEST_QP, 2 * LAP_RUNS);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	send_runs(&pair, DEST_QP, 2);
	assert_true(pair.a->lender.is_staging);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_what_is_lent_arrives_over_ipv4),
	    cmocka_unit_test(test_what_is_lent_arrives_over_ipv6),
	    cmocka_unit_test(test_the_same_stream_is_copied_where_that_is_faster),
	    cmocka_unit_test(test_another_one_gets_the_ring_when_it_is_lent_again),
	    cmocka_unit_test(test_a_trial_comes_by_itself),
	    cmocka_unit_test(test_a_sum_behind_what_is_lent_stays_with_its_packet),
	    cmocka_unit_test(test_who_may_not_or_sends_little_is_copied),
	    cmocka_unit_test(test_a_longer_packet_stays_whole),
	    cmocka_unit_test(test_what_is_for_others_never_lies_in_the_ring),
	    cmocka_unit_test(test_who_follows_has_a_ring_of_his_own),
	    cmocka_unit_test(test_few_queue_pairs_lend),
	    cmocka_unit_test(test_who_has_more_under_way_is_several),
	    cmocka_unit_test(test_who_gets_more_under_way_needs_room_for_it),
	    cmocka_unit_test(test_no_page_is_written_again_while_windows_are_under_way),
	    cmocka_unit_test(test_pages_that_are_written_too_early),
	    cmocka_unit_test(test_a_kernel_that_does_not_lend),
	    cmocka_unit_test(test_a_socket_that_refuses),
	    cmocka_unit_test(test_a_socket_that_always_refuses),
	    cmocka_unit_test(test_a_socket_that_is_full),
	    cmocka_unit_test(test_a_child_does_not_keep_the_pages),
	};

	if (!loopback_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
