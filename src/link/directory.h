/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a process lets others of its host reach without asking it: its connected QPs and the memory
 * regions that they lead to, in one piece of memory that it writes and they read. QPs are found by
 * the low bits of their numbers, regions by those of their keys' indices; what finds its place
 * taken is not published, and is reached by packets.
 *
 * An entry is there while its version is not 0. Readers copy it and then look whether the version
 * is still the same. Who withdraws one has to wait for those who read it before (samehost.h).
 */
#ifndef LINK_DIRECTORY_H
#define LINK_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <sys/types.h>

#include "link/commons.h"

struct directory;

struct directory_qp {
	uint32_t qpn, dest_qpn;
	union ibv_gid gid, dest_gid;
	uint64_t pd; /* the same for all objects of a PD, and for no others */
	uint32_t
	    access; /* IBV_ACCESS_REMOTE_WRITE, _READ, REACH_SENDS: what may be done without it */
	uint32_t pkey;
};

struct directory_mr {
	uint64_t pd;
	uint64_t base, iova, length;
	uint32_t rkey, access;
	struct commons_place commons; /* of the base */
};

/* Zeroed memory of this size is an empty one. Most of it is never touched. */
size_t directory_bytes(void);

/*
 * A thread of the owner's that sleeps nearly always; 0: none. Any thread says so.
 *
 * The kernel counts who looks a thread up in the thread itself, in a line that each of its system
 * calls needs. So who copies names this one, and not the program's own, which may poll.
 */
void directory_say_sleeper(struct directory *directory, pid_t thread);
pid_t directory_sleeper(const struct directory *directory); /* what it says: not to be trusted */

/* The owner's, one at a time. False: the place is taken. What is withdrawn was published. */
bool directory_publish_qp(struct directory *directory, const struct directory_qp *qp);
void directory_withdraw_qp(struct directory *directory, uint32_t qpn);
bool directory_publish_mr(struct directory *directory, const struct directory_mr *mr);
void directory_withdraw_mr(struct directory *directory, uint32_t rkey);

/*
 * Whether a QP may do this to the memory behind an rkey of the directory's owner, and where that
 * memory lies, in its process and in a file. All that the responder would check, but for what is in
 * the packets.
 */
struct directory_question {
	uint32_t qpn, dest_qpn; /* who asks, and its peer */
	union ibv_gid gid, dest_gid;
	uint16_t pkey;
	uint32_t rkey;
	unsigned int
	    need; /* IBV_ACCESS_REMOTE_WRITE or _READ; REACH_SENDS needs no region's right */
	uint64_t addr, length;
};

struct directory_answer {
	uint64_t place;
	struct commons_place commons;
};

bool directory_ask(const struct directory *directory, const struct directory_question *question,
		   struct directory_answer *answer);

/*
 * The same for who asks often: what was read last is kept, and read again when it has changed
 * since. Zeroed: nothing is kept. A directory has memos of its own.
 */
struct directory_memo {
	struct directory_stamp {
		const void *qp_entry, *mr_entry; /* NULL: none */
		unsigned int qp_version, mr_version;
	} stamp;
	struct directory_qp qp;
	struct directory_mr mr;
};

bool directory_recall(const struct directory *directory, struct directory_memo *memo,
		      const struct directory_question *question, struct directory_answer *answer);

/* Whether both entries are still what they were then. */
bool directory_is_unchanged(const struct directory_stamp *stamp);

/* A guess, without any of that: whether what the rkey leads to lies in a file. */
bool directory_is_common(const struct directory *directory, uint32_t rkey);

#endif
