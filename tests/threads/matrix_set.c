// SPDX-License-Identifier: BSD-2-Clause
/*
 * A set of objects, one of each kind, as the matrix of verbs uses them.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "matrix.h"

const union ibv_gid set_group = {
    .raw = {[10] = 0xff, [11] = 0xff, [12] = 239, [13] = 1, [14] = 2, [15] = 3}};

static void open_context(struct set *set, struct set *of)
{
	if (!of) {
		rig_open(&set->rig);
		CHECK(!fcntl(set->rig.context->async_fd, F_SETFL, O_NONBLOCK));
		return;
	}
	set->rig = of->rig;
	set->rig.pd = ibv_alloc_pd(set->rig.context);
	CHECK(set->rig.pd);
}

static void open_memory(struct set *set)
{
	struct ibv_alloc_dm_attr dm_attr = {.length = 4096};
	const int access = SET_ACCESS | IBV_ACCESS_MW_BIND | IBV_ACCESS_FLUSH_GLOBAL;

	set->bytes = aligned_alloc(4096, SET_BYTES);
	CHECK(set->bytes);
	memset(set->bytes, 0, SET_BYTES);
	set->mr = ibv_reg_mr(set->rig.pd, set->bytes, SET_BYTES, access);
	set->moving = ibv_reg_mr(set->rig.pd, set->bytes, SET_BYTES, SET_ACCESS);
	set->bound = ibv_reg_mr(set->rig.pd, set->bytes, SET_BYTES, access);
	set->mw = ibv_alloc_mw(set->rig.pd, IBV_MW_TYPE_1);
	set->bound_mw = ibv_alloc_mw(set->rig.pd, IBV_MW_TYPE_1);
	set->dm = ibv_alloc_dm(set->rig.context, &dm_attr);
	set->buf_bytes = ibv_alloc_buf(set->rig.pd, 4096, &set->buf);
	CHECK(set->mr && set->moving && set->bound && set->mw && set->bound_mw);
	CHECK(set->dm && set->buf_bytes);
}

static void open_domains(struct set *set)
{
	struct ibv_xrcd_init_attr xrcd_attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD |
							    IBV_XRCD_INIT_ATTR_OFLAGS,
					       .fd = -1,
					       .oflags = O_CREAT};
	struct ibv_parent_domain_init_attr parent_attr = {.pd = set->rig.pd};
	struct ibv_td_init_attr td_attr = {0};

	set->td = ibv_alloc_td(set->rig.context, &td_attr);
	CHECK(set->td);
	parent_attr.td = set->td;
	set->parent = ibv_alloc_parent_domain(set->rig.context, &parent_attr);
	set->xrcd = ibv_open_xrcd(set->rig.context, &xrcd_attr);
	CHECK(set->parent && set->xrcd);
}

static void open_queues(struct set *set)
{
	struct ibv_cq_init_attr_ex cq_attr = {
	    .cqe = SET_CQE,
	    .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK | IBV_WC_EX_WITH_CVLAN |
			IBV_WC_EX_WITH_FLOW_TAG | IBV_WC_EX_WITH_TM_INFO};
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4 * SET_WRS, .max_sge = 1}};
	struct ibv_srq_init_attr_ex ex_attr = {
	    .attr = srq_attr.attr,
	    .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			 IBV_SRQ_INIT_ATTR_TM,
	    .srq_type = IBV_SRQT_TM,
	    .pd = set->rig.pd,
	    .tm_cap = {.max_num_tags = 32, .max_ops = 32},
	};

	set->channel = ibv_create_comp_channel(set->rig.context);
	CHECK(set->channel && !fcntl(set->channel->fd, F_SETFL, O_NONBLOCK));
	set->cq = ibv_create_cq(set->rig.context, SET_CQE, NULL, set->channel, 0);
	set->cq_ex = ibv_create_cq_ex(set->rig.context, &cq_attr);
	set->srq = ibv_create_srq(set->rig.pd, &srq_attr);
	CHECK(set->cq && set->cq_ex && set->srq);
	ex_attr.cq = set->cq;
	set->tag_srq = ibv_create_srq_ex(set->rig.context, &ex_attr);
	ex_attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			    IBV_SRQ_INIT_ATTR_XRCD;
	ex_attr.srq_type = IBV_SRQT_XRC;
	ex_attr.xrcd = set->xrcd;
	set->xrc_srq = ibv_create_srq_ex(set->rig.context, &ex_attr);
	CHECK(set->tag_srq && set->xrc_srq);
}

static struct ibv_qp *create_qp(struct set *set, enum ibv_qp_type type, struct ibv_cq *cq,
				struct ibv_srq *srq, uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
	    .send_cq = cq,
	    .recv_cq = cq,
	    .srq = srq,
	    .cap = {.max_send_wr = SET_WRS,
		    .max_recv_wr = 4 * SET_WRS,
		    .max_send_sge = 2,
		    .max_recv_sge = 1,
		    .max_inline_data = 64},
	    .qp_type = type,
	    .comp_mask = IBV_QP_INIT_ATTR_PD | (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
	    .pd = set->rig.pd,
	    .send_ops_flags = ops,
	};

	if (type == IBV_QPT_XRC_RECV) {
		attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
		attr.xrcd = set->xrcd;
		attr.send_cq = attr.recv_cq = NULL;
		attr.cap = (struct ibv_qp_cap){0};
	}
	return ibv_create_qp_ex(set->rig.context, &attr);
}

static void open_datagrams(struct set *set)
{
	struct ibv_ah_attr path = {
	    .grh = {.dgid = set->rig.gid, .sgid_index = set->rig.gid_index, .hop_limit = 1},
	    .is_global = 1,
	    .port_num = 1};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 7};

	set->ah = ibv_create_ah(set->rig.pd, &path);
	set->ud = create_qp(set, IBV_QPT_UD, set->cq, NULL, IBV_QP_EX_WITH_SEND);
	CHECK(set->ah && set->ud);
	CHECK(!ibv_modify_qp(set->ud, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(set->ud, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(set->ud, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	CHECK(!ibv_attach_mcast(set->ud, &set_group, 0));
}

static void open_qps(struct set *set)
{
	const uint64_t all = 0x1fff & ~(uint64_t)IBV_QP_EX_WITH_TSO;
	struct ibv_comp_cntr_init_attr cntr_attr = {.type = IBV_COMP_CNTR_TYPE_WRS};
	struct ibv_qp_attach_comp_cntr_attr ops = {.op_mask = IBV_QP_ATTACH_COMP_CNTR_OP_SEND};
	struct ibv_qp_attr flushed = {.qp_access_flags = SET_ACCESS | IBV_ACCESS_FLUSH_GLOBAL};

	set->from = create_qp(set, IBV_QPT_RC, set->cq, NULL, 0);
	set->to = create_qp(set, IBV_QPT_RC, set->cq, set->srq, 0);
	set->ex = create_qp(set, IBV_QPT_RC, ibv_cq_ex_to_cq(set->cq_ex), NULL, all);
	set->still = create_qp(set, IBV_QPT_RC, set->cq, NULL, 0);
	set->xrc = create_qp(set, IBV_QPT_XRC_SEND, set->cq, NULL, IBV_QP_EX_WITH_SEND);
	set->xrc_recv = create_qp(set, IBV_QPT_XRC_RECV, NULL, NULL, 0);
	set->raw = create_qp(set, IBV_QPT_RAW_PACKET, set->cq, NULL, 0);
	CHECK(set->from && set->to && set->ex && set->still && set->xrc && set->xrc_recv);
	CHECK(set->raw || errno == EPERM);
	rig_init(set->from);
	rig_init(set->to);
	rig_init(set->ex);
	rig_connect(&set->rig, set->from, set->to->qp_num);
	rig_connect(&set->rig, set->to, set->from->qp_num);
	rig_connect(&set->rig, set->ex, set->ex->qp_num);
	CHECK(!ibv_modify_qp(set->ex, &flushed, IBV_QP_ACCESS_FLAGS));
	open_datagrams(set);
	set->cntr = ibv_create_comp_cntr(set->rig.context, &cntr_attr);
	CHECK(set->cntr && !ibv_qp_attach_comp_cntr(set->still, set->cntr, &ops));
}

static void open_work_queues(struct set *set)
{
	struct ibv_wq_init_attr attr = {.wq_type = IBV_WQT_RQ,
					.max_wr = SET_WRS,
					.max_sge = 1,
					.pd = set->rig.pd,
					.cq = set->cq};
	struct ibv_rwq_ind_table_init_attr table_attr = {.ind_tbl = &set->wq};

	set->wq = ibv_create_wq(set->rig.context, &attr);
	CHECK(set->wq);
	set->table = ibv_create_rwq_ind_table(set->rig.context, &table_attr);
	CHECK(set->table);
}

static void bind_for_good(struct set *set)
{
	struct ibv_mw_bind bind = {
	    .bind_info = {.mr = set->bound,
			  .addr = (uintptr_t)set->bytes,
			  .length = 64,
			  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE},
	    .send_flags = IBV_SEND_SIGNALED,
	};

	CHECK(!ibv_bind_mw(set->from, set->bound_mw, &bind));
	atomic_fetch_add(&set->posted, 1);
	set_drain(set);
}

void set_open(struct set *set, struct set *of, struct events *events)
{
	memset(set, 0, sizeof(*set));
	set->events = events;
	open_context(set, of);
	open_memory(set);
	open_domains(set);
	open_queues(set);
	open_qps(set);
	open_work_queues(set);
	bind_for_good(set);
}

void set_close(struct set *set, bool has_own_context)
{
	CHECK(!ibv_destroy_rwq_ind_table(set->table) && !ibv_destroy_wq(set->wq));
	CHECK(!ibv_detach_mcast(set->ud, &set_group, 0) && !ibv_destroy_qp(set->ud));
	CHECK(!ibv_destroy_ah(set->ah));
	CHECK(!ibv_destroy_qp(set->from) && !ibv_destroy_qp(set->to) && !ibv_destroy_qp(set->ex));
	CHECK(!ibv_destroy_qp(set->still) && !ibv_destroy_qp(set->xrc));
	CHECK(!ibv_destroy_qp(set->xrc_recv) && (!set->raw || !ibv_destroy_qp(set->raw)));
	CHECK(!ibv_destroy_comp_cntr(set->cntr));
	CHECK(!ibv_destroy_srq(set->xrc_srq) && !ibv_destroy_srq(set->tag_srq));
	CHECK(!ibv_destroy_srq(set->srq) && !ibv_close_xrcd(set->xrcd));
	CHECK(!ibv_destroy_cq(set->cq) && !ibv_destroy_cq(ibv_cq_ex_to_cq(set->cq_ex)));
	CHECK(!ibv_destroy_comp_channel(set->channel));
	CHECK(!ibv_dealloc_pd(set->parent) && !ibv_dealloc_td(set->td));
	ibv_free_buf(set->buf);
	CHECK(!ibv_free_dm(set->dm));
	CHECK(!ibv_dealloc_mw(set->mw) && !ibv_dealloc_mw(set->bound_mw));
	CHECK(!ibv_dereg_mr(set->mr) && !ibv_dereg_mr(set->moving) && !ibv_dereg_mr(set->bound));
	free(set->bytes);
	if (has_own_context)
		rig_close(&set->rig);
	else
		CHECK(!ibv_dealloc_pd(set->rig.pd));
}

/* ---- what comes back ---- */

void set_completed(struct set *set, enum ibv_wc_status status, enum ibv_wc_opcode opcode,
		   uint32_t qp_num)
{
	CHECK(status == IBV_WC_SUCCESS);
	if (!(opcode & IBV_WC_RECV))
		atomic_fetch_add(&set->completed, 1);
	else if (qp_num != set->ud->qp_num)
		atomic_fetch_add(&set->received, 1);
}

bool set_take_event(struct set *set)
{
	struct ibv_async_event event;

	if (ibv_get_async_event(set->rig.context, &event)) {
		CHECK(errno == EAGAIN);
		return false;
	}
	if (event.event_type == IBV_EVENT_PATH_MIG)
		atomic_fetch_add(&set->events->taken, 1);
	ibv_ack_async_event(&event);
	return true;
}

static void take_completions(struct set *set, struct ibv_cq *cq)
{
	struct ibv_wc wc[16];
	int count = ibv_poll_cq(cq, 16, wc);

	CHECK(count >= 0);
	for (int i = 0; i < count; i++)
		set_completed(set, wc[i].status, wc[i].opcode, wc[i].qp_num);
}

static bool is_quiet(const struct set *set)
{
	return atomic_load(&set->posted) == atomic_load(&set->completed) &&
	       atomic_load(&set->sent) == atomic_load(&set->received);
}

static void check_events(const struct events *events)
{
	unsigned long raised = atomic_load(&events->raised), taken = atomic_load(&events->taken);

	if (raised != taken)
		fprintf(stderr, "%lu events were raised, %lu taken\n", raised, taken);
	CHECK(raised == taken);
}

void set_drain(struct set *set)
{
	struct ibv_cq *cq;
	void *which;

	do {
		take_completions(set, set->cq);
		take_completions(set, ibv_cq_ex_to_cq(set->cq_ex));
	} while (!is_quiet(set));
	while (set_take_event(set))
		;
	check_events(set->events);
	while (!ibv_get_cq_event(set->channel, &cq, &which))
		ibv_ack_cq_events(cq, 1);
	CHECK(errno == EAGAIN);
}
