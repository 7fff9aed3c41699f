/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of attendance.h, without a clock.
 */
#include "engine/attendance.h"

enum {
	PATIENCE_NS = 200000,	/* several copies alone, while it was elsewhere for a moment */
	LOOK_NS = 20000,	/* most of one look, in vain */
	COPY_NS = 20000000,	/* one of them, on a slow machine */
	PAUSE_NS = 5000,	/* longer than the initiator of a stream needs for its next copy */
	FIRST_YIELD_NS = 50000, /* who has been preempted waits for it */
	YIELD_NS = 1000000,
};

static void is_of_use(struct attendance *attendance, uint64_t now)
{
	attendance->patience = PATIENCE_NS;
	attendance->looked = now;
	attendance->wait_until = now + COPY_NS;
	attendance->pause = now + PAUSE_NS;
}

void attendance_begin(struct attendance *attendance, uint64_t now)
{
	if (attendance->is_on)
		return;
	attendance->is_on = true;
	attendance->was_busy = false;
	attendance->was_computed = false;
	attendance->yield_at = now + FIRST_YIELD_NS;
	is_of_use(attendance, now);
}

bool attendance_looked(struct attendance *attendance, bool has_helped, uint64_t now)
{
	uint64_t took = now - attendance->looked;

	if (has_helped) {
		is_of_use(attendance, now);
		return false;
	}
	if (took > LOOK_NS)
		took = LOOK_NS;
	attendance->patience -= took < attendance->patience ? took : attendance->patience;
	attendance->looked = now;
	return now >= attendance->pause || now >= attendance->yield_at;
}

void attendance_awaits(struct attendance *attendance, uint64_t now)
{
	if (now < attendance->wait_until)
		attendance->patience = PATIENCE_NS;
}

void attendance_yielded(struct attendance *attendance, enum perch_use use, uint64_t now)
{
	attendance->yield_at = now + YIELD_NS;
	attendance->was_busy = use == PERCH_COMPUTED && attendance->was_computed;
	attendance->was_computed = use == PERCH_COMPUTED;
	if (attendance->was_busy)
		attendance->is_on = false;
}

void attendance_end(struct attendance *attendance)
{
	attendance->is_on = false;
}
