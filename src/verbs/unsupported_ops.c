// SPDX-License-Identifier: BSD-2-Clause
/*
 * Entry points that inline functions of the headers call, in their refusing form. A program may
 * call any of them on any object, so none is left NULL.
 */
#include "verbs/unsupported.h"

/* The function no_NAME stands in for ibv_NAME. */
#define NO_ENTRY()	refuse(REASON_NOT_IMPLEMENTED, "ibv_%s", __func__ + sizeof("no_") - 1)
#define NO_ENTRY_NULL() (errno = NO_ENTRY(), (void *)0)

static struct ibv_mw *no_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	return NO_ENTRY_NULL();
}

static int no_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind)
{
	return NO_ENTRY();
}

static int no_dealloc_mw(struct ibv_mw *mw)
{
	return NO_ENTRY();
}

static int no_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	return -NO_ENTRY();
}

static int no_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return NO_ENTRY();
}

static int no_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *recv_wr,
			    struct ibv_recv_wr **bad_recv_wr)
{
	*bad_recv_wr = recv_wr;
	return NO_ENTRY();
}

static int no_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	*bad_wr = wr;
	return NO_ENTRY();
}

static int no_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	*bad_wr = wr;
	return NO_ENTRY();
}

static void no_free_buf(struct ibv_buf *buf)
{
	NO_ENTRY();
}

static void *no_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf)
{
	return NO_ENTRY_NULL();
}

static int no_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
	errno = NO_ENTRY();
	return -1;
}

static struct ibv_mr *no_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr)
{
	return NO_ENTRY_NULL();
}

static int no_dealloc_dmah(struct ibv_dmah *dmah)
{
	return NO_ENTRY();
}

static struct ibv_dmah *no_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr)
{
	return NO_ENTRY_NULL();
}

static int no_query_port(struct ibv_context *context, uint8_t port_num,
			 struct ibv_port_attr *port_attr, size_t port_attr_len)
{
	return NO_ENTRY();
}

static int no_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
			struct ibv_sge *sg_list, uint32_t num_sges)
{
	return NO_ENTRY();
}

static struct ibv_mr *no_alloc_null_mr(struct ibv_pd *pd)
{
	return NO_ENTRY_NULL();
}

static int no_read_counters(struct ibv_counters *counters, uint64_t *counters_value,
			    uint32_t ncounters, uint32_t flags)
{
	return NO_ENTRY();
}

static int no_attach_counters_point_flow(struct ibv_counters *counters,
					 struct ibv_counter_attach_attr *attr,
					 struct ibv_flow *flow)
{
	return NO_ENTRY();
}

static struct ibv_counters *no_create_counters(struct ibv_context *context,
					       struct ibv_counters_init_attr *init_attr)
{
	return NO_ENTRY_NULL();
}

static int no_destroy_counters(struct ibv_counters *counters)
{
	return NO_ENTRY();
}

static struct ibv_mr *no_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset,
				   size_t length, unsigned int access)
{
	return NO_ENTRY_NULL();
}

static struct ibv_dm *no_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	return NO_ENTRY_NULL();
}

static int no_free_dm(struct ibv_dm *dm)
{
	return NO_ENTRY();
}

static int no_modify_flow_action_esp(struct ibv_flow_action *action,
				     struct ibv_flow_action_esp_attr *attr)
{
	return NO_ENTRY();
}

static int no_destroy_flow_action(struct ibv_flow_action *action)
{
	return NO_ENTRY();
}

static struct ibv_flow_action *no_create_flow_action_esp(struct ibv_context *context,
							 struct ibv_flow_action_esp_attr *attr)
{
	return NO_ENTRY_NULL();
}

static int no_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	return NO_ENTRY();
}

static struct ibv_pd *no_alloc_parent_domain(struct ibv_context *context,
					     struct ibv_parent_domain_init_attr *attr)
{
	return NO_ENTRY_NULL();
}

static int no_dealloc_td(struct ibv_td *td)
{
	return NO_ENTRY();
}

static struct ibv_td *no_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *init_attr)
{
	return NO_ENTRY_NULL();
}

static int no_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	return NO_ENTRY();
}

static int no_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op)
{
	*bad_op = op;
	return NO_ENTRY();
}

static int no_destroy_rwq_ind_table(struct ibv_rwq_ind_table *rwq_ind_table)
{
	return NO_ENTRY();
}

static struct ibv_rwq_ind_table *
no_create_rwq_ind_table(struct ibv_context *context, struct ibv_rwq_ind_table_init_attr *init_attr)
{
	return NO_ENTRY_NULL();
}

static int no_destroy_wq(struct ibv_wq *wq)
{
	return NO_ENTRY();
}

static int no_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *wq_attr)
{
	return NO_ENTRY();
}

static struct ibv_wq *no_create_wq(struct ibv_context *context,
				   struct ibv_wq_init_attr *wq_init_attr)
{
	return NO_ENTRY_NULL();
}

static int no_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	return NO_ENTRY();
}

static struct ibv_cq_ex *no_create_cq_ex(struct ibv_context *context,
					 struct ibv_cq_init_attr_ex *init_attr)
{
	return NO_ENTRY_NULL();
}

static int no_query_device_ex(struct ibv_context *context,
			      const struct ibv_query_device_ex_input *input,
			      struct ibv_device_attr_ex *attr, size_t attr_size)
{
	return NO_ENTRY();
}

static int no_destroy_flow(struct ibv_flow *flow)
{
	return NO_ENTRY();
}

static struct ibv_flow *no_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *flow_attr)
{
	return NO_ENTRY_NULL();
}

static struct ibv_qp *no_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	return NO_ENTRY_NULL();
}

static struct ibv_qp *no_create_qp_ex(struct ibv_context *context,
				      struct ibv_qp_init_attr_ex *qp_init_attr_ex)
{
	return NO_ENTRY_NULL();
}

static int no_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num)
{
	return NO_ENTRY();
}

static struct ibv_srq *no_create_srq_ex(struct ibv_context *context,
					struct ibv_srq_init_attr_ex *srq_init_attr_ex)
{
	return NO_ENTRY_NULL();
}

static struct ibv_xrcd *no_open_xrcd(struct ibv_context *context,
				     struct ibv_xrcd_init_attr *xrcd_init_attr)
{
	return NO_ENTRY_NULL();
}

static int no_close_xrcd(struct ibv_xrcd *xrcd)
{
	return NO_ENTRY();
}

void unsupported_ops(struct verbs_context *vctx)
{
	struct ibv_context_ops *ops = &vctx->context.ops;

	ops->alloc_mw = no_alloc_mw;
	ops->bind_mw = no_bind_mw;
	ops->dealloc_mw = no_dealloc_mw;
	ops->poll_cq = no_poll_cq;
	ops->req_notify_cq = no_req_notify_cq;
	ops->post_srq_recv = no_post_srq_recv;
	ops->post_send = no_post_send;
	ops->post_recv = no_post_recv;

	vctx->free_buf = no_free_buf;
	vctx->alloc_buf = no_alloc_buf;
	vctx->dm_export_dmabuf_fd = no_dm_export_dmabuf_fd;
	vctx->reg_mr_ex = no_reg_mr_ex;
	vctx->dealloc_dmah = no_dealloc_dmah;
	vctx->alloc_dmah = no_alloc_dmah;
	vctx->query_port = no_query_port;
	vctx->advise_mr = no_advise_mr;
	vctx->alloc_null_mr = no_alloc_null_mr;
	vctx->read_counters = no_read_counters;
	vctx->attach_counters_point_flow = no_attach_counters_point_flow;
	vctx->create_counters = no_create_counters;
	vctx->destroy_counters = no_destroy_counters;
	vctx->reg_dm_mr = no_reg_dm_mr;
	vctx->alloc_dm = no_alloc_dm;
	vctx->free_dm = no_free_dm;
	vctx->modify_flow_action_esp = no_modify_flow_action_esp;
	vctx->destroy_flow_action = no_destroy_flow_action;
	vctx->create_flow_action_esp = no_create_flow_action_esp;
	vctx->modify_qp_rate_limit = no_modify_qp_rate_limit;
	vctx->alloc_parent_domain = no_alloc_parent_domain;
	vctx->dealloc_td = no_dealloc_td;
	vctx->alloc_td = no_alloc_td;
	vctx->modify_cq = no_modify_cq;
	vctx->post_srq_ops = no_post_srq_ops;
	vctx->destroy_rwq_ind_table = no_destroy_rwq_ind_table;
	vctx->create_rwq_ind_table = no_create_rwq_ind_table;
	vctx->destroy_wq = no_destroy_wq;
	vctx->modify_wq = no_modify_wq;
	vctx->create_wq = no_create_wq;
	vctx->query_rt_values = no_query_rt_values;
	vctx->create_cq_ex = no_create_cq_ex;
	vctx->query_device_ex = no_query_device_ex;
	vctx->ibv_destroy_flow = no_destroy_flow;
	vctx->ibv_create_flow = no_create_flow;
	vctx->open_qp = no_open_qp;
	vctx->create_qp_ex = no_create_qp_ex;
	vctx->get_srq_num = no_get_srq_num;
	vctx->create_srq_ex = no_create_srq_ex;
	vctx->open_xrcd = no_open_xrcd;
	vctx->close_xrcd = no_close_xrcd;
	vctx->sz = sizeof(*vctx);
	vctx->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
}
