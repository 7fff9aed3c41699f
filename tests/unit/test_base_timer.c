/* SPDX-License-Identifier: BSD-2-Clause */
/* The heap of deadlines against a plain search, over many random schedules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/timer.h"

enum { TIMERS = 100 };

static uint64_t earliest(const struct timer *timers)
{
	uint64_t first = UINT64_MAX;

	for (int i = 0; i < TIMERS; i++)
		if (timers[i].place && timers[i].deadline < first)
			first = timers[i].deadline;
	return first;
}

static void timers_come_due_in_order(void **state)
{
	struct timer timers[TIMERS] = {0};
	struct timer_queue queue;

	timer_queue_init(&queue);
	assert_int_equal(timer_queue_reserve(&queue, TIMERS), 0);
	srand(7);
	for (int step = 0; step < 20000; step++) {
		struct timer *timer = &timers[rand() % TIMERS];
		uint64_t deadline = 1 + (uint64_t)rand() % 1000, before = timer->deadline;
		bool was_in = timer->place;

		switch (rand() % 4) {
		case 0:
			timer_cancel(&queue, timer);
			assert_int_equal(timer->place, 0);
			break;
		case 1: {
			uint64_t now = (uint64_t)rand() % 1000, first = earliest(timers);
			struct timer *due = timer_take_due(&queue, now);

			assert_int_equal(due != NULL, first <= now);
			if (due)
				assert_int_equal(due->deadline, first);
			break;
		}
		default:
			timer_set(&queue, timer, deadline);
			assert_int_equal(timer->deadline,
					 was_in && before < deadline ? before : deadline);
		}
		assert_int_equal(timer_first(&queue), earliest(timers));
	}
	timer_queue_fini(&queue);
}

static void no_deadline_sets_nothing(void **state)
{
	struct timer timer = {0};
	struct timer_queue queue;

	timer_queue_init(&queue);
	assert_int_equal(timer_queue_reserve(&queue, 1), 0);
	timer_set(&queue, &timer, UINT64_MAX);
	assert_int_equal(timer_first(&queue), UINT64_MAX);
	assert_null(timer_take_due(&queue, UINT64_MAX - 1));
	timer_queue_fini(&queue);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(timers_come_due_in_order),
	    cmocka_unit_test(no_deadline_sets_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
