/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of calling.h.
 */
#include "engine/calling.h"

enum {
	VAIN_MAX = 8,
	NEEDLESS_MAX = 64,
	LAST_POLLS = 2, /* by which it finds that there is no more */
};

bool calling_begin(struct calling *calling)
{
	if (calling->is_on || calling->vain >= VAIN_MAX)
		return false;
	calling->is_on = true;
	return true;
}

void calling_let(struct calling *calling, uint32_t polls, uint32_t posts)
{
	calling->polls = polls;
	calling->posts = posts;
}

static bool is_in_memory(const struct calling *calling, uint32_t polls, uint32_t posts)
{
	return posts == calling->posts && polls - calling->polls <= LAST_POLLS;
}

void calling_came(struct calling *calling, bool has_found, uint32_t polls, uint32_t posts)
{
	if (!has_found) {
		if (++calling->vain >= VAIN_MAX)
			calling->is_on = false;
		return;
	}
	calling->vain = 0;
	if (is_in_memory(calling, polls, posts)) {
		calling->needless = 0;
	} else if (++calling->needless == NEEDLESS_MAX) {
		calling->needless = 0;
		calling->is_on = false;
	}
}

void calling_forget(struct calling *calling)
{
	calling->vain = 0;
}
