/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies to and from another process are the kernel's, and are by the string instruction. On some
 * processors (Zen 4) that takes four to five times as long where the target lies up to 15 bytes
 * further on in its page than the source does. Such a copy goes by way of memory of ours that lies
 * in its page as the other process's does, and between that and the program's we copy otherwise.
 */
#ifndef LINK_DETOUR_H
#define LINK_DETOUR_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/reach.h"

enum { DETOUR_BYTES = 64 << 10 }; /* at a time: they stay in the second-level cache */

struct detour;

/* One copy at a time. NULL without memory. */
struct detour *detour_open(void);
void detour_close(struct detour *detour);

/* Whether one of the pieces lies so with regard to `place`, an address there, and is long. */
bool detour_pays(const struct reach_op *op, uint64_t place);

/* A part of what is to be copied, from or to one piece that lies well. False: not done. */
typedef bool detour_leg(void *context, const struct reach_op *part, uint64_t place);

/* All of it, in parts. False: not all is done, as a leg said so or the program's memory is not
 * there. */
bool detour_copy(struct detour *detour, const struct reach_op *op, uint64_t place, detour_leg *leg,
		 void *context);

#endif
