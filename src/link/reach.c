/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies between two processes. Two ways, as each is faster where the other is not: the descriptor
 * takes 1.2 us at best but goes through a page of the kernel's, and once for each piece;
 * process_vm_*() takes 1.6 us and copies once. On some machines that is faster for the shortest,
 * too: the first ones find out. Programs wait for the last byte of a WRITE, and processors may
 * store what is within one string instruction in any order: so the end of all but the shortest is a
 * copy of its own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "device/limits.h"
#include "device/memory.h"
#include "link/assist.h"
#include "link/clock.h"
#include "link/commons.h"
#include "link/detour.h"
#include "link/reach.h"
#include "link/syscalls.h"

enum {
	BY_DESCRIPTOR = 4096, /* and less */
	WHOLE = 64,	      /* so much needs no end of its own */
	END_BYTES = 8,
	RACE_RUNS = 16, /* of both ways together */
};

/* The two ways in turn; the least that each took, in ns. */
struct race {
	uint64_t least[2]; /* by descriptor, by number */
	unsigned int runs;
	bool is_by_number; /* the winner, once it is over */
};

struct reach {
	const struct directory *directory;
	struct directory_memo memo; /* of it */
	struct commons *commons;
	struct detour *detour;
	int memory_fd, lifeline;
	pid_t pid;	      /* 0: no process_vm_*() */
	pid_t number;	      /* for these: the process's, or one of its threads' (directory.h) */
	struct timespec seen; /* alive, by the coarse clock */
	struct race races[2]; /* of WRITEs, of READs */
};

struct reach *reach_open(const struct directory *directory, int memory_fd, int lifeline, pid_t pid)
{
	struct reach *reach = calloc(1, sizeof(*reach));
	struct commons *commons = commons_open();
	struct detour *detour = detour_open();

	if (!reach || !commons || !detour) {
		detour_close(detour);
		commons_close(commons);
		free(reach);
		return NULL;
	}
	*reach = (struct reach){
	    .directory = directory,
	    .commons = commons,
	    .detour = detour,
	    .memory_fd = memory_fd,
	    .lifeline = lifeline,
	    .pid = pid,
	};
	return reach;
}

void reach_close(struct reach *reach)
{
	if (!reach)
		return;
	munmap((void *)reach->directory, directory_bytes());
	commons_close(reach->commons);
	detour_close(reach->detour);
	close(reach->memory_fd);
	free(reach);
}

void reach_abandon(struct reach *reach)
{
	if (reach)
		close(reach->memory_fd);
}

bool reach_has_ended(int lifeline)
{
	struct pollfd line = {.fd = lifeline, .events = POLLIN};

	return poll(&line, 1, 0) > 0;
}

/* ---- copies ---- */

/* A WRITE's end is a piece of its own if it is long. */
static int split(const struct reach_op *op, struct iovec pieces[MAX_SGE + 1])
{
	int count = (int)op->count;
	struct iovec *last;

	for (int i = 0; i < count; i++)
		pieces[i] = op->pieces[i];
	last = &pieces[count - 1];
	if (op->is_read || op->bytes <= WHOLE || op->offset + op->bytes != op->length ||
	    last->iov_len <= END_BYTES)
		return count;
	last->iov_len -= END_BYTES;
	pieces[count] = (struct iovec){(char *)last->iov_base + last->iov_len, END_BYTES};
	return count + 1;
}

static bool is_copied(ssize_t done, const struct reach_op *op)
{
	return done >= 0 && (uint64_t)done == op->bytes;
}

/* One piece alone is 0.1 us faster than a list of one. */
static ssize_t by_descriptor_one(int fd, const struct iovec *piece, bool is_read, off_t at)
{
	return is_read ? file_read(fd, piece->iov_base, piece->iov_len, at)
		       : file_write(fd, piece->iov_base, piece->iov_len, at);
}

static bool by_descriptor(const struct reach *reach, const struct iovec *pieces, int count,
			  const struct reach_op *op, uint64_t place)
{
	int fd = reach->memory_fd;
	off_t at = (off_t)place;
	ssize_t done;

	if (count == 1)
		done = by_descriptor_one(fd, pieces, op->is_read, at);
	else
		done = op->is_read ? preadv(fd, pieces, count, at) : pwritev(fd, pieces, count, at);
	return is_copied(done, op);
}

/* The owner's word for it is not enough: a thread, but of that process. */
static pid_t number_of(const struct reach *reach)
{
	pid_t sleeper = directory_sleeper(reach->directory);

	return reach->pid && sleeper > 0 && tgkill(reach->pid, sleeper, 0) == 0 ? sleeper
										: reach->pid;
}

/* A number may be another process's by the time that this one, or its thread, is gone, but not so
 * soon. */
bool reach_is_there(struct reach *reach)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	if (now.tv_sec == reach->seen.tv_sec && now.tv_nsec == reach->seen.tv_nsec)
		return true;
	if (reach_has_ended(reach->lifeline))
		return false;
	reach->seen = now;
	reach->number = number_of(reach);
	return true;
}

/* The kernel looks up the other side's pages once for each piece there, and copies once for each
 * piece on either side: so what is to be split is split here. */
static ssize_t by_number_only(const struct reach *reach, bool is_read, const struct iovec *here,
			      unsigned long count, const struct iovec *there, unsigned long those)
{
	return is_read ? process_vm_readv(reach->number, here, count, there, those, 0)
		       : process_vm_writev(reach->number, here, count, there, those, 0);
}

/* A thread may have ended, or have another user than its process. */
static ssize_t by_number(struct reach *reach, bool is_read, const struct iovec *here, int count,
			 const struct iovec *there, int those)
{
	unsigned long pieces = (unsigned long)count, others = (unsigned long)those;
	ssize_t done = by_number_only(reach, is_read, here, pieces, there, others);

	if (done >= 0 || (errno != ESRCH && errno != EPERM) || reach->number == reach->pid)
		return done;
	reach->number = reach->pid;
	return by_number_only(reach, is_read, here, pieces, there, others);
}

bool reach_is_by_number(const struct reach *reach)
{
	return reach->pid;
}

/* By number as long as we may. */
static bool by_either(struct reach *reach, const struct iovec *pieces, int count,
		      const struct reach_op *op, uint64_t place)
{
	struct iovec there = {(void *)(uintptr_t)place, op->bytes};
	ssize_t done;

	if (!reach->pid)
		return by_descriptor(reach, pieces, count, op, place);
	if (!reach_is_there(reach))
		return false;
	done = by_number(reach, op->is_read, pieces, count, &there, 1);
	if (done >= 0 || (errno != EPERM && errno != ENOSYS && errno != ESRCH))
		return is_copied(done, op);
	reach->pid = 0;
	return by_descriptor(reach, pieces, count, op, place);
}

/* One more run took that long. What is nearly as fast as the descriptor is not worth a change. */
static void note_run(struct race *race, uint64_t ns)
{
	uint64_t *least = &race->least[race->runs % 2];

	if (race->runs < 2 || ns < *least)
		*least = ns;
	if (++race->runs == RACE_RUNS)
		race->is_by_number = race->least[1] < race->least[0] - race->least[0] / 8;
}

static bool copy_short(struct reach *reach, const struct iovec *piece, const struct reach_op *op,
		       uint64_t place)
{
	struct race *race = &reach->races[op->is_read];
	bool is_run = race->runs < RACE_RUNS && op->bytes <= WHOLE && reach->pid;
	bool is_by_number = is_run ? race->runs % 2 : race->is_by_number, is_done;
	uint64_t began = is_run ? clock_ns() : 0;

	is_done = is_by_number ? by_either(reach, piece, 1, op, place)
			       : by_descriptor(reach, piece, 1, op, place);
	if (is_run)
		note_run(race, clock_ns() - began);
	return is_done;
}

static bool copy_straight(void *context, const struct reach_op *op, uint64_t place)
{
	struct reach *reach = context;
	struct iovec pieces[MAX_SGE + 1];
	int count = split(op, pieces);

	if (op->bytes <= BY_DESCRIPTOR && count == 1)
		return copy_short(reach, pieces, op, place);
	return by_either(reach, pieces, count, op, place);
}

bool reach_copy(struct reach *reach, const struct reach_op *op, uint64_t place)
{
	if (reach->pid && detour_pays(op, place))
		return detour_copy(reach->detour, op, place, copy_straight, reach);
	return copy_straight(reach, op, place);
}

/* Of which no end is anybody's to wait for. */
static struct reach_op op_of(bool is_read, const struct iovec *piece)
{
	return (struct reach_op){
	    .is_read = is_read,
	    .length = piece->iov_len + 1,
	    .bytes = piece->iov_len,
	    .pieces = piece,
	    .count = 1,
	};
}

static bool is_straight(bool is_read, const struct reach_spans *spans, uint64_t *bytes)
{
	bool is = spans->count > 1;

	*bytes = 0;
	for (uint32_t i = 0; i < spans->count; i++) {
		struct reach_op op = op_of(is_read, &spans->here[i]);

		is &= !detour_pays(&op, (uintptr_t)spans->there[i].iov_base);
		*bytes += op.bytes;
	}
	return is;
}

/* What does not work at once is tried one by one. */
bool reach_copy_all(struct reach *reach, bool is_read, const struct reach_spans *spans)
{
	int count = (int)spans->count;
	uint64_t bytes;

	if (reach->pid && is_straight(is_read, spans, &bytes) && reach_is_there(reach) &&
	    by_number(reach, is_read, spans->here, count, spans->there, count) == (ssize_t)bytes)
		return true;
	for (int i = 0; i < count; i++) {
		struct reach_op op = op_of(is_read, &spans->here[i]);

		if (op.bytes && !reach_copy(reach, &op, (uintptr_t)spans->there[i].iov_base))
			return false;
	}
	return true;
}

bool reach_asks(struct reach *reach, const struct directory_question *question, uint64_t *place)
{
	struct directory_answer answer;
	bool may = directory_recall(reach->directory, &reach->memo, question, &answer);

	*place = may ? answer.place : 0;
	return may;
}

static bool copy_piece(const struct iovec *piece, bool is_read, char *at)
{
	return !(is_read ? memory_move(piece->iov_base, at, piece->iov_len)
			 : memory_move(at, piece->iov_base, piece->iov_len));
}

/* What lies in memory that both have, or within the process. */
static bool copy_here(const struct reach_op *op, char *at)
{
	for (uint32_t i = 0; i < op->count; i++) {
		if (!copy_piece(&op->pieces[i], op->is_read, at))
			return false;
		at += op->pieces[i].iov_len;
	}
	return true;
}

static char *find_common(struct reach *reach, const struct directory_question *question,
			 const struct directory_answer *answer, bool is_prompt)
{
	const struct commons_place *place = &answer->commons;

	if (!place->number || !reach->pid || (is_prompt && !commons_has(reach->commons, place)))
		return NULL;
	return commons_find(reach->commons, place, question->length, reach->pid, reach->lifeline);
}

static enum reach_result do_it(struct reach *reach, struct assist *assist,
			       const struct directory_question *question,
			       const struct directory_answer *answer, const struct reach_op *op)
{
	char *common = find_common(reach, question, answer, op->is_prompt);
	uint64_t place = answer->place + op->offset;
	enum reach_result result;

	if (common)
		return copy_here(op, common + op->offset) ? REACH_DONE : REACH_REFUSED;
	if (op->is_prompt || (op->is_fetch && !reach->pid))
		return REACH_REFUSED;
	if (bundle_has(&assist->bundle, question, op))
		return REACH_DONE;
	if (reach->pid &&
	    (assist_bundles(assist, reach, question, op) || assist_is_for(assist, question, op)))
		result = assist_do(assist, reach, question, op, place);
	else
		result = reach_copy(reach, op, place) ? REACH_DONE : REACH_REFUSED;
	assist_end(assist, result == REACH_DONE);
	return result;
}

/* What was fetched is what was sent only if the sender has not given it up meanwhile. */
bool reach_is_withdrawn(struct reach *reach, const struct directory_question *question)
{
	uint64_t place;

	atomic_thread_fence(memory_order_acquire);
	return !reach_asks(reach, question, &place);
}

/* Against the owner, who withdraws and then looks here: one of the two sees the other. On x86-64 a
 * locked instruction is the fence. */
static void enter(atomic_uint *hazard)
{
	atomic_fetch_add(hazard, 1);
#ifdef __x86_64__
	atomic_signal_fence(memory_order_seq_cst);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* With its lane's lock nobody else writes to it, and what was copied comes before. */
static void leave(atomic_uint *hazard)
{
	unsigned int entered = atomic_load_explicit(hazard, memory_order_relaxed);

	atomic_store_explicit(hazard, entered + 1, memory_order_release);
}

enum reach_result reach_do(struct reach *reach, atomic_uint *hazard, struct assist *assist,
			   const struct directory_question *question, const struct reach_op *op)
{
	enum reach_result result = REACH_REFUSED;
	struct directory_answer answer;

	enter(hazard);
	if (directory_recall(reach->directory, &reach->memo, question, &answer))
		result = do_it(reach, assist, question, &answer, op);
	if (result == REACH_DONE && op->is_fetch && reach_is_withdrawn(reach, question))
		result = REACH_REFUSED;
	leave(hazard);
	return result;
}

/* ---- again ---- */

static bool is_of(const struct reach_memo *memo, const struct reach_op *op)
{
	uint64_t into = op->remote_addr - memo->iova;
	uint32_t need = op->is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;

	return memo->rkey == op->rkey && memo->access & need && into <= memo->length &&
	       op->length <= memo->length - into;
}

static bool holds(const struct reach *reach, const struct reach_memo *memo)
{
	return directory_is_unchanged(&memo->stamp) &&
	       commons_changes(reach->commons) == memo->changes;
}

enum reach_result reach_again(const struct reach *reach, atomic_uint *hazard,
			      const struct reach_memo *memo, const struct reach_op *op)
{
	char *place;
	bool is_done;

	if (!is_of(memo, op))
		return REACH_REFUSED;
	place = memo->start + (op->remote_addr - memo->iova) + op->offset;
	enter(hazard);
	is_done = holds(reach, memo) && copy_here(op, place);
	leave(hazard);
	return is_done ? REACH_DONE : REACH_REFUSED;
}

/* What reach_do() found holds for this QP, for it has looked at who asked. */
void reach_remember(const struct reach *reach, const struct directory_question *question,
		    struct reach_memo *memo)
{
	const struct directory_mr *mr = &reach->memo.mr;
	struct commons_place base = mr->commons;
	char *start = NULL;

	if (mr->rkey == question->rkey && base.number && reach->pid &&
	    commons_has(reach->commons, &base))
		start =
		    commons_find(reach->commons, &base, mr->length, reach->pid, reach->lifeline);
	*memo = (struct reach_memo){.rkey = 0};
	if (!start)
		return;
	*memo = (struct reach_memo){
	    .stamp = reach->memo.stamp,
	    .changes = commons_changes(reach->commons),
	    .start = start,
	    .iova = mr->iova,
	    .length = mr->length,
	    .rkey = mr->rkey,
	    .access = mr->access & reach->memo.qp.access,
	};
}

bool reach_is_common(const struct reach *reach, uint32_t rkey)
{
	return reach->pid && directory_is_common(reach->directory, rkey);
}

bool reach_do_own(const struct directory *directory, const struct directory_question *question,
		  const struct reach_op *op)
{
	struct directory_answer answer;

	return directory_ask(directory, question, &answer) &&
	       copy_here(op, (char *)(uintptr_t)(answer.place + op->offset));
}
