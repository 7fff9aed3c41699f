/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What pays only where something else comes soon, as to look a while before sleeping: it is begun
 * where several signs say that it would and hardly any that not, and given up where it was in vain
 * three times in a row. Each time it then takes twice as many signs to begin again, until it has
 * paid for a while.
 */
#ifndef ENGINE_HABIT_H
#define ENGINE_HABIT_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed at first. */
struct habit {
	uint32_t signs;	 /* less those that spoke against it */
	uint32_t needed; /* of them, more than at first */
	uint32_t misses, hits;
};

/* To be done now. */
bool habit_holds(const struct habit *habit);

/* It would have paid, had it been done, or not, which takes back as many as are needed at first. */
void habit_sign(struct habit *habit, bool would_pay);

/* It was done, and has paid, or was in vain. */
void habit_tried(struct habit *habit, bool has_paid);

/* To do it was wrong, and is not to be tried again soon. */
void habit_give_up(struct habit *habit);

#endif
