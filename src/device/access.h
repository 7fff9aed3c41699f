/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer's access to memory: an rkey, which is a region's or a window's, resolved, and what has to
 * be held until the last byte is copied. All under the QP's lane's lock.
 */
#ifndef DEVICE_ACCESS_H
#define DEVICE_ACCESS_H

#include <stdint.h>

#include "explain/reason.h"

struct mw;
struct pd;
struct qp;

struct access {
	char *place;
	uint64_t length;
	struct mw *window; /* held */
};

/*
 * Resolves `length` bytes at `addr` for a request to `qp` and `pd` (the QP's, or of XRC the SRQ's)
 * that needs the rights `need` (IBV_ACCESS_REMOTE_*). REASON_NONE, and then access_end() has to
 * follow; or the reason, not noted. A length of 0 passes any key (9.4.1.1.3).
 */
enum reason access_begin(const struct qp *qp, const struct pd *pd, uint32_t rkey, uint64_t addr,
			 uint64_t length, unsigned int need, struct access *access);

/* The same for all that the key names: FLUSH with the level IBV_FLUSH_MR. */
enum reason access_begin_whole(const struct qp *qp, const struct pd *pd, uint32_t rkey,
			       unsigned int need, struct access *access);
void access_end(struct access *access);

/* Only whether it would be allowed. */
enum reason access_check(const struct qp *qp, const struct pd *pd, uint32_t rkey, uint64_t addr,
			 uint64_t length, unsigned int need);

/* Takes back what an rkey names: REASON_NONE, or why not. */
enum reason access_invalidate(const struct qp *qp, const struct pd *pd, uint32_t rkey);

#endif
