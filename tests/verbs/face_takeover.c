/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An XRC_RECV QP whose homes are killed one after another while messages come for it. The sender is
 * this process; the SRQs are in `idle`, which never has the QP open, and in `opener`, which has,
 * and may become its home at any time. Three more processes have it open, the first of them its
 * creator. Each round kills one of them at some point of a stream, and kills another, or has it
 * close the QP; then they are replaced.
 *
 * Whatever the point: each message is executed once and in order, and each of them completes.
 */
#define _GNU_SOURCE
#include "xrc_sender.h"

enum {
	ROUNDS = 8,
	MESSAGES = 60, /* a round, to both by turns */
	POOL = 3,
	OPENINGS = 6,
	LENGTH = 3000, /* of WRITEs and READs: three packets */
	AT_COUNTER = 1024,
	AT_DATA = 4096,
	AT_RESULTS = 12288,
};

struct target {
	struct helper helper;
	struct report srq;
	uint64_t received, counted;
};

static struct target idle, opener;
static struct helper pool[POOL];
static bool is_leaving[POOL], is_killed[POOL];
static uint32_t chance;

static uint32_t random_below(uint32_t limit)
{
	chance = chance * 1664525 + 1013904223;
	return (chance >> 8) % limit;
}

static void start_target(struct target *target)
{
	target->helper = helper_start();
	helper_can(&target->helper, order(ORDER_OPEN, O_CREAT));
	target->srq = helper_can(&target->helper, order(ORDER_SRQ, 0));
	target->received = target->counted = 0;
}

static void open_in(struct helper *helper)
{
	struct report report = helper_can(helper, order(ORDER_OPEN_QP, home_qp()));

	assert_int_equal(report.number, IBV_QPS_RTS);
}

static void fill_pool(void)
{
	for (int i = 0; i < POOL; i++)
		if (!pool[i].pid) {
			pool[i] = helper_start();
			helper_can(&pool[i], order(ORDER_OPEN, O_CREAT));
			open_in(&pool[i]);
		}
}

static int setup(void **state)
{
	char name[] = "/tmp/verbatim-xrcd-XXXXXX";

	domain_fd = mkstemp(name);
	assert_true(domain_fd >= 0);
	unlink(name);
	chance = (uint32_t)getpid();
	memset(is_leaving, 0, sizeof(is_leaving)); /* of a test that failed */
	memset(is_killed, 0, sizeof(is_killed));
	start_target(&idle);
	start_target(&opener);
	pool[0] = helper_start();
	helper_can(&pool[0], order(ORDER_OPEN, O_CREAT));
	create_sender();
	connect_sender(helper_can(&pool[0], order(ORDER_TARGET, sender.qp->qp_num)).number);
	return 0;
}

static int teardown(void **state)
{
	end_destroy(&sender);
	for (int i = 0; i < POOL; i++)
		helper_stop(&pool[i]);
	helper_stop(&idle.helper);
	helper_stop(&opener.helper);
	return close(domain_fd);
}

static void post(struct target *target, enum ibv_wr_opcode opcode, size_t at, uint32_t length,
		 uint64_t wr_id, uint64_t to)
{
	post_to(target->srq.number, opcode, end_sge(&sender, at, length), wr_id,
		target->srq.addr + to, target->srq.rkey);
}

/* A message: what it writes, reads and counts, and last a SEND of its number. How many work
 * requests that is. */
static unsigned int post_message(struct target *target, uint32_t number, unsigned int kind,
				 uint64_t wr_id)
{
	uint64_t first = wr_id;

	*(uint32_t *)(sender.buffer + (size_t)number * 16) = number;
	if (kind & 1)
		post(target, IBV_WR_RDMA_WRITE, AT_DATA, LENGTH, wr_id++, AT_DATA);
	if (kind & 2)
		post(target, IBV_WR_ATOMIC_FETCH_AND_ADD, AT_RESULTS + (size_t)number * 8, 8,
		     wr_id++, AT_COUNTER);
	if (kind & 4)
		post(target, IBV_WR_RDMA_READ, AT_DATA + LENGTH, LENGTH, wr_id++, AT_DATA);
	post(target, IBV_WR_SEND, (size_t)number * 16, 4, wr_id++, 0);
	return (unsigned int)(wr_id - first);
}

static void assert_received(struct target *target, uint32_t number, unsigned int nth)
{
	struct order look = {.kind = ORDER_READ, .offset = 16ul * nth};
	struct report report = helper_can(&target->helper, order(ORDER_NEXT, 0));

	assert_int_equal(report.number, 1);
	assert_wc(report.wc, target->received++, IBV_WC_SUCCESS);
	report = helper_can(&target->helper, look);
	assert_int_equal(*(uint32_t *)report.bytes, number);
}

static void assert_counted(struct target *target, uint32_t number)
{
	uint64_t *result = (uint64_t *)(sender.buffer + AT_RESULTS + (size_t)number * 8);

	assert_int_equal(*result, target->counted);
	target->counted += 5;
}

/* One of the pool, or two of them, the second a moment later: wherever the QP is then. The first is
 * killed, the second may close the QP instead. All this is about to happen when this returns. */
static void part_with_some(void)
{
	unsigned int count = 1 + random_below(2), first = random_below(POOL);

	kill(pool[first].pid, SIGKILL);
	is_killed[first] = true;
	if (count == 1)
		return;
	if (random_below(2))
		usleep(random_below(10000));
	first = (first + 1) % POOL;
	is_leaving[first] = random_below(2);
	is_killed[first] = !is_leaving[first];
	if (is_leaving[first])
		helper_begin(&pool[first], order(ORDER_CLOSE_QP, 0));
	else
		kill(pool[first].pid, SIGKILL);
}

static void bury(void)
{
	for (int i = 0; i < POOL; i++) {
		if (is_leaving[i]) {
			assert_int_equal(helper_end(&pool[i]).error, 0);
			helper_exit(&pool[i]);
		} else if (is_killed[i]) {
			helper_kill(&pool[i]);
		}
		is_leaving[i] = is_killed[i] = false;
	}
}

static void a_round(unsigned int run)
{
	struct target *targets[MESSAGES];
	unsigned int kinds[MESSAGES], nth[2] = {0}, wr_count = 0;
	uint32_t kill_at = random_below(MESSAGES);

	fill_pool();
	helper_can(&idle.helper, post_order(idle.received, MESSAGES / 2, 16));
	helper_can(&opener.helper, post_order(opener.received, MESSAGES / 2, 16));
	for (uint32_t i = 0; i < MESSAGES; i++) {
		targets[i] = i / run % 2 ? &opener : &idle;
		kinds[i] = random_below(8);
		if (i == kill_at)
			part_with_some();
		wr_count += post_message(targets[i], i, kinds[i], wr_count);
	}
	for (unsigned int done = 0; done < wr_count; done++)
		assert_wc(next_wc(sender.cq), done, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		assert_received(targets[i], i, nth[targets[i] == &opener]++);
		if (kinds[i] & 2)
			assert_counted(targets[i], i);
	}
	bury();
}

static void homes_are_killed_in_a_stream(void **state)
{
	static const unsigned int runs[] = {1, 3, 10, 30};

	for (int round = 0; round < ROUNDS; round++) {
		if (round == ROUNDS - 2)
			open_in(&opener.helper);
		a_round(runs[round % 4]);
	}
}

/* Whoever wants to open it while its home changes waits for the next one. */
static void it_is_opened_while_its_home_changes(void **state)
{
	fill_pool();
	for (int i = 0; i < OPENINGS; i++) {
		struct helper late = helper_start();

		helper_can(&late, order(ORDER_OPEN, O_CREAT));
		kill(pool[i % POOL].pid, SIGKILL);
		if (i % 2)
			usleep(random_below(2000));
		open_in(&late);
		helper_kill(&pool[i % POOL]);
		pool[i % POOL] = late;
	}
	a_round(1);
}

/* Two homes at once would each have the responder go on from a place of its own. */
static void nobody_is_the_next_home_before_the_last_is_done(void **state)
{
	struct report report;

	open_in(&opener.helper);
	helper_kill(&pool[0]);
	helper_can(&opener.helper, order(ORDER_QUERY, 0));
	report = helper_can(&opener.helper, order(ORDER_CLOSE_SLOWLY, 0));
	assert_int_equal(report.number, false);
}

/* What another process keeps of the dead is XRC's alone: an RC QP whose peer died with it is told
 * at its first timeout, here a second, and not after all retries, which would be half a minute. */
static void other_peers_of_the_dead_are_told(void **state)
{
	struct ibv_qp_attr rts = rts_attr();
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct end rc;

	if (are_two_hosts())
		skip();
	rts.timeout = 18;
	rts.retry_cnt = 7;
	fill_pool();
	end_create(&rc, IBV_QPT_RC);
	qp_init(rc.qp, live_access);
	qp_connect_as(rc.qp, helper_can(&pool[0], order(ORDER_RC, rc.qp->qp_num)).number, rts);
	helper_kill(&pool[0]);
	helper_can(&idle.helper, post_order(idle.received, 1, 16));
	post_message(&idle, 0, 0, 0);
	assert_wc(next_wc(sender.cq), 0, IBV_WC_SUCCESS);
	sge = end_sge(&rc, 0, 8);
	wr = make_send(IBV_WR_SEND, &sge);
	post_send_wr(&rc, &wr);
	assert_wc(next_wc(rc.cq), wr.wr_id, IBV_WC_RETRY_EXC_ERR);
	end_destroy(&rc);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(homes_are_killed_in_a_stream, setup, teardown),
	    cmocka_unit_test_setup_teardown(it_is_opened_while_its_home_changes, setup, teardown),
	    cmocka_unit_test_setup_teardown(nobody_is_the_next_home_before_the_last_is_done, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(other_peers_of_the_dead_are_told, setup, teardown),
	};

	helper_if_told(argc, argv);
	return cmocka_run_group_tests(tests, helper_live_open, live_close);
}
