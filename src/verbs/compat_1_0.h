/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The structs of the ABI of libibverbs 1.0, as programs of 2005 to 2007 were built with. They
 * differ from today's in places, so each object of such a program is a struct of the old shape with
 * the real object behind it, in a member that those programs never knew.
 */
#ifndef VERBS_COMPAT_1_0_H
#define VERBS_COMPAT_1_0_H

#include <infiniband/verbs.h>

struct cq_1_0;
struct srq_1_0;
struct qp_1_0;
struct send_wr_1_0;
struct recv_wr_1_0;

struct device_1_0 {
	uintptr_t refs; /* was a pointer, of no use to programs: the list and each context */
	void *sysfs_ibdev;
	struct ibv_device *real; /* was the driver's */
	struct _ibv_device_ops ops;
};

/* Programs call only five of these themselves; the others keep their places. */
struct context_ops_1_0 {
	void (*query_device)(void);
	void (*query_port)(void);
	void (*alloc_pd)(void);
	void (*dealloc_pd)(void);
	void (*reg_mr)(void);
	void (*dereg_mr)(void);
	void (*create_cq)(void);
	int (*poll_cq)(struct cq_1_0 *cq, int num_entries, struct ibv_wc *wc);
	int (*req_notify_cq)(struct cq_1_0 *cq, int solicited_only);
	void (*cq_event)(void);
	void (*resize_cq)(void);
	void (*destroy_cq)(void);
	void (*create_srq)(void);
	void (*modify_srq)(void);
	void (*query_srq)(void);
	void (*destroy_srq)(void);
	int (*post_srq_recv)(struct srq_1_0 *srq, struct recv_wr_1_0 *wr,
			     struct recv_wr_1_0 **bad_wr);
	void (*create_qp)(void);
	void (*query_qp)(void);
	void (*modify_qp)(void);
	void (*destroy_qp)(void);
	int (*post_send)(struct qp_1_0 *qp, struct send_wr_1_0 *wr, struct send_wr_1_0 **bad_wr);
	int (*post_recv)(struct qp_1_0 *qp, struct recv_wr_1_0 *wr, struct recv_wr_1_0 **bad_wr);
	void (*create_ah)(void);
	void (*destroy_ah)(void);
	void (*attach_mcast)(void);
	void (*detach_mcast)(void);
};

struct context_1_0 {
	struct device_1_0 *device;
	struct context_ops_1_0 ops;
	int cmd_fd;
	int async_fd;
	int num_comp_vectors;
	struct ibv_context *real;
};

struct pd_1_0 {
	struct context_1_0 *context;
	uint32_t handle;
	struct ibv_pd *real;
};

struct mr_1_0 {
	struct context_1_0 *context;
	struct pd_1_0 *pd;
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
	struct ibv_mr *real;
};

struct cq_1_0 {
	struct context_1_0 *context;
	void *cq_context;
	uint32_t handle;
	int cqe;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed;
	uint32_t async_events_completed;
	struct ibv_cq *real;
};

struct srq_1_0 {
	struct context_1_0 *context;
	void *srq_context;
	struct pd_1_0 *pd;
	uint32_t handle;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
	struct ibv_srq *real;
};

struct qp_init_attr_1_0 {
	void *qp_context;
	struct cq_1_0 *send_cq;
	struct cq_1_0 *recv_cq;
	struct srq_1_0 *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;
};

struct qp_1_0 {
	struct context_1_0 *context;
	void *qp_context;
	struct pd_1_0 *pd;
	struct cq_1_0 *send_cq;
	struct cq_1_0 *recv_cq;
	struct srq_1_0 *srq;
	uint32_t handle;
	uint32_t qp_num;
	enum ibv_qp_state state;
	enum ibv_qp_type qp_type;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
	struct ibv_qp *real;
};

struct ah_1_0 {
	struct context_1_0 *context;
	struct pd_1_0 *pd;
	uint32_t handle;
	struct ibv_ah *real;
};

struct send_wr_1_0 {
	struct send_wr_1_0 *next;
	uint64_t wr_id;
	struct ibv_sge *sg_list;
	int num_sge;
	enum ibv_wr_opcode opcode;
	int send_flags;
	__be32 imm_data;
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr;
			uint64_t compare_add;
			uint64_t swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct ah_1_0 *ah;
			uint32_t remote_qpn;
			uint32_t remote_qkey;
		} ud;
	} wr;
};

struct recv_wr_1_0 {
	struct recv_wr_1_0 *next;
	uint64_t wr_id;
	struct ibv_sge *sg_list;
	int num_sge;
};

#endif
