/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of reply.h, without a clock.
 */
#include "engine/reply.h"

enum { ANSWERED_MIN = 4, NEEDED_MAX = 1024, MISSES_MAX = 3, HITS_MAX = 16 };

static bool is_usual(const struct reply *reply)
{
	return reply->answered >= ANSWERED_MIN + reply->needed;
}

bool reply_is_likely(struct reply *reply, uint32_t posts)
{
	if (posts == reply->posts)
		reply->answered = 0;
	else if (!is_usual(reply))
		reply->answered++;
	reply->posts = posts;
	return is_usual(reply);
}

void reply_was_awaited(struct reply *reply, bool has_come)
{
	if (has_come) {
		reply->misses = 0;
		if (++reply->hits >= HITS_MAX) {
			reply->hits = 0;
			reply->needed /= 2;
		}
		return;
	}
	reply->hits = 0;
	if (++reply->misses < MISSES_MAX)
		return;
	reply->misses = reply->answered = 0;
	reply->needed = reply->needed ? 2 * reply->needed : ANSWERED_MIN;
	if (reply->needed > NEEDED_MAX)
		reply->needed = NEEDED_MAX;
}
