// SPDX-License-Identifier: BSD-2-Clause
/*
 * The objects' own verbs, until the files that implement them are there: they refuse, so that the
 * library links and loads. What lands takes its functions out of here; the last one takes the file.
 */
#include "verbs/unsupported.h"

/* The headers put macros over these. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	if (num_devices)
		*num_devices = 0;
	return NOT_IMPLEMENTED_NULL();
}

void ibv_free_device_list(struct ibv_device **list)
{
	NOT_IMPLEMENTED();
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return NOT_IMPLEMENTED_NULL();
}

int ibv_get_device_index(struct ibv_device *device)
{
	errno = NOT_IMPLEMENTED();
	return -1;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	NOT_IMPLEMENTED();
	return 0;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	return NOT_IMPLEMENTED_NULL();
}

int ibv_close_device(struct ibv_context *context)
{
	return NOT_IMPLEMENTED();
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *device_attr)
{
	return NOT_IMPLEMENTED();
}

int ibv_query_port(struct ibv_context *context, uint8_t port_num,
		   struct _compat_ibv_port_attr *port_attr)
{
	return NOT_IMPLEMENTED();
}

int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	errno = NOT_IMPLEMENTED();
	return -1;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	return NOT_IMPLEMENTED();
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t max_entries, uint32_t flags, size_t entry_size)
{
	return -NOT_IMPLEMENTED();
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	errno = NOT_IMPLEMENTED();
	return -1;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	errno = NOT_IMPLEMENTED();
	return -1;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	return NOT_IMPLEMENTED_NULL();
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return NOT_IMPLEMENTED();
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return NOT_IMPLEMENTED_NULL();
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access)
{
	return NOT_IMPLEMENTED_NULL();
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	return NOT_IMPLEMENTED_NULL();
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	return NOT_IMPLEMENTED();
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	return NOT_IMPLEMENTED_NULL();
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	return NOT_IMPLEMENTED();
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	return NOT_IMPLEMENTED_NULL();
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	return NOT_IMPLEMENTED();
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	return NOT_IMPLEMENTED();
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	errno = NOT_IMPLEMENTED();
	return -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	NOT_IMPLEMENTED();
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *srq_init_attr)
{
	return NOT_IMPLEMENTED_NULL();
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr, int srq_attr_mask)
{
	return NOT_IMPLEMENTED();
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr)
{
	return NOT_IMPLEMENTED();
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	return NOT_IMPLEMENTED();
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr)
{
	return NOT_IMPLEMENTED_NULL();
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return NOT_IMPLEMENTED_NULL();
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	return NOT_IMPLEMENTED();
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		 struct ibv_qp_init_attr *init_attr)
{
	return NOT_IMPLEMENTED();
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	return NOT_IMPLEMENTED();
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	return NOT_IMPLEMENTED_NULL();
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	return NOT_IMPLEMENTED();
}

int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
			struct ibv_grh *grh, struct ibv_ah_attr *ah_attr)
{
	errno = NOT_IMPLEMENTED();
	return -1;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				     uint8_t port_num)
{
	return NOT_IMPLEMENTED_NULL();
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return NOT_IMPLEMENTED();
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return NOT_IMPLEMENTED();
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	errno = NOT_IMPLEMENTED();
	return -1;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	NOT_IMPLEMENTED();
}

/* Private, but some programs know it: the type of a GID. ibv_gid_type's rdma-core sysfs form. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
		       int *type);
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index, int *type)
{
	errno = NOT_IMPLEMENTED();
	return -1;
}
