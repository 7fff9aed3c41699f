/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended completion queues: a cursor over completions, whose parts are read one by one. From
 * start_poll to end_poll the CQ belongs to one thread.
 */
#include <time.h>

#include "device/pd.h"
#include "verbs/face.h"

enum { NS_PER_S = 1000000000 };

#define WC_FLAGS_KNOWN                                                                             \
	(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |                             \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK | IBV_WC_EX_WITH_TM_INFO |                  \
	 IBV_WC_EX_WITH_FLOW_TAG | IBV_WC_EX_WITH_CVLAN)
#define FLAGS_KNOWN (IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)

static struct face_cq *face_of(struct ibv_cq_ex *ex)
{
	return face_of_cq(cq_of(ibv_cq_ex_to_cq(ex)));
}

static const struct ibv_wc *wc_of(struct ibv_cq_ex *ex)
{
	return &face_of(ex)->current.wc;
}

/* ---- the cursor ---- */

/* Put the cursor on what cq_poll_one() said: 0, ENOENT when empty, or EOVERFLOW. */
static int advance(struct ibv_cq_ex *ex, struct face_cq *face, int ret)
{
	if (ret)
		return -ret;
	ex->wr_id = face->current.wc.wr_id;
	ex->status = face->current.wc.status;
	return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct face_cq *face = face_of(ex);
	int ret;

	if (attr && attr->comp_mask)
		return refuse(REASON_COMP_MASK, "attr->comp_mask is %#x", attr->comp_mask);
	if (!face->is_single_threaded)
		pthread_mutex_lock(&face->poll_lock);
	ret = cq_poll_one(face->cq, &face->current);
	if (ret == -ENOENT && progress(face->cq))
		ret = cq_poll_one(face->cq, &face->current);
	ret = advance(ex, face, ret);
	if (ret && !face->is_single_threaded)
		pthread_mutex_unlock(&face->poll_lock);
	return ret;
}

/*
 * Takes what is there and makes no progress: a completion that came about in here would raise the
 * event of an armed CQ and be taken at once, and the program that then wakes for it finds nothing.
 */
static int next_poll(struct ibv_cq_ex *ex)
{
	struct face_cq *face = face_of(ex);

	return advance(ex, face, cq_poll_one(face->cq, &face->current));
}

static void end_poll(struct ibv_cq_ex *ex)
{
	struct face_cq *face = face_of(ex);

	if (!face->is_single_threaded)
		pthread_mutex_unlock(&face->poll_lock);
}

/* ---- its parts ---- */

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return wc_of(ex)->opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return wc_of(ex)->vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return wc_of(ex)->byte_len;
}

/* The invalidated rkey as well: the two share their place in struct ibv_wc. */
static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return wc_of(ex)->imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return wc_of(ex)->qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return wc_of(ex)->src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return wc_of(ex)->wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return wc_of(ex)->slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
	return wc_of(ex)->sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	return wc_of(ex)->dlid_path_bits;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
	return face_of(ex)->current.timestamp;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* The lanes' clock is monotonic: moved by how far the wall clock is from it now. */
static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	return face_of(ex)->current.timestamp + clock_ns(CLOCK_REALTIME) -
	       clock_ns(CLOCK_MONOTONIC);
}

static uint16_t read_cvlan(struct ibv_cq_ex *ex)
{
	return face_of(ex)->current.cvlan;
}

static uint32_t read_flow_tag(struct ibv_cq_ex *ex)
{
	return face_of(ex)->current.flow_tag;
}

static void read_tm_info(struct ibv_cq_ex *ex, struct ibv_wc_tm_info *tm_info)
{
	const struct cqe *cqe = &face_of(ex)->current;

	*tm_info = (struct ibv_wc_tm_info){.tag = cqe->tm_tag, .priv = cqe->tm_priv};
}

static void set_entry_points(struct ibv_cq_ex *ex)
{
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_byte_len = read_byte_len;
	ex->read_imm_data = read_imm_data;
	ex->read_qp_num = read_qp_num;
	ex->read_src_qp = read_src_qp;
	ex->read_wc_flags = read_wc_flags;
	ex->read_slid = read_slid;
	ex->read_sl = read_sl;
	ex->read_dlid_path_bits = read_dlid_path_bits;
	ex->read_completion_ts = read_completion_ts;
	ex->read_cvlan = read_cvlan;
	ex->read_flow_tag = read_flow_tag;
	ex->read_tm_info = read_tm_info;
	ex->read_completion_wallclock_ns = read_completion_wallclock_ns;
}

/* ---- creation ---- */

static int check(const struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr)
{
	const uint32_t known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;

	if (attr->comp_mask & ~known)
		return refuse(REASON_CQ_EXTENSION, "comp_mask is %#x", attr->comp_mask);
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD &&
	    (!attr->parent_domain || attr->parent_domain->context != context))
		return refuse(REASON_CQ_PD, "parent_domain is %s",
			      attr->parent_domain ? "of another context" : "NULL");
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS && attr->flags & ~(uint32_t)FLAGS_KNOWN)
		return refuse(REASON_CQ_EXTENSION, "flags is %#x", attr->flags);
	if (attr->wc_flags & ~(uint64_t)WC_FLAGS_KNOWN)
		return refuse(REASON_CQ_EXTENSION,
			      "wc_flags is %#llx, of which %#llx is not supported",
			      (unsigned long long)attr->wc_flags,
			      (unsigned long long)attr->wc_flags & ~(uint64_t)WC_FLAGS_KNOWN);
	return 0;
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *ibv, struct ibv_cq_init_attr_ex *attr)
{
	uint32_t flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
	struct ibv_pd *pd = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? attr->parent_domain : NULL;
	int ret = check(ibv, attr);
	struct cq *cq;

	if (ret) {
		errno = ret;
		return NULL;
	}
	cq = face_create_cq(context_of(ibv), pd ? pd_of(pd) : NULL, attr->cqe, attr->cq_context,
			    attr->channel, attr->comp_vector);
	if (!cq)
		return NULL;
	cq->ignore_overrun = flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	face_of_cq(cq)->is_single_threaded = flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	set_entry_points(&cq->ibv_ex);
	return &cq->ibv_ex;
}

void context_set_cq_ex_ops(struct verbs_context *verbs)
{
	verbs->create_cq_ex = create_cq_ex;
}
