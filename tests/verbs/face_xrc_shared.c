/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains that processes share. The sender is this process; the target QP is `home`'s, a
 * process of its own, or this one's; SRQs are in `near` (home's process itself), `one` and `two`.
 */
#define _GNU_SOURCE
#include <sys/un.h>

#include "xrc_sender.h"

enum { STREAM = 240, BURST = 8 };

static struct helper home, one, two;
static struct report near_srq, one_srq, two_srq;

/* ---- what each test begins with ---- */

static int setup(void **state)
{
	char name[] = "/tmp/verbatim-xrcd-XXXXXX";

	domain_fd = mkstemp(name);
	assert_true(domain_fd >= 0);
	unlink(name);
	home = helper_start();
	one = helper_start();
	two = helper_start();
	helper_can(&home, order(ORDER_OPEN, O_CREAT));
	helper_can(&one, order(ORDER_OPEN, O_CREAT));
	helper_can(&two, order(ORDER_OPEN, O_CREAT));
	near_srq = helper_can(&home, order(ORDER_SRQ, 0));
	one_srq = helper_can(&one, order(ORDER_SRQ, 0));
	two_srq = helper_can(&two, order(ORDER_SRQ, 0));
	create_sender();
	connect_sender(helper_can(&home, order(ORDER_TARGET, sender.qp->qp_num)).number);
	return 0;
}

static int teardown(void **state)
{
	end_destroy(&sender);
	helper_stop(&home);
	helper_stop(&one);
	helper_stop(&two);
	return close(domain_fd);
}

#define SHARED_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void assert_got(struct helper *helper, uint64_t wr_id, const char *text)
{
	struct report report = helper_can(helper, order(ORDER_NEXT, 0));

	assert_int_equal(report.number, 1);
	assert_wc(report.wc, wr_id, IBV_WC_SUCCESS);
	report = helper_can(helper, order(ORDER_READ, 0));
	assert_string_equal(report.bytes, text);
}

/* ---- messages ---- */

static void a_message_reaches_the_srq_of_another_process(void **state)
{
	struct report report;

	helper_can(&one, post_order(7, 1, 1000));
	send_to(one_srq.number, "over there", 1);
	report = helper_can(&one, order(ORDER_NEXT, 0));
	assert_wc(report.wc, 7, IBV_WC_SUCCESS);
	assert_int_equal(report.wc.byte_len, strlen("over there") + 1);
	assert_int_equal(report.wc.src_qp, sender.qp->qp_num);
	assert_string_equal(helper_can(&one, order(ORDER_READ, 0)).bytes, "over there");
	assert_wc(next_wc(sender.cq), 1, IBV_WC_SUCCESS);
	assert_int_equal(helper_can(&two, order(ORDER_DRY, 20)).number, 0);
}

static void each_of_three_gets_its_own(void **state)
{
	helper_can(&one, post_order(11, 1, 1000));
	helper_can(&two, post_order(12, 1, 1000));
	helper_can(&home, post_order(13, 1, 1000));
	send_to(one_srq.number, "to one", 1);
	assert_wc(next_wc(sender.cq), 1, IBV_WC_SUCCESS);
	send_to(two_srq.number, "to two", 2);
	assert_wc(next_wc(sender.cq), 2, IBV_WC_SUCCESS);
	send_to(near_srq.number, "to home", 3);
	assert_wc(next_wc(sender.cq), 3, IBV_WC_SUCCESS);
	assert_got(&one, 11, "to one");
	assert_got(&two, 12, "to two");
	assert_got(&home, 13, "to home");
}

static void every_operation_meets_the_memory_of_that_process(void **state)
{
	uint64_t *result = (uint64_t *)(sender.buffer + 12288);
	struct report report;

	for (int i = 0; i < 8000; i++)
		sender.buffer[i] = (char)i;
	helper_can(&one, post_order(21, 2, 8000));
	post_to(one_srq.number, IBV_WR_SEND, end_sge(&sender, 0, 8000), 1, 0, 0);
	post_to(one_srq.number, IBV_WR_RDMA_WRITE, end_sge(&sender, 0, 5000), 2,
		one_srq.addr + 8000, one_srq.rkey);
	post_to(one_srq.number, IBV_WR_RDMA_WRITE_WITH_IMM, end_sge(&sender, 0, 3000), 3,
		one_srq.addr + 13000, one_srq.rkey);
	post_to(one_srq.number, IBV_WR_RDMA_READ, end_sge(&sender, 8000, 4000), 4,
		one_srq.addr + 9000, one_srq.rkey);
	post_to(one_srq.number, IBV_WR_ATOMIC_FETCH_AND_ADD, end_sge(&sender, 12288, 8), 5,
		one_srq.addr, one_srq.rkey);
	for (uint64_t wr_id = 1; wr_id <= 5; wr_id++)
		assert_wc(next_wc(sender.cq), wr_id, IBV_WC_SUCCESS);
	report = helper_can(&one, order(ORDER_NEXT, 0));
	assert_wc(report.wc, 21, IBV_WC_SUCCESS);
	assert_int_equal(report.wc.byte_len, 8000);
	report = helper_can(&one, order(ORDER_NEXT, 0));
	assert_wc(report.wc, 22, IBV_WC_SUCCESS);
	assert_int_equal(report.wc.imm_data, htobe32(0x1234));
	assert_memory_equal(sender.buffer + 8000, sender.buffer + 1000, 4000);
	assert_memory_equal(result, sender.buffer, 8);
	report = helper_can(&one, order(ORDER_READ, 0));
	assert_int_equal(report.bytes[0], sender.buffer[0] + 5);
	assert_memory_equal(report.bytes + 8, sender.buffer + 8, SHOWN - 8);
}

/* As fast as it goes, and each message to another process than the one before: none is lost, none
 * comes twice, and each process has its own in order. */
static void a_stream_to_all_by_turns_comes_once_and_in_order(void **state)
{
	struct helper *helpers[] = {&one, &two, &home};
	uint32_t srqns[] = {one_srq.number, two_srq.number, near_srq.number};
	unsigned int turns[] = {1, 0, 2, 1, 1, 0, 0, 2}, expected[3] = {0};
	int completed = 0;

	for (int i = 0; i < STREAM / BURST; i++) {
		helper_can(&one, post_order((uint64_t)i * 3, 3, 16));
		helper_can(&two, post_order((uint64_t)i * 3, 3, 16));
		helper_can(&home, post_order((uint64_t)i * 2, 2, 16));
		for (int j = 0; j < BURST; j++) {
			*(uint32_t *)(sender.buffer + 16 * j) = (uint32_t)(i * BURST + j);
			post_to(srqns[turns[j]], IBV_WR_SEND, end_sge(&sender, (size_t)16 * j, 4),
				(uint64_t)(i * BURST + j), 0, 0);
		}
		for (int j = 0; j < BURST; j++)
			assert_wc(next_wc(sender.cq), (uint64_t)completed++, IBV_WC_SUCCESS);
		for (int j = 0; j < BURST; j++) {
			struct helper *helper = helpers[turns[j]];
			unsigned int nth = expected[turns[j]]++;
			unsigned int each = turns[j] == 2 ? 2 : 3;
			struct order look = {.kind = ORDER_READ, .offset = 16ul * (nth % each)};
			struct report report = helper_can(helper, order(ORDER_NEXT, 0));

			assert_wc(report.wc, nth, IBV_WC_SUCCESS);
			report = helper_can(helper, look);
			assert_int_equal(*(uint32_t *)report.bytes, i * BURST + j);
		}
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(helper_can(helpers[i], order(ORDER_DRY, 1)).number, 0);
}

static void a_receiver_that_is_not_ready_is_waited_for(void **state)
{
	send_to(one_srq.number, "early", 1);
	usleep(20000);
	assert_int_equal(helper_can(&one, order(ORDER_DRY, 1)).number, 0);
	helper_can(&one, post_order(9, 1, 1000));
	assert_wc(next_wc(sender.cq), 1, IBV_WC_SUCCESS);
	assert_got(&one, 9, "early");
	assert_int_equal(helper_can(&one, order(ORDER_DRY, 20)).number, 0);
}

/* What is posted behind a message that is not received yet does not overtake it. */
static void nobody_overtakes_one_that_waits(void **state)
{
	helper_can(&two, post_order(12, 1, 1000));
	send_to(one_srq.number, "first", 1);
	post_to(two_srq.number, IBV_WR_SEND, end_sge(&sender, 0, 6), 2, 0, 0);
	usleep(20000);
	assert_int_equal(helper_can(&two, order(ORDER_DRY, 1)).number, 0);
	helper_can(&one, post_order(9, 1, 1000));
	assert_got(&one, 9, "first");
	assert_got(&two, 12, "first");
	assert_wc(next_wc(sender.cq), 1, IBV_WC_SUCCESS);
	assert_wc(next_wc(sender.cq), 2, IBV_WC_SUCCESS);
}

/* ---- refusals ---- */

/* The home hears of it from the process that refused, a moment after the peer did. */
static void assert_home_in_error(void)
{
	double until = seconds() + PATIENCE_S;

	while (helper_can(&home, order(ORDER_QUERY, 0)).attr.qp_state != IBV_QPS_ERR)
		assert_true(seconds() < until);
}

static void assert_home_event(uint32_t type)
{
	struct report report = helper_can(&home, order(ORDER_EVENT, 0));

	assert_int_equal(report.number, type);
	assert_true(report.addr);
	assert_home_in_error();
}

static void write_what_is_not_allowed(void)
{
	post_to(one_srq.number, IBV_WR_RDMA_WRITE, end_sge(&sender, 0, 100), 1, one_srq.addr,
		one_srq.rkey ^ 0x10);
	assert_failed(next_wc(sender.cq), 1, IBV_WC_REM_ACCESS_ERR, REASON_PEER_REFUSED_ACCESS);
}

static void a_wrong_key_ends_the_connection_at_its_home(void **state)
{
	write_what_is_not_allowed();
	assert_home_event(IBV_EVENT_QP_ACCESS_ERR);
}

/* Its process's key, but another process's SRQ. */
static void a_key_of_another_process_is_none(void **state)
{
	post_to(two_srq.number, IBV_WR_RDMA_WRITE, end_sge(&sender, 0, 100), 1, one_srq.addr,
		one_srq.rkey);
	assert_failed(next_wc(sender.cq), 1, IBV_WC_REM_ACCESS_ERR, REASON_PEER_REFUSED_ACCESS);
}

static void too_long_a_message_completes_in_error_there(void **state)
{
	helper_can(&one, post_order(5, 1, 10));
	post_to(one_srq.number, IBV_WR_SEND, end_sge(&sender, 0, 100), 1, 0, 0);
	assert_failed(next_wc(sender.cq), 1, IBV_WC_REM_INV_REQ_ERR, REASON_PEER_INVALID_REQUEST);
	assert_wc(helper_can(&one, order(ORDER_NEXT, 0)).wc, 5, IBV_WC_LOC_LEN_ERR);
	assert_home_in_error();
}

static void assert_no_such_srq(uint32_t number)
{
	send_to(number, "to nobody", 1);
	assert_failed(next_wc(sender.cq), 1, IBV_WC_REM_INV_REQ_ERR, REASON_PEER_INVALID_REQUEST);
	assert_home_event(IBV_EVENT_QP_REQ_ERR);
}

static void an_srq_that_its_process_has_not_is_refused(void **state)
{
	assert_no_such_srq(one_srq.number + 1);
}

static void an_srq_of_no_process_is_refused(void **state)
{
	assert_no_such_srq(200u << 16 | 1);
}

static void an_srq_of_a_process_without_the_domain_is_refused(void **state)
{
	helper_can(&one, order(ORDER_CLOSE_SRQ, 0));
	helper_can(&one, order(ORDER_CLOSE_DOMAIN, 0));
	assert_no_such_srq(one_srq.number);
}

/* It is not asked: a process that has no part in it may not run, or have its mail full. */
static void nor_does_it_wait_for_that_process(void **state)
{
	int status;

	helper_can(&one, order(ORDER_CLOSE_SRQ, 0));
	helper_can(&one, order(ORDER_CLOSE_DOMAIN, 0));
	kill(one.pid, SIGSTOP);
	assert_int_equal(waitpid(one.pid, &status, WUNTRACED), one.pid);
	assert_true(WIFSTOPPED(status));
	assert_no_such_srq(one_srq.number);
	kill(one.pid, SIGCONT);
}

static void an_srq_that_went_is_refused(void **state)
{
	helper_can(&one, post_order(7, 1, 1000));
	send_to(one_srq.number, "while it lasts", 3);
	assert_wc(next_wc(sender.cq), 3, IBV_WC_SUCCESS);
	assert_got(&one, 7, "while it lasts");
	helper_can(&one, order(ORDER_CLOSE_SRQ, 0));
	assert_no_such_srq(one_srq.number);
}

/* ---- ends ---- */

static void a_qp_that_is_reset_can_be_used_again(void **state)
{
	helper_can(&one, post_order(7, 2, 1000));
	send_to(one_srq.number, "before", 3);
	assert_wc(next_wc(sender.cq), 3, IBV_WC_SUCCESS);
	assert_got(&one, 7, "before");
	helper_can(&home, order(ORDER_CLOSE_QP, 0));
	assert_int_equal(ibv_destroy_qp(sender.qp), 0);
	assert_int_equal(ibv_destroy_cq(sender.cq), 0);
	assert_int_equal(ibv_dereg_mr(sender.mr), 0);
	free(sender.buffer);
	create_sender();
	connect_sender(helper_can(&home, order(ORDER_TARGET, sender.qp->qp_num)).number);
	send_to(one_srq.number, "after", 4);
	assert_wc(next_wc(sender.cq), 4, IBV_WC_SUCCESS);
	assert_wc(helper_can(&one, order(ORDER_NEXT, 0)).wc, 8, IBV_WC_SUCCESS);
}

/* Its own messages fail; the connection goes on for the others. */
static void the_death_of_an_srqs_owner_is_its_own(void **state)
{
	helper_can(&one, post_order(7, 1, 1000));
	send_to(one_srq.number, "alive", 1);
	assert_wc(next_wc(sender.cq), 1, IBV_WC_SUCCESS);
	helper_kill(&one);
	helper_can(&two, post_order(12, 1, 1000));
	helper_can(&home, post_order(13, 1, 1000));
	send_to(two_srq.number, "two is there", 2);
	assert_wc(next_wc(sender.cq), 2, IBV_WC_SUCCESS);
	assert_got(&two, 12, "two is there");
	send_to(near_srq.number, "so is home", 3);
	assert_wc(next_wc(sender.cq), 3, IBV_WC_SUCCESS);
	assert_got(&home, 13, "so is home");
	assert_no_such_srq(one_srq.number);
}

/* Killed in the middle of a stream, wherever that is: the sender has a success for each message
 * before, in order, and an error for the first that was not done. */
static void kill_in_a_stream(enum ibv_wr_opcode opcode, uint32_t length)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	uint64_t count = 0;

	helper_can(&one, post_order(0, 64, 64));
	for (uint64_t wr_id = 0; wr_id < 200; wr_id++)
		post_to(one_srq.number, opcode, end_sge(&sender, 0, length), wr_id, one_srq.addr,
			one_srq.rkey);
	for (; count < 5; count++)
		assert_wc(next_wc(sender.cq), count, IBV_WC_SUCCESS);
	helper_kill(&one);
	while (status == IBV_WC_SUCCESS && count < 200) {
		struct ibv_wc wc = next_wc(sender.cq);

		assert_int_equal(wc.wr_id, count++);
		status = wc.status;
	}
	assert_int_equal(status, IBV_WC_REM_INV_REQ_ERR);
	assert_home_event(IBV_EVENT_QP_REQ_ERR);
}

static void an_owner_killed_in_a_stream_of_sends(void **state)
{
	kill_in_a_stream(IBV_WR_SEND, 64);
}

static void an_owner_killed_in_a_stream_of_writes(void **state)
{
	kill_in_a_stream(IBV_WR_RDMA_WRITE, BUFFER);
}

static void the_death_of_the_home_leaves_the_srqs_to_others(void **state)
{
	uint32_t dest;

	helper_can(&one, post_order(7, 2, 1000));
	send_to(one_srq.number, "by home", 1);
	assert_wc(next_wc(sender.cq), 1, IBV_WC_SUCCESS);
	assert_got(&one, 7, "by home");
	helper_kill(&home);
	send_to(one_srq.number, "to nobody", 2);
	assert_wc(next_wc(sender.cq), 2, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(ibv_destroy_qp(sender.qp), 0);
	assert_int_equal(ibv_destroy_cq(sender.cq), 0);
	assert_int_equal(ibv_dereg_mr(sender.mr), 0);
	free(sender.buffer);
	create_sender();
	dest = helper_can(&two, order(ORDER_TARGET, sender.qp->qp_num)).number;
	connect_sender(dest);
	send_to(one_srq.number, "by two", 3);
	assert_wc(next_wc(sender.cq), 3, IBV_WC_SUCCESS);
	assert_wc(helper_can(&one, order(ORDER_NEXT, 0)).wc, 8, IBV_WC_SUCCESS);
}

/* A child of fork has no part in it, however long it lives. */
static void a_child_keeps_no_line_open(void **state)
{
	helper_can(&one, post_order(7, 1, 1000));
	send_to(one_srq.number, "before the fork", 1);
	assert_wc(next_wc(sender.cq), 1, IBV_WC_SUCCESS);
	helper_can(&one, order(ORDER_FORK, 0));
	helper_can(&home, order(ORDER_FORK, 0));
	helper_kill(&one);
	assert_no_such_srq(one_srq.number);
}

/* ---- a QP that another process has open ---- */

static void open_of_home(struct helper *helper, uint32_t number)
{
	struct report report = helper_can(helper, order(ORDER_OPEN_QP, number));

	assert_int_equal(report.number, IBV_QPS_RTS);
}

static void a_qp_is_opened_asked_and_changed_from_another_process(void **state)
{
	struct report report;

	open_of_home(&one, home_qp());
	report = helper_can(&one, order(ORDER_QUERY, 0));
	assert_int_equal(report.attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(report.attr.dest_qp_num, sender.qp->qp_num);
	report = helper_do(&one, order(ORDER_MODIFY, IBV_QPS_INIT));
	assert_int_equal(report.error, EINVAL);
	assert_int_equal(report.reason, REASON_QP_TRANSITION);
	helper_can(&one, order(ORDER_MODIFY, IBV_QPS_ERR));
	report = helper_can(&home, order(ORDER_QUERY, 0));
	assert_int_equal(report.attr.qp_state, IBV_QPS_ERR);
	helper_can(&one, order(ORDER_CLOSE_QP, 0));
	report = helper_can(&home, order(ORDER_QUERY, 0));
	assert_int_equal(report.attr.qp_state, IBV_QPS_ERR);
}

static void a_qp_lives_as_long_as_somebody_has_it_open(void **state)
{
	open_of_home(&one, home_qp());
	open_of_home(&two, home_qp());
	helper_can(&home, order(ORDER_CLOSE_QP, 0));
	helper_can(&one, post_order(7, 1, 1000));
	send_to(one_srq.number, "its creator left", 1);
	assert_wc(next_wc(sender.cq), 1, IBV_WC_SUCCESS);
	assert_got(&one, 7, "its creator left");
	helper_kill(&one);
	helper_can(&two, post_order(8, 1, 1000));
	send_to(two_srq.number, "so did another", 2);
	assert_wc(next_wc(sender.cq), 2, IBV_WC_SUCCESS);
	assert_got(&two, 8, "so did another");
	helper_can(&two, order(ORDER_CLOSE_QP, 0));
	assert_int_equal(helper_do(&two, order(ORDER_OPEN_QP, home_qp())).reason,
			 REASON_QP_OPEN_NONE);
	send_to(two_srq.number, "nobody has it", 3);
	assert_wc(next_wc(sender.cq), 3, IBV_WC_RETRY_EXC_ERR);
}

static void all_who_have_it_open_get_its_events(void **state)
{
	struct report report;

	open_of_home(&one, home_qp());
	open_of_home(&two, home_qp());
	write_what_is_not_allowed();
	assert_home_event(IBV_EVENT_QP_ACCESS_ERR);
	report = helper_can(&one, order(ORDER_EVENT, 0));
	assert_int_equal(report.number, IBV_EVENT_QP_ACCESS_ERR);
	assert_true(report.addr);
	report = helper_can(&two, order(ORDER_EVENT, 0));
	assert_int_equal(report.number, IBV_EVENT_QP_ACCESS_ERR);
}

/* ---- a QP whose process is gone ---- */

static void say(struct helper *helper, uint32_t srqn, const char *text)
{
	static uint64_t wr_id = 1000;

	helper_can(helper, post_order(++wr_id, 1, 1000));
	send_to(srqn, text, wr_id);
	assert_wc(next_wc(sender.cq), wr_id, IBV_WC_SUCCESS);
	assert_got(helper, wr_id, text);
}

static void assert_goes_on_until_the_last_leaves(void)
{
	struct report report;

	say(&one, one_srq.number, "goes on");
	say(&two, two_srq.number, "there too");
	report = helper_can(&one, order(ORDER_QUERY, 0));
	assert_int_equal(report.attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(report.attr.dest_qp_num, sender.qp->qp_num);
	report = helper_can(&two, order(ORDER_QUERY, 0));
	assert_int_equal(report.attr.dest_qp_num, sender.qp->qp_num);
	helper_can(&one, order(ORDER_CLOSE_QP, 0));
	say(&two, two_srq.number, "one left");
	say(&one, one_srq.number, "but has its SRQ");
	helper_can(&two, order(ORDER_CLOSE_QP, 0));
	send_to(two_srq.number, "nobody has it", 3);
	assert_wc(next_wc(sender.cq), 3, IBV_WC_RETRY_EXC_ERR);
}

static void open_in_both(void)
{
	open_of_home(&one, home_qp());
	open_of_home(&two, home_qp());
	say(&home, near_srq.number, "as it began");
}

static void a_qp_goes_on_when_its_creator_is_killed(void **state)
{
	open_in_both();
	helper_kill(&home);
	assert_goes_on_until_the_last_leaves();
}

static void a_qp_goes_on_when_its_creator_exits(void **state)
{
	open_in_both();
	helper_exit(&home);
	assert_goes_on_until_the_last_leaves();
}

static void a_qp_goes_on_when_its_creator_closes_the_device(void **state)
{
	open_in_both();
	helper_can(&home, order(ORDER_CLOSE_ALL, 0));
	say(&one, one_srq.number, "closed");
	helper_exit(&home);
	assert_goes_on_until_the_last_leaves();
}

static void a_qp_goes_from_one_to_the_next(void **state)
{
	struct helper fourth = helper_start();

	open_in_both();
	helper_kill(&home);
	say(&one, one_srq.number, "in one or two");
	helper_can(&fourth, order(ORDER_OPEN, O_CREAT));
	open_of_home(&fourth, home_qp());
	helper_kill(&one);
	say(&two, two_srq.number, "in two or the fourth");
	helper_can(&two, order(ORDER_CLOSE_QP, 0));
	say(&two, two_srq.number, "in the fourth");
	assert_int_equal(helper_can(&fourth, order(ORDER_QUERY, 0)).attr.qp_state, IBV_QPS_RTS);
	helper_can(&fourth, order(ORDER_CLOSE_QP, 0));
	helper_stop(&fourth);
	send_to(two_srq.number, "nobody has it", 3);
	assert_wc(next_wc(sender.cq), 3, IBV_WC_RETRY_EXC_ERR);
}

static void all_hear_of_what_happens_to_it_elsewhere(void **state)
{
	open_in_both();
	helper_kill(&home);
	say(&one, one_srq.number, "goes on");
	write_what_is_not_allowed();
	assert_int_equal(helper_can(&one, order(ORDER_EVENT, 0)).number, IBV_EVENT_QP_ACCESS_ERR);
	assert_int_equal(helper_can(&two, order(ORDER_EVENT, 0)).number, IBV_EVENT_QP_ACCESS_ERR);
	assert_int_equal(helper_can(&one, order(ORDER_QUERY, 0)).attr.qp_state, IBV_QPS_ERR);
	assert_int_equal(helper_can(&two, order(ORDER_QUERY, 0)).attr.qp_state, IBV_QPS_ERR);
}

static void who_did_not_run_hears_of_it_later(void **state)
{
	int status;

	open_in_both();
	say(&one, one_srq.number, "what comes is taken in here now");
	kill(two.pid, SIGSTOP);
	assert_int_equal(waitpid(two.pid, &status, WUNTRACED), two.pid);
	assert_true(WIFSTOPPED(status));
	helper_kill(&home);
	say(&one, one_srq.number, "goes on");
	write_what_is_not_allowed();
	assert_int_equal(helper_can(&one, order(ORDER_EVENT, 0)).number, IBV_EVENT_QP_ACCESS_ERR);
	kill(two.pid, SIGCONT);
	assert_int_equal(helper_can(&two, order(ORDER_EVENT, 0)).number, IBV_EVENT_QP_ACCESS_ERR);
}

static void it_is_changed_by_whoever_has_it_open(void **state)
{
	open_in_both();
	helper_kill(&home);
	assert_int_equal(helper_do(&one, order(ORDER_MODIFY, IBV_QPS_INIT)).reason,
			 REASON_QP_TRANSITION);
	assert_int_equal(helper_do(&two, order(ORDER_MODIFY, IBV_QPS_INIT)).reason,
			 REASON_QP_TRANSITION);
	helper_can(&two, order(ORDER_MODIFY, IBV_QPS_ERR));
	assert_int_equal(helper_can(&one, order(ORDER_QUERY, 0)).attr.qp_state, IBV_QPS_ERR);
}

/* Messages of several packets, to one and two by turns; wherever the home is killed, each is
 * received once and in order. */
static void the_home_is_killed_in_a_stream(void **state)
{
	enum { EACH = 32, LENGTH = 3000 };
	struct helper *helpers[] = {&one, &two};
	uint64_t wr_id = 0;

	open_in_both();
	helper_can(&one, post_order(0, EACH, LENGTH / 8));
	helper_can(&two, post_order(0, EACH, LENGTH / 8));
	for (uint64_t i = 0; i < 2ul * EACH; i++) {
		uint32_t srqn = i / 4 % 2 ? two_srq.number : one_srq.number;

		post_to(srqn, IBV_WR_RDMA_WRITE, end_sge(&sender, 0, LENGTH), 2 * i,
			i / 4 % 2 ? two_srq.addr : one_srq.addr,
			i / 4 % 2 ? two_srq.rkey : one_srq.rkey);
		post_to(srqn, IBV_WR_SEND, end_sge(&sender, 0, LENGTH / 8), 2 * i + 1, 0, 0);
	}
	for (; wr_id < 9; wr_id++)
		assert_wc(next_wc(sender.cq), wr_id, IBV_WC_SUCCESS);
	helper_kill(&home);
	for (; wr_id < 4 * EACH; wr_id++)
		assert_wc(next_wc(sender.cq), wr_id, IBV_WC_SUCCESS);
	for (uint64_t i = 0; i < EACH; i++)
		for (int j = 0; j < 2; j++)
			assert_wc(helper_can(helpers[j], order(ORDER_NEXT, 0)).wc, i,
				  IBV_WC_SUCCESS);
	assert_int_equal(helper_can(&one, order(ORDER_DRY, 1)).number, 0);
	assert_int_equal(helper_can(&two, order(ORDER_DRY, 1)).number, 0);
}

static bool is_slot_taken(uint32_t number)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "verbatim/%u", number);
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
	bool is_taken = connect(fd, (struct sockaddr *)&name, size) == 0;

	close(fd);
	return is_taken;
}

static void the_slot_is_free_when_the_last_has_let_go(void **state)
{
	uint32_t slot = home_qp() >> 16;
	double until;

	if (are_two_hosts()) /* whose slots are not ours to see */
		skip();
	open_in_both();
	helper_kill(&home);
	say(&one, one_srq.number, "goes on");
	assert_true(is_slot_taken(slot));
	helper_can(&one, order(ORDER_CLOSE_QP, 0));
	assert_true(is_slot_taken(slot));
	helper_can(&two, order(ORDER_CLOSE_QP, 0));
	until = seconds() + PATIENCE_S;
	while (is_slot_taken(slot))
		assert_true(seconds() < until);
}

static void a_qp_that_is_not_there_is_not_opened(void **state)
{
	struct helper fourth = helper_start();
	int other = open("/tmp", O_TMPFILE | O_RDWR, 0600);

	assert_int_equal(helper_do(&one, order(ORDER_OPEN_QP, home_qp() ^ 1)).reason,
			 REASON_QP_OPEN_NONE);
	assert_int_equal(helper_do(&one, order(ORDER_OPEN_QP, 200u << 16 | 7)).reason,
			 REASON_QP_OPEN_NONE);
	assert_int_equal(helper_do(&one, order(ORDER_OPEN_QP, sender.qp->qp_num)).reason,
			 REASON_QP_OPEN_NONE);
	helper_stop(&fourth);
	/* of another domain */
	assert_true(other >= 0);
	assert_int_equal(dup2(other, domain_fd), domain_fd);
	fourth = helper_start();
	helper_can(&fourth, order(ORDER_OPEN, O_CREAT));
	assert_int_equal(helper_do(&fourth, order(ORDER_OPEN_QP, home_qp())).reason,
			 REASON_QP_OPEN_NONE);
	helper_stop(&fourth);
	close(other);
}

/* ---- domains ---- */

static struct report opened(struct helper *helper, int oflags)
{
	return helper_do(helper, order(ORDER_OPEN, (uint32_t)oflags));
}

static void a_domain_of_another_process_is_there_and_not_new(void **state)
{
	struct helper fourth = helper_start();

	assert_int_equal(opened(&fourth, O_CREAT | O_EXCL).reason, REASON_XRCD_EXISTS);
	assert_int_equal(opened(&fourth, O_CREAT | O_EXCL).error, EINVAL);
	assert_int_equal(opened(&fourth, 0).error, 0);
	helper_stop(&fourth);
}

static void a_domain_ends_with_the_last_process_that_has_it(void **state)
{
	struct helper fourth = helper_start();

	helper_kill(&home);
	helper_kill(&one);
	assert_int_equal(opened(&fourth, O_CREAT | O_EXCL).reason, REASON_XRCD_EXISTS);
	helper_can(&two, order(ORDER_CLOSE_SRQ, 0));
	helper_can(&two, order(ORDER_CLOSE_DOMAIN, 0));
	assert_int_equal(opened(&fourth, 0).reason, REASON_XRCD_NONE);
	assert_int_equal(opened(&fourth, O_CREAT | O_EXCL).error, 0);
	assert_int_equal(opened(&two, 0).error, 0);
	helper_stop(&fourth);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    SHARED_TEST(a_message_reaches_the_srq_of_another_process),
	    SHARED_TEST(each_of_three_gets_its_own),
	    SHARED_TEST(every_operation_meets_the_memory_of_that_process),
	    SHARED_TEST(a_stream_to_all_by_turns_comes_once_and_in_order),
	    SHARED_TEST(a_receiver_that_is_not_ready_is_waited_for),
	    SHARED_TEST(nobody_overtakes_one_that_waits),
	    SHARED_TEST(a_wrong_key_ends_the_connection_at_its_home),
	    SHARED_TEST(a_key_of_another_process_is_none),
	    SHARED_TEST(too_long_a_message_completes_in_error_there),
	    SHARED_TEST(an_srq_that_its_process_has_not_is_refused),
	    SHARED_TEST(an_srq_of_no_process_is_refused),
	    SHARED_TEST(an_srq_of_a_process_without_the_domain_is_refused),
	    SHARED_TEST(nor_does_it_wait_for_that_process),
	    SHARED_TEST(an_srq_that_went_is_refused),
	    SHARED_TEST(a_qp_that_is_reset_can_be_used_again),
	    SHARED_TEST(the_death_of_an_srqs_owner_is_its_own),
	    SHARED_TEST(an_owner_killed_in_a_stream_of_sends),
	    SHARED_TEST(an_owner_killed_in_a_stream_of_writes),
	    SHARED_TEST(the_death_of_the_home_leaves_the_srqs_to_others),
	    SHARED_TEST(a_child_keeps_no_line_open),
	    SHARED_TEST(a_qp_is_opened_asked_and_changed_from_another_process),
	    SHARED_TEST(a_qp_lives_as_long_as_somebody_has_it_open),
	    SHARED_TEST(all_who_have_it_open_get_its_events),
	    SHARED_TEST(a_qp_goes_on_when_its_creator_is_killed),
	    SHARED_TEST(a_qp_goes_on_when_its_creator_exits),
	    SHARED_TEST(a_qp_goes_on_when_its_creator_closes_the_device),
	    SHARED_TEST(a_qp_goes_from_one_to_the_next),
	    SHARED_TEST(all_hear_of_what_happens_to_it_elsewhere),
	    SHARED_TEST(who_did_not_run_hears_of_it_later),
	    SHARED_TEST(it_is_changed_by_whoever_has_it_open),
	    SHARED_TEST(the_home_is_killed_in_a_stream),
	    SHARED_TEST(the_slot_is_free_when_the_last_has_let_go),
	    SHARED_TEST(a_qp_that_is_not_there_is_not_opened),
	    SHARED_TEST(a_domain_of_another_process_is_there_and_not_new),
	    SHARED_TEST(a_domain_ends_with_the_last_process_that_has_it),
	};

	helper_if_told(argc, argv);
	return cmocka_run_group_tests(tests, helper_live_open, live_close);
}
