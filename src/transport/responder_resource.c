/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that are answered with data: READ, atomics, FLUSH, ATOMIC WRITE. READs become jobs that
 * transport_run() works off a turn at a time; the others are executed at once, and their results
 * are kept for duplicates. The peer may have max_dest_rd_atomic of them outstanding, so that many
 * are kept (9.4.4, 9.4.5, A19).
 */
#include <errno.h>
#include <stdlib.h>

#include "device/access.h"
#include "device/memory.h"
#include "transport/responder.h"

static const uint32_t ANSWERED = OPF_READ_REQUEST | OPF_ATOMIC | OPF_FLUSH | OPF_ATOMIC_WRITE;

/* Room for twice the depth: duplicates may queue beside new requests. 0 or -ENOMEM, and then
 * nothing has changed. */
int resource_reserve(struct qp *qp, uint32_t depth)
{
	struct responder *responder = qp->responder;
	struct saved_result *saved;
	struct response_job *jobs;

	if (depth <= responder->depth)
		return 0;
	jobs = calloc(2 * depth, sizeof(*jobs));
	saved = calloc(depth, sizeof(*saved));
	if (!jobs || !saved) {
		free(jobs);
		free(saved);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < responder->job_count; i++)
		jobs[i] = responder->jobs[i];
	for (uint32_t i = 0; i < responder->saved_room; i++)
		saved[i] = responder->saved[(responder->saved_next + i) % responder->saved_room];
	responder->saved_next = responder->saved_room; /* behind the newest, in the longer ring */
	free(responder->jobs);
	free(responder->saved);
	responder->jobs = jobs;
	responder->job_room = 2 * depth;
	responder->saved = saved;
	responder->saved_room = depth;
	responder->depth = depth;
	return 0;
}

void resource_reset(struct qp *qp)
{
	struct responder *responder = qp->responder;

	responder->job_count = 0;
	responder->saved_next = 0;
	for (uint32_t i = 0; i < responder->saved_room; i++)
		responder->saved[i].is_used = false;
}

/* A READ has one PSN for each response, everything else has one. */
uint32_t request_psns(const struct qp *qp, const struct wire_packet *wire)
{
	if (!(wire->op->flags & OPF_READ_REQUEST) || wire->reth.length == 0)
		return 1;
	return ((uint64_t)wire->reth.length + qp->mtu - 1) / qp->mtu;
}

static uint32_t outstanding(const struct responder *responder)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < responder->job_count; i++)
		count += !responder->jobs[i].is_again;
	return count;
}

/* 9.7.4.1.4: the peer keeps to the number it was told of. A queue full of duplicates is none of its
 * fault. */
enum verdict check_resources(struct arrival *arrival)
{
	const struct responder *responder = arrival->qp->responder;
	uint32_t depth = arrival->qp->attr.max_dest_rd_atomic;

	if (!(arrival->wire->op->flags & ANSWERED))
		return PASS;
	if (outstanding(responder) < depth)
		return responder->job_count < responder->job_room ? PASS : DROP;
	refuse_wr(REASON_TOO_MANY_READS, "QP 0x%x: %s, max_dest_rd_atomic %u", arrival->qp->number,
		  arrival->wire->op->name, depth);
	return refuse_request(arrival, IBV_WC_REM_INV_REQ_ERR, REASON_TOO_MANY_READS);
}

/*
 * Jobs are sorted by PSN and don't overlap. A duplicate whose job is still to come needs none; one
 * that asks again for what its job has sent already replaces the job.
 */
static void job_add(struct responder *responder, const struct response_job *job)
{
	struct response_job *jobs = responder->jobs;
	uint32_t first = 0, behind, count = responder->job_count;

	while (first < count && psn_compare(jobs[first].last_psn, job->psn) < 0)
		first++;
	if (first < count && psn_compare(jobs[first].psn, job->psn) <= 0 &&
	    psn_compare(jobs[first].last_psn, job->last_psn) >= 0)
		return;
	behind = first;
	while (behind < count && psn_compare(jobs[behind].psn, job->last_psn) <= 0)
		behind++;
	if (count - (behind - first) >= responder->job_room)
		return;
	memmove(&jobs[first + 1], &jobs[behind], (count - behind) * sizeof(*jobs));
	jobs[first] = *job;
	responder->job_count = count - (behind - first) + 1;
}

static void result_save(struct responder *responder, const struct response_job *job)
{
	responder->saved[responder->saved_next] = (struct saved_result){
	    .is_used = true,
	    .kind = job->kind,
	    .psn = job->psn,
	    .original = job->kind == JOB_ATOMIC ? job->original : 0,
	};
	responder->saved_next = (responder->saved_next + 1) % responder->saved_room;
}

static struct response_job read_job(const struct qp *qp, const struct wire_packet *wire)
{
	return (struct response_job){
	    .kind = JOB_READ,
	    .psn = wire->bth.psn,
	    .last_psn = psn_add(wire->bth.psn, request_psns(qp, wire) - 1),
	    .rkey = wire->reth.rkey,
	    .srqn = wire->xrceth,
	    .va = wire->reth.va,
	    .left = wire->reth.length,
	    .length = wire->reth.length,
	};
}

static enum verdict refuse_key(struct arrival *arrival, enum reason reason, uint64_t va,
			       uint32_t rkey)
{
	const struct qp *qp = arrival->qp;

	refuse_wr(reason, "%s by QP 0x%x to QP 0x%x: address 0x%llx, rkey 0x%x",
		  arrival->wire->op->name, qp->attr.dest_qp_num, qp->number, (unsigned long long)va,
		  rkey);
	return refuse_request(arrival, IBV_WC_REM_ACCESS_ERR, reason);
}

/* 9.4.5: eight bytes, naturally aligned. */
static enum verdict refuse_unaligned(struct arrival *arrival, uint64_t va)
{
	refuse_wr(REASON_ATOMIC_UNALIGNED, "QP 0x%x: %s, address 0x%llx", arrival->qp->number,
		  arrival->wire->op->name, (unsigned long long)va);
	return refuse_request(arrival, IBV_WC_REM_INV_REQ_ERR, REASON_ATOMIC_UNALIGNED);
}

static enum verdict execute_atomic(struct arrival *arrival, struct response_job *job)
{
	const struct atomiceth *atomic = &arrival->wire->atomic;
	const struct qp *qp = arrival->qp;
	bool is_add = opcode_operation(arrival->wire->bth.opcode) == OP_FETCH_ADD, is_aligned;
	struct access access;
	enum reason reason;
	int error;

	if (atomic->va % sizeof(uint64_t))
		return refuse_unaligned(arrival, atomic->va);
	reason = access_begin(qp, request_pd(qp, arrival->wire->xrceth), atomic->rkey, atomic->va,
			      sizeof(uint64_t), IBV_ACCESS_REMOTE_ATOMIC, &access);
	is_aligned = (uintptr_t)access.place % sizeof(uint64_t) == 0;
	if (!reason && is_aligned) {
		error = is_add ? memory_fetch_add(access.place, atomic->swap_add, &job->original)
			       : memory_compare_swap(access.place, atomic->compare,
						     atomic->swap_add, &job->original);
		reason = error ? REASON_REMOTE_MEMORY_GONE : REASON_NONE;
	}
	access_end(&access);
	if (!is_aligned)
		return refuse_unaligned(arrival, atomic->va);
	if (reason)
		return refuse_key(arrival, reason, atomic->va, atomic->rkey);
	job->kind = JOB_ATOMIC;
	return PASS;
}

/* A19.4.2: eight aligned bytes, seen all at once. */
static enum verdict execute_atomic_write(struct arrival *arrival, struct response_job *job)
{
	const struct reth *reth = &arrival->wire->reth;
	const struct qp *qp = arrival->qp;
	struct access access;
	enum reason reason;
	uint64_t value;
	bool is_aligned;

	if (reth->length != ATOMIC_WRITE_BYTES) {
		refuse_wr(REASON_ANNOUNCED_LENGTH, "QP 0x%x: ATOMIC WRITE of %u bytes", qp->number,
			  reth->length);
		return refuse_request(arrival, IBV_WC_REM_INV_REQ_ERR, REASON_ANNOUNCED_LENGTH);
	}
	if (reth->va % sizeof(value))
		return refuse_unaligned(arrival, reth->va);
	memcpy(&value, arrival->wire->payload, sizeof(value));
	reason = access_begin(qp, request_pd(qp, arrival->wire->xrceth), reth->rkey, reth->va,
			      sizeof(value), IBV_ACCESS_REMOTE_WRITE, &access);
	is_aligned = (uintptr_t)access.place % sizeof(value) == 0;
	if (!reason && is_aligned && memory_store_8(access.place, value))
		reason = REASON_REMOTE_MEMORY_GONE;
	access_end(&access);
	if (!is_aligned)
		return refuse_unaligned(arrival, reth->va);
	if (reason)
		return refuse_key(arrival, reason, reth->va, reth->rkey);
	job->kind = JOB_DONE;
	return PASS;
}

static enum verdict check_flush(struct arrival *arrival)
{
	const struct feth *feth = &arrival->wire->feth;

	if (feth->type && !(feth->type & ~(IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT)) &&
	    feth->level <= IBV_FLUSH_MR)
		return PASS;
	refuse_wr(REASON_FLUSH_KIND, "QP 0x%x: type %u, level %u", arrival->qp->number, feth->type,
		  feth->level);
	return refuse_request(arrival, IBV_WC_REM_INV_REQ_ERR, REASON_FLUSH_KIND);
}

/*
 * A19.4.1: everything written before is globally visible, which stores of a coherent processor are
 * behind a fence, or has reached what persists. The level says whether that is asked for a range or
 * for the whole region.
 */
static enum verdict execute_flush(struct arrival *arrival, struct response_job *job)
{
	const struct wire_packet *wire = arrival->wire;
	const struct qp *qp = arrival->qp;
	unsigned int need = access_needed(wire);
	struct access access;
	enum reason reason;

	if (check_flush(arrival) != PASS)
		return REFUSED;
	if (wire->feth.level == IBV_FLUSH_RANGE)
		reason = access_begin(qp, request_pd(qp, wire->xrceth), wire->reth.rkey,
				      wire->reth.va, wire->reth.length, need, &access);
	else
		reason = access_begin_whole(qp, request_pd(qp, wire->xrceth), wire->reth.rkey, need,
					    &access);
	atomic_thread_fence(memory_order_seq_cst);
	if (!reason && (wire->feth.type & IBV_FLUSH_PERSISTENT) &&
	    memory_persist(access.place, access.length))
		reason = REASON_REMOTE_MEMORY_GONE;
	access_end(&access);
	if (reason)
		return refuse_key(arrival, reason, wire->reth.va, wire->reth.rkey);
	job->kind = JOB_DONE;
	return PASS;
}

enum verdict execute_answered(struct arrival *arrival)
{
	struct responder *responder = arrival->qp->responder;
	const struct wire_packet *wire = arrival->wire;
	struct response_job job = {.psn = wire->bth.psn, .last_psn = wire->bth.psn};
	enum verdict verdict = PASS;

	if (wire->op->flags & OPF_READ_REQUEST)
		job = read_job(arrival->qp, wire);
	else if (wire->op->flags & OPF_ATOMIC)
		verdict = execute_atomic(arrival, &job);
	else if (wire->op->flags & OPF_ATOMIC_WRITE)
		verdict = execute_atomic_write(arrival, &job);
	else
		verdict = execute_flush(arrival, &job);
	if (verdict != PASS)
		return verdict;
	job.msn = (responder->msn + 1) & PSN_MASK;
	job_add(responder, &job);
	result_save(responder, &job);
	return PASS;
}

/*
 * A READ seen before is done again, if what it asks for lies before the expected PSN and may still
 * be read; the region may be gone since because the program knows that the READ is over, so this is
 * no error. The others are answered as they were.
 */
void resource_duplicate(struct arrival *arrival)
{
	struct responder *responder = arrival->qp->responder;
	const struct wire_packet *wire = arrival->wire;
	struct response_job job = {.psn = wire->bth.psn, .last_psn = wire->bth.psn};
	const struct saved_result *saved;

	if (wire->op->flags & OPF_READ_REQUEST) {
		job = read_job(arrival->qp, wire);
		if (psn_into(responder->psn, job.psn) <= psn_into(job.last_psn, job.psn) ||
		    check_enabled(arrival) != PASS || check_length(arrival) != PASS ||
		    check_key(arrival) != PASS)
			return;
		job.is_again = true;
		job.msn = responder->msn;
		patience_failed(&responder->lending);
		job_add(responder, &job);
		return;
	}
	for (uint32_t i = 0; i < responder->saved_room; i++) {
		saved = &responder->saved[i];
		if (!saved->is_used || saved->psn != job.psn || saved->kind == JOB_READ)
			continue;
		job.kind = saved->kind;
		job.original = saved->original;
		job.is_again = true;
		job.msn = responder->msn;
		job_add(responder, &job);
		return;
	}
}

/*
 * How far an ACK for a duplicate at `psn` may reach: everything executed, but not past a request
 * that is answered with data, for the peer would take that answer to be lost.
 */
uint32_t resource_covered(const struct qp *qp, uint32_t psn)
{
	const struct responder *responder = qp->responder;
	uint32_t covered = psn_add(responder->psn, -1);

	for (uint32_t i = 0; i < responder->saved_room; i++)
		if (responder->saved[i].is_used && psn_compare(responder->saved[i].psn, psn) > 0 &&
		    psn_compare(responder->saved[i].psn, covered) <= 0)
			covered = psn_add(responder->saved[i].psn, -1);
	return covered;
}
