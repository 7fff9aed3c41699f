/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The adapter as a whole: its tables, and what it says of itself.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbatim.h>

#include "device/adapter.h"
#include "device/qp.h"

/* What Linux's software adapters give as vendor: no OUI. */
enum {
	VENDOR_ID = 0xffffff,
	PAGE_SIZES = 0xfffff000,
	/* 4.096 us x 2^15 = 134 ms: threads answer, and a scheduler may let them wait. As rxe says.
	 */
	ACK_DELAY = 15,
};

int adapter_init(struct adapter *adapter, const char *name, uint64_t guid, uint32_t slot,
		 const struct adapter_host *host, void *host_data)
{
	memset(adapter, 0, sizeof(*adapter));
	snprintf(adapter->name, sizeof(adapter->name), "%s", name);
	adapter->node_guid = guid;
	adapter->slot = slot;
	adapter->host = host;
	adapter->host_data = host_data;
	table_init(&adapter->qps, 1u << QPN_SLOT_SHIFT);
	table_init(&adapter->mrs, MAX_MR);
	/* so that regions of one process, imported in another, mostly find their places free */
	adapter->mrs.next = slot * (MAX_MR / QPN_SLOTS);
	table_init(&adapter->mws, MAX_MW);
	table_init(&adapter->srqs, MAX_SRQ);
	port_init(&adapter->port);
	mcast_init(&adapter->mcast);
	flow_table_init(&adapter->flows);
	pthread_mutex_init(&adapter->lock, NULL);
	depot_init(&adapter->depot);
	pool_init(&adapter->pool, ADAPTER_POOL);
	CDS_INIT_LIST_HEAD(&adapter->domains);
	return 0;
}

void adapter_fini(struct adapter *adapter)
{
	pool_fini(&adapter->pool);
	depot_fini(&adapter->depot);
	pthread_mutex_destroy(&adapter->lock);
	flow_table_fini(&adapter->flows);
	mcast_fini(&adapter->mcast);
	port_fini(&adapter->port);
	table_fini(&adapter->srqs);
	table_fini(&adapter->mws);
	table_fini(&adapter->mrs);
	table_fini(&adapter->qps);
}

static void describe_basic(const struct adapter *adapter, struct ibv_device_attr *attr)
{
	strcpy(attr->fw_ver, "0.1.0");
	attr->node_guid = adapter->node_guid;
	attr->sys_image_guid = adapter->node_guid;
	attr->max_mr_size = UINT64_MAX;
	attr->page_size_cap = PAGE_SIZES;
	attr->vendor_id = VENDOR_ID;
	attr->max_qp = MAX_QP;
	attr->max_qp_wr = MAX_QP_WR;
	attr->device_cap_flags = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
				 IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_CURR_QP_STATE_MOD |
				 IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
				 IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
				 IBV_DEVICE_XRC | IBV_DEVICE_MANAGED_FLOW_STEERING |
				 IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2A |
				 IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS;
	attr->max_sge = MAX_SGE;
	attr->max_sge_rd = MAX_SGE;
	attr->max_cq = MAX_CQ;
	attr->max_cqe = MAX_CQE;
	attr->max_mr = MAX_MR - 1;
	attr->max_mw = MAX_MW - 1;
	attr->max_pd = MAX_PD;
	attr->max_qp_rd_atom = MAX_RD_ATOMIC;
	attr->max_res_rd_atom = MAX_QP * MAX_RD_ATOMIC;
	attr->max_qp_init_rd_atom = MAX_RD_ATOMIC;
	/* CPU instructions do them, so GLOB would be true too; but what relies on that fails on
	 * hardware. */
	attr->atomic_cap = IBV_ATOMIC_HCA;
	attr->max_mcast_grp = MAX_MCAST_GRP;
	attr->max_mcast_qp_attach = MAX_MCAST_QP_ATTACH;
	attr->max_total_mcast_qp_attach = MAX_MCAST_QP_ATTACH;
	attr->max_ah = MAX_AH;
	attr->max_srq = MAX_SRQ - 1;
	attr->max_srq_wr = MAX_SRQ_WR;
	attr->max_srq_sge = MAX_SGE;
	attr->max_pkeys = MAX_PKEYS;
	attr->local_ca_ack_delay = ACK_DELAY;
	attr->phys_port_cnt = 1;
}

void adapter_describe(const struct adapter *adapter, struct ibv_device_attr_ex *attr)
{
	const uint32_t datagrams =
	    IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;

	memset(attr, 0, sizeof(*attr));
	describe_basic(adapter, &attr->orig_attr);
	/* Nothing is ever pinned: every region is on demand, the whole address space too. */
	attr->odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	attr->odp_caps.per_transport_caps.ud_odp_caps = datagrams;
	attr->odp_caps.per_transport_caps.uc_odp_caps = datagrams | IBV_ODP_SUPPORT_WRITE;
	attr->odp_caps.per_transport_caps.rc_odp_caps =
	    datagrams | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
	attr->xrc_odp_caps = attr->odp_caps.per_transport_caps.rc_odp_caps;
	attr->max_dm_size = MAX_DM_SIZE;
	attr->completion_timestamp_mask = UINT64_MAX;
	attr->rss_caps.supported_qpts = 1 << IBV_QPT_RAW_PACKET;
	attr->rss_caps.max_rwq_indirection_tables = MAX_QP;
	attr->rss_caps.max_rwq_indirection_table_size = 1 << MAX_LOG_TABLE;
	attr->rss_caps.rx_hash_fields_mask = HASH_FIELDS;
	attr->rss_caps.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ;
	attr->max_wq_type_rq = MAX_QP;
	attr->raw_packet_caps = IBV_RAW_PACKET_CAP_CVLAN_STRIPPING;
	attr->packet_pacing_caps.qp_rate_limit_min = 1;
	attr->packet_pacing_caps.qp_rate_limit_max = UINT32_MAX;
	attr->packet_pacing_caps.supported_qpts =
	    1 << IBV_QPT_RC | 1 << IBV_QPT_UC | 1 << IBV_QPT_UD | 1 << IBV_QPT_XRC_SEND;
	attr->tm_caps.max_rndv_hdr_size = MAX_RNDV_HEADER;
	attr->tm_caps.max_num_tags = MAX_TAGS;
	attr->tm_caps.flags = IBV_TM_CAP_RC;
	attr->tm_caps.max_ops = MAX_TAG_OPS;
	attr->tm_caps.max_sge = MAX_SGE;
	attr->cq_mod_caps.max_cq_count = UINT16_MAX;
	attr->cq_mod_caps.max_cq_period = UINT16_MAX;
	attr->xrc_odp_caps = attr->odp_caps.per_transport_caps.rc_odp_caps;
	attr->hca_core_clock = 1000000; /* kHz: timestamps count nanoseconds */
	attr->device_cap_flags_ex = attr->orig_attr.device_cap_flags |
				    VERBATIM_DEVICE_FLUSH_GLOBAL |
				    VERBATIM_DEVICE_FLUSH_PERSISTENT | VERBATIM_DEVICE_ATOMIC_WRITE;
	attr->phys_port_cnt_ex = 1;
}

static struct qp *find_adopted(struct adapter *adapter, uint32_t qpn)
{
	for (int i = 0; i < ADOPTED_MAX; i++) {
		struct qp *qp = atomic_load_explicit(&adapter->adopted[i], memory_order_acquire);

		if (qp && qp->number == qpn)
			return qp;
	}
	return NULL;
}

int adapter_adopt_qp(struct adapter *adapter, struct qp *qp)
{
	for (int i = 0; i < ADOPTED_MAX; i++) {
		struct qp *none = NULL;

		if (atomic_compare_exchange_strong(&adapter->adopted[i], &none, qp)) {
			atomic_fetch_add(&adapter->adopted_count, 1);
			return 0;
		}
	}
	return -ENOSPC;
}

void adapter_disown_qp(struct adapter *adapter, const struct qp *qp)
{
	for (int i = 0; i < ADOPTED_MAX; i++)
		if (atomic_load(&adapter->adopted[i]) == qp) {
			atomic_store(&adapter->adopted[i], NULL);
			atomic_fetch_sub(&adapter->adopted_count, 1);
		}
}

struct qp *adapter_find_qp(struct adapter *adapter, uint32_t qpn)
{
	if (qpn >> QPN_SLOT_SHIFT != adapter->slot)
		return atomic_load_explicit(&adapter->adopted_count, memory_order_relaxed)
			   ? find_adopted(adapter, qpn)
			   : NULL;
	return table_find(&adapter->qps, qpn & ((1u << QPN_SLOT_SHIFT) - 1));
}

void adapter_fetch_qp(const struct adapter *adapter, uint32_t qpn)
{
	table_fetch(&adapter->qps, qpn & ((1u << QPN_SLOT_SHIFT) - 1));
}
