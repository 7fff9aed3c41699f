/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of habit.h.
 */
#include "engine/habit.h"

enum { SIGNS_MIN = 4, NEEDED_MAX = 256, MISSES_MAX = 3, HITS_MAX = 16 };

bool habit_holds(const struct habit *habit)
{
	return habit->signs >= SIGNS_MIN + habit->needed;
}

void habit_sign(struct habit *habit, bool would_pay)
{
	if (!would_pay)
		habit->signs -= habit->signs < SIGNS_MIN ? habit->signs : SIGNS_MIN;
	else if (!habit_holds(habit))
		habit->signs++;
}

void habit_give_up(struct habit *habit)
{
	habit->misses = habit->hits = habit->signs = 0;
	habit->needed = habit->needed ? 2 * habit->needed : SIGNS_MIN;
	if (habit->needed > NEEDED_MAX)
		habit->needed = NEEDED_MAX;
}

void habit_tried(struct habit *habit, bool has_paid)
{
	if (has_paid) {
		habit->misses = 0;
		if (++habit->hits == HITS_MAX) {
			habit->hits = 0;
			habit->needed /= 2;
		}
		return;
	}
	habit->hits = 0;
	if (++habit->misses == MISSES_MAX)
		habit_give_up(habit);
}
