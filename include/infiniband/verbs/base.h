/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What all verbs headers lean on: the system's headers, GIDs, and the names of the objects, so that
 * each header can stand alone. Programs include <infiniband/verbs.h>.
 */
#ifndef INFINIBAND_VERBS_BASE_H
#define INFINIBAND_VERBS_BASE_H

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <linux/if_ether.h>
#include <linux/types.h>
#include <infiniband/verbs_api.h>

#ifdef __cplusplus
#include <limits>
extern "C" {
#endif

struct ibv_ah;
struct ibv_ah_attr;
struct ibv_alloc_dm_attr;
struct ibv_async_event;
struct ibv_buf;
struct ibv_comp_channel;
struct ibv_context;
struct ibv_counter_attach_attr;
struct ibv_counters;
struct ibv_counters_init_attr;
struct ibv_cq;
struct ibv_cq_ex;
struct ibv_cq_init_attr_ex;
struct ibv_device;
struct ibv_device_attr;
struct ibv_device_attr_ex;
struct ibv_dm;
struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_ece;
struct ibv_flow;
struct ibv_flow_action;
struct ibv_flow_action_esp_attr;
struct ibv_flow_attr;
struct ibv_grh;
struct ibv_modify_cq_attr;
struct ibv_mr;
struct ibv_mr_init_attr;
struct ibv_mw;
struct ibv_mw_bind;
struct ibv_ops_wr;
struct ibv_parent_domain_init_attr;
struct ibv_pd;
struct ibv_port_attr;
struct ibv_qp;
struct ibv_qp_attr;
struct ibv_qp_ex;
struct ibv_qp_init_attr;
struct ibv_qp_init_attr_ex;
struct ibv_qp_open_attr;
struct ibv_qp_rate_limit_attr;
struct ibv_query_device_ex_input;
struct ibv_recv_wr;
struct ibv_rwq_ind_table;
struct ibv_rwq_ind_table_init_attr;
struct ibv_send_wr;
struct ibv_sge;
struct ibv_srq;
struct ibv_srq_attr;
struct ibv_srq_init_attr;
struct ibv_srq_init_attr_ex;
struct ibv_td;
struct ibv_td_init_attr;
struct ibv_values_ex;
struct ibv_wc;
struct ibv_wq;
struct ibv_wq_attr;
struct ibv_wq_init_attr;
struct ibv_xrcd;
struct ibv_xrcd_init_attr;

/* Bytes of an Ethernet address. */
#define ETHERNET_LL_SIZE ETH_ALEN

/*
 * Whether the first `sz` bytes of an extensible struct reach the field: how a callee tells an older
 * caller from a newer one.
 */
#define vext_field_avail(type, fld, sz) (offsetof(type, fld) < (sz))

/* A global identifier, 128 bits. With RoCE an IPv6 address, or ::ffff:a.b.c.d for IPv4. */
union ibv_gid {
	uint8_t raw[16];
	struct {
		__be64 subnet_prefix;
		__be64 interface_id;
	} global;
};

/* How packets of a GID look on the wire; Verbatim has ROCE_V2 entries only. */
enum ibv_gid_type {
	IBV_GID_TYPE_IB,
	IBV_GID_TYPE_ROCE_V1,
	IBV_GID_TYPE_ROCE_V2,
};

/* One row of a port's GID table, as ibv_query_gid_ex and ibv_query_gid_table give it. */
struct ibv_gid_entry {
	union ibv_gid gid;
	uint32_t gid_index;
	uint32_t port_num;
	uint32_t gid_type;     /* enum ibv_gid_type */
	uint32_t ndev_ifindex; /* the network interface it belongs to, 0 if none */
};

/* What a memory window can do, see ibv_alloc_mw. */
enum ibv_mw_type {
	IBV_MW_TYPE_1 = 1, /* bound by ibv_bind_mw; belongs to the PD */
	IBV_MW_TYPE_2 = 2, /* bound by a work request; belongs to the QP (2B) */
};

#ifdef __cplusplus
}
#endif

#endif
