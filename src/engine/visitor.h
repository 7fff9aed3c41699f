/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an opening and its QP's home say to each other, and how the mail thread gets at both.
 */
#ifndef ENGINE_VISITOR_H
#define ENGINE_VISITOR_H

#include "engine/opening.h"

enum visitor_kind { VISITOR_QUERY = 1, VISITOR_MODIFY, VISITOR_LEAVE };

struct visitor_call {
	uint32_t kind;
	int mask;
	struct ibv_qp_attr attr;
};

struct visitor_answer {
	int error; /* a positive errno, its reason and live values */
	uint32_t reason;
	char live[160];
	struct ibv_qp_attr attr; /* as it is now */
};

/* opening.c: events of openings. The lists' lock is held for the first, the call lock for the
 * second, which says whether the descriptor is an opening's. */
unsigned int opening_fds(const struct openings *openings, struct pollfd *fds, unsigned int room);
bool opening_hear(struct openings *openings, int fd);

#endif
