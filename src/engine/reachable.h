/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What this process lets the others of its host and user reach: its directory (link/directory.h)
 * and its memory, the descriptors of which neighbours get with a channel; and the engine's part of
 * reaching theirs. A program that made itself undumpable keeps its memory to itself, and so does
 * one with VERBATIM_SAMEHOST=rings.
 */
#ifndef ENGINE_REACHABLE_H
#define ENGINE_REACHABLE_H

#include <pthread.h>
#include <stdbool.h>

struct adapter;
struct directory;
struct engine;
struct mr;
struct qp;
struct reach;
struct reach_op;
struct samehost_memo;

enum { REACHABLE_FDS = 2 }; /* directory, memory */

struct reachable {
	pthread_mutex_t lock;	     /* guards writing to the directory */
	struct directory *directory; /* NULL: nothing can be reached */
	int fds[REACHABLE_FDS];
};

/* Without what it takes there is none, and everything goes by packets. */
void reachable_open(struct reachable *reachable, bool is_wanted);
void reachable_close(struct reachable *reachable);
/* In the child of a fork. */
void reachable_abandon(struct reachable *reachable);

/* Of this process, and sleeps nearly always; 0: no more. */
void reachable_say_sleeper(struct reachable *reachable, pid_t thread);

/* Whether they may be given to others of our user now. */
bool reachable_is_open(const struct reachable *reachable);

/* Another process's, of which the two descriptors came; they are taken (-1) if it works. */
struct reach *reachable_take(int fds[REACHABLE_FDS], int lifeline, pid_t pid);

/* After something was withdrawn: waits for those who found it before, on our lanes and in other
 * processes. No lock is held. */
void reachable_quiesce(struct engine *engine);

/* The adapters' host's. */
bool reachable_publish_mr(struct adapter *adapter, const struct mr *mr);
void reachable_withdraw_mr(struct adapter *adapter, const struct mr *mr);
bool reachable_publish_qp(struct adapter *adapter, const struct qp *qp, unsigned int access);
void reachable_withdraw_qp(struct adapter *adapter, const struct qp *qp);
enum reach_result reachable_reach(struct qp *qp, const struct reach_op *op);
const uint8_t *reachable_behind(struct qp *qp, uint32_t next, size_t *length);
void reachable_forget(struct qp *qp);
bool reachable_is_reached(const struct qp *qp);
/* Of a WRITE or READ, what the QP's last one to the same region found; NULL if that is not known.
 */
const struct samehost_memo *reachable_recall(const struct qp *qp, const struct ibv_send_wr *wr);
/* A guess, of such: what the key leads to at the QP's peer may be mapped here. */
bool reachable_is_common(const struct qp *qp, const struct ibv_send_wr *wr);
struct qp *reachable_enter_peer(struct qp *qp);
void reachable_leave_peer(struct qp *qp, struct qp *peer);

#endif
