/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When the ACK of what a lane's thread took in waits for the program's reply: the rules of
 * engine/reply.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/reply.h"

/* Packets, each of them answered, until an ACK may wait. */
static unsigned int packets_until_it_is_likely(struct reply *reply)
{
	unsigned int packets = 1;

	for (; !reply_is_likely(reply, reply->posts + 1); packets++)
		assert_true(packets < 10000);
	return packets;
}

static void miss(struct reply *reply, unsigned int times)
{
	for (; times; times--)
		reply_was_awaited(reply, false);
}

static void a_target_that_posts_nothing_acknowledges_at_once(void **state)
{
	struct reply reply = {0};

	for (int i = 0; i < 1000; i++)
		assert_false(reply_is_likely(&reply, 0));
}

static void an_ack_waits_where_each_of_four_was_answered(void **state)
{
	struct reply reply = {0};

	assert_int_equal(packets_until_it_is_likely(&reply), 4);
	assert_true(reply_is_likely(&reply, reply.posts + 1));
	assert_false(reply_is_likely(&reply, reply.posts));
	assert_int_equal(packets_until_it_is_likely(&reply), 4);
}

static void waiting_in_vain_is_given_up_for_longer_but_not_for_long(void **state)
{
	struct reply reply = {0};

	packets_until_it_is_likely(&reply);
	miss(&reply, 2);
	assert_true(reply_is_likely(&reply, reply.posts + 1));
	miss(&reply, 1);
	assert_int_equal(packets_until_it_is_likely(&reply), 8);
	miss(&reply, 3);
	assert_int_equal(packets_until_it_is_likely(&reply), 12);
	for (int i = 0; i < 100; i++)
		miss(&reply, 3);
	assert_int_equal(packets_until_it_is_likely(&reply), 4 + 32);
}

static void replies_that_come_make_up_for_it(void **state)
{
	struct reply reply = {0};

	miss(&reply, 9);
	assert_int_equal(packets_until_it_is_likely(&reply), 4 + 16);
	for (int i = 0; i < 100; i++) {
		miss(&reply, 1);
		reply_was_awaited(&reply, true);
	}
	assert_true(reply_is_likely(&reply, reply.posts + 1));
	for (int i = 0; i < 5 * 16; i++)
		reply_was_awaited(&reply, true);
	miss(&reply, 3);
	assert_int_equal(packets_until_it_is_likely(&reply), 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_target_that_posts_nothing_acknowledges_at_once),
	    cmocka_unit_test(an_ack_waits_where_each_of_four_was_answered),
	    cmocka_unit_test(waiting_in_vain_is_given_up_for_longer_but_not_for_long),
	    cmocka_unit_test(replies_that_come_make_up_for_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
