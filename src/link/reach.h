/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of another process of this host, as far as its directory lets us at it: WRITE and READ
 * straight into what it has registered, by a descriptor of its /proc/self/mem, which it gave us, or
 * by process_vm_writev() and _readv(). It need not run for that.
 *
 * It may withdraw what we are about to use. So there is a word in shared memory, the hazard, that
 * is odd from before we look until after we have copied: who has withdrawn something waits until
 * each word that it then finds odd has changed.
 */
#ifndef LINK_REACH_H
#define LINK_REACH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "link/directory.h"
#include "transport/reach.h"

struct assist;
struct reach;

/*
 * `directory` is mapped memory of directory_bytes(); it and the descriptor become the reach's own.
 * `lifeline` is a socket that hangs up when the process is gone, and stays the caller's. `pid` is 0
 * where it has none for us. NULL without memory.
 */
struct reach *reach_open(const struct directory *directory, int memory_fd, int lifeline, pid_t pid);
void reach_close(struct reach *reach);

/* In the child of a fork: closes the descriptor alone. */
void reach_abandon(struct reach *reach);

/* Checks and copies, together with the other side if that polls. One at a time. */
enum reach_result reach_do(struct reach *reach, atomic_uint *hazard, struct assist *assist,
			   const struct directory_question *question, const struct reach_op *op);

/*
 * What the directory said last of a QP and a region in memory that both have, for who asks again: a
 * look at the versions of both entries, and a copy. Zeroed: of nothing. It is one QP's, with the
 * attributes that this had then, and one reach's; who has it forgets it when either changes.
 */
struct reach_memo {
	struct directory_stamp stamp;
	uint64_t changes;      /* of what is mapped */
	char *start;	       /* of the region, here */
	uint64_t iova, length; /* of the region */
	uint32_t rkey, access; /* 0: of nothing */
};

/* The same as reach_do() by a memo. REACH_REFUSED: it is to be asked anew. */
enum reach_result reach_again(const struct reach *reach, atomic_uint *hazard,
			      const struct reach_memo *memo, const struct reach_op *op);

/* Where it would do that, for who asks for the cache line ahead: unchecked, and not to be touched.
 * NULL if it would not. */
static inline const char *reach_guess(const struct reach_memo *memo, uint64_t remote_addr)
{
	uint64_t into = remote_addr - memo->iova;

	return into < memo->length ? memo->start + into : NULL;
}

/* After reach_do(): remembers what that found, if it is of this kind. */
void reach_remember(const struct reach *reach, const struct directory_question *question,
		    struct reach_memo *memo);

/* The copy alone, of what `op` says but for where: `place` there. */
bool reach_copy(struct reach *reach, const struct reach_op *op, uint64_t place);

enum { REACH_SPANS = 8 };

/* What is of the same length here and there. */
struct reach_spans {
	struct iovec here[REACH_SPANS], there[REACH_SPANS];
	uint32_t count;
};

/* Copies them in this order, by one system call if it can. */
bool reach_copy_all(struct reach *reach, bool is_read, const struct reach_spans *spans);

/* Whether the peer's directory allows that, and where it is; and, after a copy, whether it does no
 * more. The hazard is odd. */
bool reach_asks(struct reach *reach, const struct directory_question *question, uint64_t *place);
bool reach_is_withdrawn(struct reach *reach, const struct directory_question *question);

/* A guess: what the key leads to costs no system call (commons.h). */
bool reach_is_common(const struct reach *reach, uint32_t rkey);

/* Whether long copies are fast; whether the process was still there a moment ago. */
bool reach_is_by_number(const struct reach *reach);
bool reach_is_there(struct reach *reach);

/* The process at the other end of this lifeline is gone, and copies no more. */
bool reach_has_ended(int lifeline);

/* The same within the process, whose hazard is the lock that the caller holds. */
bool reach_do_own(const struct directory *directory, const struct directory_question *question,
		  const struct reach_op *op);

#endif
