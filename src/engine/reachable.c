/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directory's making, its entries, and who waits for whom.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hot.h"
#include "base/lines.h"
#include "device/mr.h"
#include "device/pd.h"
#include "device/qp.h"
#include "engine/progress.h"
#include "engine/reachable.h"
#include "engine/state.h"
#include "link/directory.h"
#include "link/reach.h"
#include "link/samehost.h"
#include "transport/transport.h"

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW };

/* ---- making ---- */

static void *map(int fd, int protection)
{
	void *memory = mmap(NULL, directory_bytes(), protection, MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, directory_bytes(), MADV_DONTFORK);
	return memory;
}

static void close_all(struct reachable *reachable)
{
	for (int i = 0; i < REACHABLE_FDS; i++) {
		if (reachable->fds[i] >= 0)
			close(reachable->fds[i]);
		reachable->fds[i] = -1;
	}
}

/* Where the kernel can, others may not write to it. */
static bool make(struct reachable *reachable)
{
	int fd = memfd_create("verbatim-directory", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	reachable->fds[0] = fd;
	reachable->fds[1] = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	if (fd < 0 || reachable->fds[1] < 0 || ftruncate(fd, (off_t)directory_bytes()) < 0)
		return false;
	reachable->directory = map(fd, PROT_READ | PROT_WRITE);
	if (!reachable->directory)
		return false;
	fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
	return fcntl(fd, F_ADD_SEALS, SEALS) == 0;
}

void reachable_open(struct reachable *reachable, bool is_wanted)
{
	pthread_mutex_init(&reachable->lock, NULL);
	reachable->fds[0] = reachable->fds[1] = -1;
	if (!is_wanted || make(reachable))
		return;
	if (reachable->directory)
		munmap(reachable->directory, directory_bytes());
	reachable->directory = NULL;
	close_all(reachable);
}

void reachable_close(struct reachable *reachable)
{
	if (reachable->directory)
		munmap(reachable->directory, directory_bytes());
	close_all(reachable);
	pthread_mutex_destroy(&reachable->lock);
}

void reachable_abandon(struct reachable *reachable)
{
	close_all(reachable);
}

void reachable_say_sleeper(struct reachable *reachable, pid_t thread)
{
	if (reachable->directory)
		directory_say_sleeper(reachable->directory, thread);
}

/* What is set-user-ID, or was, is undumpable: others of the user that it came from must not get at
 * its memory. */
bool reachable_is_open(const struct reachable *reachable)
{
	return reachable->directory && prctl(PR_GET_DUMPABLE) == 1;
}

struct reach *reachable_take(int fds[REACHABLE_FDS], int lifeline, pid_t pid)
{
	struct reach *reach;
	struct stat stat;
	void *directory;

	if ((fcntl(fds[0], F_GET_SEALS) & SEALS) != SEALS || fstat(fds[0], &stat) < 0 ||
	    (size_t)stat.st_size != directory_bytes())
		return NULL;
	directory = map(fds[0], PROT_READ);
	if (!directory)
		return NULL;
	reach = reach_open(directory, fds[1], lifeline, pid);
	if (!reach) {
		munmap(directory, directory_bytes());
		return NULL;
	}
	close(fds[0]);
	fds[0] = fds[1] = -1;
	return reach;
}

/* ---- the adapters' host ---- */

/* NULL where there is none, as in the child of a fork. */
static struct reachable *reachable_of(const struct adapter *adapter)
{
	struct engine *engine = station_of(adapter)->engine;

	if (!engine->reachable.directory ||
	    atomic_load_explicit(&engine->is_dead, memory_order_relaxed))
		return NULL;
	return &engine->reachable;
}

bool reachable_publish_mr(struct adapter *adapter, const struct mr *mr)
{
	struct reachable *reachable = reachable_of(adapter);
	struct directory_mr entry = {
	    .rkey = mr->rkey,
	    .access = mr->access,
	    .pd = (uintptr_t)mr->protection,
	    .base = (uintptr_t)mr->base,
	    .iova = mr->iova,
	    .length = mr->length,
	    .commons = {mr->file.number, mr->file.fd, mr->file.offset},
	};
	bool is_published;

	if (!reachable)
		return false;
	pthread_mutex_lock(&reachable->lock);
	is_published = directory_publish_mr(reachable->directory, &entry);
	pthread_mutex_unlock(&reachable->lock);
	return is_published;
}

void reachable_withdraw_mr(struct adapter *adapter, const struct mr *mr)
{
	struct reachable *reachable = reachable_of(adapter);

	if (!reachable)
		return;
	pthread_mutex_lock(&reachable->lock);
	directory_withdraw_mr(reachable->directory, mr->rkey);
	pthread_mutex_unlock(&reachable->lock);
}

bool reachable_publish_qp(struct adapter *adapter, const struct qp *qp, unsigned int access)
{
	struct reachable *reachable = reachable_of(adapter);
	struct directory_qp entry = {
	    .qpn = qp->number,
	    .dest_qpn = qp->attr.dest_qp_num,
	    .gid = qp->av.sgid,
	    .dest_gid = qp->av.dgid,
	    .pd = (uintptr_t)qp->pd->protection,
	    .access = access,
	    .pkey = qp->pkey,
	};
	bool is_published;

	if (!reachable)
		return false;
	pthread_mutex_lock(&reachable->lock);
	is_published = directory_publish_qp(reachable->directory, &entry);
	pthread_mutex_unlock(&reachable->lock);
	return is_published;
}

void reachable_withdraw_qp(struct adapter *adapter, const struct qp *qp)
{
	struct reachable *reachable = reachable_of(adapter);

	if (!reachable)
		return;
	pthread_mutex_lock(&reachable->lock);
	directory_withdraw_qp(reachable->directory, qp->number);
	pthread_mutex_unlock(&reachable->lock);
}

/* ---- reaching ---- */

/*
 * A message costs a system call, and so a stream of small ones goes faster by packets, which cost
 * a tenth of it. A stream is what follows without a pause, and without the program having taken
 * its completions: who waits for each has a use for it soon. The first ones don't know yet, and so
 * the answer holds for a while.
 */
enum { STREAM_FROM = 8, STREAM_GAP_NS = 500, STREAM_HOLD_NS = 500000, STREAM_BYTES = 16 << 10 };

static bool is_in_stream(struct stream *stream, const struct reach_op *op)
{
	uint64_t now;

	if (op->length > STREAM_BYTES)
		return false;
	if (op->is_awaited) {
		*stream = (struct stream){.length = 0};
		return false;
	}
	now = lane_now();
	if (stream->last_end && now > stream->last_end + STREAM_GAP_NS)
		stream->length = 0;
	if (stream->length >= STREAM_FROM)
		stream->packets_to = now + STREAM_HOLD_NS;
	return now < stream->packets_to;
}

/* Behind one that was awaited comes either such a one again, or what begins a stream with it: so
 * nobody needs the time, which a lone message would notice. */
static void note_reached(struct stream *stream, const struct reach_op *op)
{
	if (op->length > STREAM_BYTES)
		return;
	stream->length++;
	stream->last_end = op->is_awaited ? 0 : lane_now();
}

/* What the peer has offered is asked for, and no stream of ours. */
static unsigned int need_of(const struct reach_op *op)
{
	if (op->is_fetch)
		return REACH_SENDS;
	return op->is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
}

static enum reach_result reach_other(struct qp *qp, const struct directory_question *question,
				     const struct reach_op *op)
{
	struct lane *lane = qp->seat->lane;
	enum reach_result result;

	lane->copied += op->bytes;
	if (op->is_fetch || samehost_is_common(lane->samehost, question->dest_qpn, op->rkey)) {
		result = samehost_reach(lane->samehost, question, op);
		if (result == REACH_DONE && op->is_prompt)
			samehost_remember(lane->samehost, question,
					  allowances_take(&lane->allowances, qp));
		return result;
	}
	if (op->is_prompt || is_in_stream(&lane->stream, op))
		return REACH_REFUSED;
	result = samehost_reach(lane->samehost, question, op);
	if (result == REACH_DONE)
		note_reached(&lane->stream, op);
	return result;
}

/* What a verb does at once, as it did before. Such a QP is of RC. */
static bool do_again(struct qp *qp, const struct reach_op *op)
{
	struct lane *lane = qp->seat->lane;
	const struct samehost_memo *memo =
	    op->is_prompt ? allowances_find(&lane->allowances, qp) : NULL;

	if (!memo ||
	    samehost_reach_again(lane->samehost, qp->attr.dest_qp_num, memo, op) != REACH_DONE)
		return false;
	lane->copied += op->bytes;
	return true;
}

APART static enum reach_result ask(struct qp *qp, const struct reach_op *op)
{
	struct reachable *reachable = reachable_of(qp->adapter);
	struct samehost *samehost = qp->seat->lane->samehost;
	struct directory_question question = {
	    .qpn = qp->number,
	    .dest_qpn = qp->attr.dest_qp_num,
	    .gid = qp->av.sgid,
	    .dest_gid = qp->av.dgid,
	    .pkey = qp->pkey,
	    .rkey = op->rkey,
	    .need = need_of(op),
	    .addr = op->remote_addr,
	    .length = op->length,
	};
	uint32_t slot = question.dest_qpn >> QPN_SLOT_SHIFT;

	if (!reachable || !samehost_is_local(samehost, &qp->av))
		return REACH_REFUSED;
	/* nobody tells when it has arrived */
	if (qp->type == IBV_QPT_UC &&
	    !samehost_is_taken(samehost, slot, samehost_way(question.dest_qpn)))
		return REACH_REFUSED;
	if (slot == qp->adapter->slot)
		return reach_do_own(reachable->directory, &question, op) ? REACH_DONE
									 : REACH_REFUSED;
	return reach_other(qp, &question, op);
}

WHOLE enum reach_result reachable_reach(struct qp *qp, const struct reach_op *op)
{
	return do_again(qp, op) ? REACH_DONE : ask(qp, op);
}

const uint8_t *reachable_behind(struct qp *qp, uint32_t next, size_t *length)
{
	return samehost_behind(qp->seat->lane->samehost, next, length);
}

void reachable_forget(struct qp *qp)
{
	samehost_forget_reach(qp->seat->lane->samehost, qp->number);
}

bool reachable_is_reached(const struct qp *qp)
{
	const struct samehost *samehost = qp->seat->lane->samehost;
	uint32_t peer = qp->attr.dest_qp_num;

	return reachable_of(qp->adapter) && samehost_is_local(samehost, &qp->av) &&
	       (peer >> QPN_SLOT_SHIFT == qp->adapter->slot || samehost_has_reach(samehost, peer));
}

/* The other side most likely waits in the very line that a WRITE goes to: to get it from there
 * takes as long as all that comes before the copy, so it is asked for first. */
static void expect(const struct reach_memo *memo, const struct ibv_send_wr *wr)
{
	const char *place = reach_guess(memo, wr->wr.rdma.remote_addr);

	if (place && wr->opcode == IBV_WR_RDMA_WRITE)
		lines_fetch(place);
}

const struct samehost_memo *reachable_recall(const struct qp *qp, const struct ibv_send_wr *wr)
{
	struct lane *lane = qp->seat->lane;
	const struct samehost_memo *memo = allowances_find(&lane->allowances, qp);

	if (!memo || memo->reach.rkey != wr->wr.rdma.rkey)
		return NULL;
	expect(&memo->reach, wr);
	return memo;
}

bool reachable_is_common(const struct qp *qp, const struct ibv_send_wr *wr)
{
	return reachable_recall(qp, wr) ||
	       samehost_is_common(qp->seat->lane->samehost, qp->attr.dest_qp_num, wr->wr.rdma.rkey);
}

/* The peer's lock is not waited for: its holder may be waiting for ours. */
struct qp *reachable_enter_peer(struct qp *qp)
{
	struct lane *lane = qp->seat->lane;
	struct qp *peer = reachable_of(qp->adapter) ? seat_find_peer(qp) : NULL;

	if (!peer || peer == qp || atomic_load(&peer->state) == IBV_QPS_RESET)
		return NULL;
	if (peer->seat->lane != lane && !lane_trylock(peer->seat->lane))
		return NULL;
	return peer;
}

void reachable_leave_peer(struct qp *qp, struct qp *peer)
{
	struct lane *lane = peer->seat->lane;

	timer_set(&lane->timers, &peer->seat->timer, transport_deadline(peer));
	if (lane != qp->seat->lane)
		lane_unlock(lane);
}

/* A channel goes under its lane's lock when the other side dies, so that lock is let go between
 * looks. */
static void quiesce_lane(struct lane *lane)
{
	uint64_t channel = 0;
	unsigned int hazard;
	bool is_reached;

	lane_lock(lane);
	while (samehost_is_reached(lane->samehost, &channel, &hazard))
		do {
			lane_unlock(lane);
			sched_yield();
			lane_lock(lane);
			is_reached = samehost_is_still_reached(lane->samehost, channel, hazard);
		} while (is_reached);
	lane_unlock(lane);
}

void reachable_quiesce(struct engine *engine)
{
	atomic_thread_fence(memory_order_seq_cst); /* what was withdrawn is seen, or we see who has
						      not seen it */
	for (uint32_t i = 0; i < engine->lane_count; i++)
		quiesce_lane(engine->lanes[i]);
}
