/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of reply.h, without a clock.
 */
#include "engine/reply.h"

/* Without the wait each message is a wake-up at both ends, which is longer than the wait. */
enum { NEEDED_MAX = 32 };

bool reply_is_likely(struct reply *reply, uint32_t posts)
{
	habit_sign(&reply->habit, posts != reply->posts);
	reply->posts = posts;
	return habit_holds(&reply->habit);
}

void reply_was_awaited(struct reply *reply, bool has_come)
{
	habit_tried(&reply->habit, has_come);
	if (reply->habit.needed > NEEDED_MAX)
		reply->habit.needed = NEEDED_MAX;
}
