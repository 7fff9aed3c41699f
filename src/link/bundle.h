/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of a stream that are fetched together: each system call costs as much as some ten KiB,
 * whatever it copies, so two who share the work (assist.h) have a half of each of several messages
 * by one call. Their order is kept where it can be seen: of receives that have one and the same
 * place, which is what the last of them holds then, each half goes there in that order; those that
 * overlap otherwise are not bundled.
 *
 * The first of them is who was asked for; of the others it is known that they are there when they
 * are.
 */
#ifndef LINK_BUNDLE_H
#define LINK_BUNDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "link/directory.h"
#include "transport/reach.h"

struct reach;

enum {
	BUNDLE_OTHERS = 7,
	BUNDLE_LEAST = 16 << 10,  /* bytes of each, at least; */
	BUNDLE_LESS = 192 << 10,  /* more of one is shared by itself; */
	BUNDLE_BYTES = 512 << 10, /* of all, at most: the lane's lock is held */
};

/* Zeroed there is none. */
struct bundle {
	struct bundled {
		struct directory_question question;
		uint64_t place; /* in the other process */
		char *here;
		uint32_t psn;
	} others[BUNDLE_OTHERS];
	uint32_t count;	     /* of others, with the one at hand */
	uint32_t next, done; /* others that are done and have not been asked for: from next on */
};

/* Whether this is one that others may go with. */
bool bundle_may(const struct reach_op *op);

/* Whether some do, as far as the peer's directory allows it, and which. What is done of earlier
 * ones is forgotten. */
bool bundle_gather(struct bundle *bundle, struct reach *reach,
		   const struct directory_question *question, const struct reach_op *op);

/* Of all that is at hand. */
uint64_t bundle_bytes(const struct bundle *bundle, const struct reach_op *op);

/* All is copied, and none is at hand any more. What was withdrawn meanwhile does not count. */
void bundle_is_done(struct bundle *bundle, struct reach *reach);

/* Whether this one is done; it is asked for once. */
bool bundle_has(struct bundle *bundle, const struct directory_question *question,
		const struct reach_op *op);

/* This QP asks for none any more. */
void bundle_forget(struct bundle *bundle, uint32_t qpn);

#endif
