/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests of copies that two do: a board and the memory of both. Initiator and helper are threads
 * of one process here, which reaches itself as it would another one.
 */
#ifndef TEST_ASSIST_BOARD_H
#define TEST_ASSIST_BOARD_H

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "link/assist.h"
#include "link/reach.h"

enum {
	QPN = 0x30011,
	PEER = 0x50022,
	RKEY = 0x7abc,
	REGION = 3 << 20,
	MARGIN = 4096, /* around what is copied: nothing of it may change */
	MIB = 1 << 20,
	LONG = 300000,
};

static struct directory *directory; /* the helper's own */
static struct directory *asked;	    /* the same, as the initiator sees it */
static struct assist_board *board;
static struct reach *reach; /* the initiator's and the helper's: both lead here */
static struct reach *helpers_reach;
static atomic_uint hazard, helpers_hazard;
static struct assist assist;
static char *own, *theirs;
static int line[2];
static bool fetches; /* what the QP offers, of a region without remote rights */

static inline void *memory_of(size_t length)
{
	void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

/* The reach takes a directory of its own; entries are found in both. */
static inline struct directory *filled(void)
{
	const unsigned int both = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	const unsigned int rights = fetches ? 0 : both;
	struct directory_qp qp = {.qpn = QPN,
				  .dest_qpn = PEER,
				  .pd = 77,
				  .access = fetches ? REACH_SENDS : rights,
				  .pkey = 0xffff};
	struct directory_mr mr = {.pd = 77,
				  .base = (uintptr_t)theirs + MARGIN,
				  .iova = 0x5000,
				  .length = REGION - 2 * MARGIN,
				  .rkey = RKEY,
				  .access = rights};
	struct directory *made = memory_of(directory_bytes());

	assert_true(directory_publish_qp(made, &qp));
	assert_true(directory_publish_mr(made, &mr));
	return made;
}

static inline int setup(void **state)
{
	own = memory_of(REGION);
	theirs = memory_of(REGION);
	board = memory_of(sizeof(*board));
	directory = filled();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, line), 0);
	asked = filled();
	reach = reach_open(asked, open("/proc/self/mem", O_RDWR | O_CLOEXEC), line[0], getpid());
	helpers_reach =
	    reach_open(filled(), open("/proc/self/mem", O_RDWR | O_CLOEXEC), line[0], getpid());
	assert_non_null(reach);
	assert_non_null(helpers_reach);
	atomic_store(&hazard, 0);
	atomic_store(&helpers_hazard, 0);
	assist = (struct assist){.board = board};
	return 0;
}

static inline int teardown(void **state)
{
	reach_close(reach);
	reach_close(helpers_reach);
	munmap(directory, directory_bytes());
	munmap(board, sizeof(*board));
	munmap(own, REGION);
	munmap(theirs, REGION);
	close(line[0]);
	close(line[1]);
	return 0;
}

/* ---- one transfer ---- */

static inline struct directory_question question_of(bool is_read, uint64_t offset, uint64_t length)
{
	return (struct directory_question){
	    .qpn = PEER,
	    .dest_qpn = QPN,
	    .pkey = 0xffff,
	    .rkey = RKEY,
	    .need = fetches   ? REACH_SENDS
		    : is_read ? IBV_ACCESS_REMOTE_READ
			      : IBV_ACCESS_REMOTE_WRITE,
	    .addr = 0x5000 + offset,
	    .length = length,
	};
}

static inline enum reach_result part(bool is_read, uint64_t there, uint64_t here, uint64_t length,
				     uint64_t offset, uint64_t bytes)
{
	struct directory_question question = question_of(is_read, there, length);
	struct iovec piece = {own + MARGIN + here + offset, bytes};
	struct reach_op op = {
	    .is_read = is_read,
	    .is_fetch = fetches,
	    .rkey = RKEY,
	    .remote_addr = question.addr,
	    .length = length,
	    .offset = offset,
	    .bytes = bytes,
	    .pieces = &piece,
	    .count = 1,
	};

	return reach_do(reach, &hazard, &assist, &question, &op);
}

static inline void fill(char *memory, uint32_t seed)
{
	for (uint32_t i = 0; i < REGION; i++)
		memory[i] = (char)(seed * 37 + i * 11 + (i >> 12) * 3);
}

/* ---- a helper ---- */

static atomic_bool is_over;

static inline void *help(void *unused)
{
	while (!atomic_load(&is_over))
		if (assist_is_wanted(board))
			assist_help(board, helpers_reach, &helpers_hazard, directory);
	return unused;
}

static atomic_bool is_claimed;

/* Claims one chunk of the next work and keeps it. */
static inline void *claim_one(void *unused)
{
	while (!atomic_load(&is_claimed)) {
		uint64_t claims = atomic_load(&board->claims);

		if ((uint16_t)claims != (uint16_t)(claims >> 16) &&
		    atomic_compare_exchange_strong(&board->claims, &claims, claims + 1))
			atomic_store(&is_claimed, true);
	}
	return unused;
}

#endif
