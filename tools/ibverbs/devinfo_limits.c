/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of `ibv_devinfo -v` about the device: limits, and what it can do.
 */
#include <stdio.h>

#include "devinfo.h"

struct bit {
	uint64_t bit;
	const char *name;
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void print_bits(const struct bit *bits, size_t count, uint64_t value)
{
	for (size_t i = 0; i < count; i++)
		if (value & bits[i].bit)
			printf("\t\t\t\t\t%s\n", bits[i].name);
}

static uint64_t all_of(const struct bit *bits, size_t count)
{
	uint64_t all = 0;

	while (count--)
		all |= bits[count].bit;
	return all;
}

static void print_caps(unsigned int flags)
{
	static const struct bit caps[] = {
	    {IBV_DEVICE_RESIZE_MAX_WR, "RESIZE_MAX_WR"},
	    {IBV_DEVICE_BAD_PKEY_CNTR, "BAD_PKEY_CNTR"},
	    {IBV_DEVICE_BAD_QKEY_CNTR, "BAD_QKEY_CNTR"},
	    {IBV_DEVICE_RAW_MULTI, "RAW_MULTI"},
	    {IBV_DEVICE_AUTO_PATH_MIG, "AUTO_PATH_MIG"},
	    {IBV_DEVICE_CHANGE_PHY_PORT, "CHANGE_PHY_PORT"},
	    {IBV_DEVICE_UD_AV_PORT_ENFORCE, "UD_AV_PORT_ENFORCE"},
	    {IBV_DEVICE_CURR_QP_STATE_MOD, "CURR_QP_STATE_MOD"},
	    {IBV_DEVICE_SHUTDOWN_PORT, "SHUTDOWN_PORT"},
	    {IBV_DEVICE_INIT_TYPE, "INIT_TYPE"},
	    {IBV_DEVICE_PORT_ACTIVE_EVENT, "PORT_ACTIVE_EVENT"},
	    {IBV_DEVICE_SYS_IMAGE_GUID, "SYS_IMAGE_GUID"},
	    {IBV_DEVICE_RC_RNR_NAK_GEN, "RC_RNR_NAK_GEN"},
	    {IBV_DEVICE_SRQ_RESIZE, "SRQ_RESIZE"},
	    {IBV_DEVICE_N_NOTIFY_CQ, "N_NOTIFY_CQ"},
	    {IBV_DEVICE_MEM_WINDOW, "MEM_WINDOW"},
	    {IBV_DEVICE_UD_IP_CSUM, "UD_IP_CSUM"},
	    {IBV_DEVICE_XRC, "XRC"},
	    {IBV_DEVICE_MEM_MGT_EXTENSIONS, "MEM_MGT_EXTENSIONS"},
	    {IBV_DEVICE_MEM_WINDOW_TYPE_2A, "MEM_WINDOW_TYPE_2A"},
	    {IBV_DEVICE_MEM_WINDOW_TYPE_2B, "MEM_WINDOW_TYPE_2B"},
	    {IBV_DEVICE_RC_IP_CSUM, "RC_IP_CSUM"},
	    {IBV_DEVICE_RAW_IP_CSUM, "RAW_IP_CSUM"},
	    {IBV_DEVICE_MANAGED_FLOW_STEERING, "MANAGED_FLOW_STEERING"},
	};
	uint32_t unknown = flags & ~(uint32_t)all_of(caps, COUNT(caps));

	printf("\tdevice_cap_flags:\t\t0x%08x\n", flags);
	print_bits(caps, COUNT(caps), flags);
	if (unknown)
		printf("\t\t\t\t\tUnknown flags: 0x%X\n", unknown);
}

static const char *atomic_name(enum ibv_atomic_cap cap)
{
	switch (cap) {
	case IBV_ATOMIC_NONE:
		return "ATOMIC_NONE";
	case IBV_ATOMIC_HCA:
		return "ATOMIC_HCA";
	case IBV_ATOMIC_GLOB:
		return "ATOMIC_GLOB";
	}
	return "invalid atomic capability";
}

static void print_counts(const struct ibv_device_attr *attr)
{
	printf("\tmax_mr_size:\t\t\t0x%llx\n", (unsigned long long)attr->max_mr_size);
	printf("\tpage_size_cap:\t\t\t0x%llx\n", (unsigned long long)attr->page_size_cap);
	printf("\tmax_qp:\t\t\t\t%d\n", attr->max_qp);
	printf("\tmax_qp_wr:\t\t\t%d\n", attr->max_qp_wr);
	print_caps(attr->device_cap_flags);
	printf("\tmax_sge:\t\t\t%d\n", attr->max_sge);
	printf("\tmax_sge_rd:\t\t\t%d\n", attr->max_sge_rd);
	printf("\tmax_cq:\t\t\t\t%d\n", attr->max_cq);
	printf("\tmax_cqe:\t\t\t%d\n", attr->max_cqe);
	printf("\tmax_mr:\t\t\t\t%d\n", attr->max_mr);
	printf("\tmax_pd:\t\t\t\t%d\n", attr->max_pd);
	printf("\tmax_qp_rd_atom:\t\t\t%d\n", attr->max_qp_rd_atom);
	printf("\tmax_ee_rd_atom:\t\t\t%d\n", attr->max_ee_rd_atom);
	printf("\tmax_res_rd_atom:\t\t%d\n", attr->max_res_rd_atom);
	printf("\tmax_qp_init_rd_atom:\t\t%d\n", attr->max_qp_init_rd_atom);
	printf("\tmax_ee_init_rd_atom:\t\t%d\n", attr->max_ee_init_rd_atom);
	printf("\tatomic_cap:\t\t\t%s (%d)\n", atomic_name(attr->atomic_cap), attr->atomic_cap);
	printf("\tmax_ee:\t\t\t\t%d\n", attr->max_ee);
	printf("\tmax_rdd:\t\t\t%d\n", attr->max_rdd);
	printf("\tmax_mw:\t\t\t\t%d\n", attr->max_mw);
	printf("\tmax_raw_ipv6_qp:\t\t%d\n", attr->max_raw_ipv6_qp);
	printf("\tmax_raw_ethy_qp:\t\t%d\n", attr->max_raw_ethy_qp);
	printf("\tmax_mcast_grp:\t\t\t%d\n", attr->max_mcast_grp);
	printf("\tmax_mcast_qp_attach:\t\t%d\n", attr->max_mcast_qp_attach);
	printf("\tmax_total_mcast_qp_attach:\t%d\n", attr->max_total_mcast_qp_attach);
	printf("\tmax_ah:\t\t\t\t%d\n", attr->max_ah);
	printf("\tmax_fmr:\t\t\t%d\n", attr->max_fmr);
	if (attr->max_fmr)
		printf("\tmax_map_per_fmr:\t\t%d\n", attr->max_map_per_fmr);
	printf("\tmax_srq:\t\t\t%d\n", attr->max_srq);
	if (attr->max_srq) {
		printf("\tmax_srq_wr:\t\t\t%d\n", attr->max_srq_wr);
		printf("\tmax_srq_sge:\t\t\t%d\n", attr->max_srq_sge);
	}
	printf("\tmax_pkeys:\t\t\t%d\n", attr->max_pkeys);
	printf("\tlocal_ca_ack_delay:\t\t%d\n", attr->local_ca_ack_delay);
}

static void print_odp_transport(const char *name, uint32_t caps)
{
	static const struct bit bits[] = {
	    {IBV_ODP_SUPPORT_SEND, "SUPPORT_SEND"},	{IBV_ODP_SUPPORT_RECV, "SUPPORT_RECV"},
	    {IBV_ODP_SUPPORT_WRITE, "SUPPORT_WRITE"},	{IBV_ODP_SUPPORT_READ, "SUPPORT_READ"},
	    {IBV_ODP_SUPPORT_ATOMIC, "SUPPORT_ATOMIC"}, {IBV_ODP_SUPPORT_SRQ_RECV, "SUPPORT_SRQ"},
	};
	uint32_t unknown = caps & ~(uint32_t)all_of(bits, COUNT(bits));

	printf("\t%s_odp_caps:\n", name);
	if (!caps)
		printf("\t\t\t\t\tNO SUPPORT\n");
	print_bits(bits, COUNT(bits), caps);
	if (unknown)
		printf("\t\t\t\t\tUnknown flags: 0x%X\n", unknown);
}

static void print_odp(const struct ibv_device_attr_ex *attr)
{
	static const struct bit bits[] = {
	    {IBV_ODP_SUPPORT, "ODP_SUPPORT"},
	    {IBV_ODP_SUPPORT_IMPLICIT, "ODP_SUPPORT_IMPLICIT"},
	};
	uint64_t unknown = attr->odp_caps.general_caps & ~all_of(bits, COUNT(bits));

	printf("\tgeneral_odp_caps:\n");
	print_bits(bits, COUNT(bits), attr->odp_caps.general_caps);
	if (unknown)
		printf("\t\t\t\t\tUnknown flags: 0x%llX\n", (unsigned long long)unknown);
	print_odp_transport("rc", attr->odp_caps.per_transport_caps.rc_odp_caps);
	print_odp_transport("uc", attr->odp_caps.per_transport_caps.uc_odp_caps);
	print_odp_transport("ud", attr->odp_caps.per_transport_caps.ud_odp_caps);
	print_odp_transport("xrc", attr->xrc_odp_caps);
}

static void print_clocks(const struct ibv_device_attr_ex *attr)
{
	if (attr->completion_timestamp_mask)
		printf("\tcompletion timestamp_mask:\t\t\t0x%016llx\n",
		       (unsigned long long)attr->completion_timestamp_mask);
	else
		printf("\tcompletion_timestamp_mask not supported\n");
	if (attr->hca_core_clock)
		printf("\thca_core_clock:\t\t\t%llukHZ\n",
		       (unsigned long long)attr->hca_core_clock);
	else
		printf("\tcore clock not supported\n");
}

static void print_raw_packet(uint32_t caps)
{
	static const struct bit bits[] = {
	    {IBV_RAW_PACKET_CAP_CVLAN_STRIPPING, "C-VLAN stripping offload"},
	    {IBV_RAW_PACKET_CAP_SCATTER_FCS, "Scatter FCS offload"},
	    {IBV_RAW_PACKET_CAP_IP_CSUM, "IP csum offload"},
	    {IBV_RAW_PACKET_CAP_DELAY_DROP, "Delay drop"},
	};

	if (!caps)
		return;
	printf("\traw packet caps:\n");
	print_bits(bits, COUNT(bits), caps);
}

/* The flags word of 64 bits: what it shares with the 32-bit one is named there. */
static void print_caps_ex(uint64_t flags, uint32_t named)
{
	static const struct bit bits[] = {
	    {IBV_DEVICE_RAW_SCATTER_FCS, "RAW_SCATTER_FCS"},
	    {IBV_DEVICE_PCI_WRITE_END_PADDING, "PCI_WRITE_END_PADDING"},
	};
	uint64_t unknown = flags & ~(named | all_of(bits, COUNT(bits)));

	printf("\tdevice_cap_flags_ex:\t\t0x%llX\n", (unsigned long long)flags);
	print_bits(bits, COUNT(bits), flags);
	if (unknown)
		printf("\t\t\t\t\tUnknown flags: 0x%llX\n", (unsigned long long)unknown);
}

static void print_supported_qps(uint32_t types)
{
	static const struct bit bits[] = {
	    {1U << IBV_QPT_RAW_PACKET, "SUPPORT_RAW_PACKET"},
	    {1U << IBV_QPT_UD, "SUPPORT_UD"},
	};
	uint32_t unknown = types & ~(uint32_t)all_of(bits, COUNT(bits));

	printf("\t\tsupported_qp:\n");
	print_bits(bits, COUNT(bits), types);
	if (unknown)
		printf("\t\t\t\t\tUnknown flags: 0x%X\n", unknown);
}

static void print_offloads(const struct ibv_device_attr_ex *attr)
{
	printf("\ttso_caps:\n");
	printf("\t\tmax_tso:\t\t\t%u\n", attr->tso_caps.max_tso);
	if (attr->tso_caps.max_tso)
		print_supported_qps(attr->tso_caps.supported_qpts);
	printf("\trss_caps:\n");
	printf("\t\tmax_rwq_indirection_tables:\t\t\t%u\n",
	       attr->rss_caps.max_rwq_indirection_tables);
	printf("\t\tmax_rwq_indirection_table_size:\t\t\t%u\n",
	       attr->rss_caps.max_rwq_indirection_table_size);
	printf("\t\trx_hash_function:\t\t\t\t0x%x\n", attr->rss_caps.rx_hash_function);
	printf("\t\trx_hash_fields_mask:\t\t\t\t0x%llX\n",
	       (unsigned long long)attr->rss_caps.rx_hash_fields_mask);
	if (attr->rss_caps.max_rwq_indirection_tables)
		print_supported_qps(attr->rss_caps.supported_qpts);
	printf("\tmax_wq_type_rq:\t\t\t%u\n", attr->max_wq_type_rq);
	printf("\tpacket_pacing_caps:\n");
	printf("\t\tqp_rate_limit_min:\t%ukbps\n", attr->packet_pacing_caps.qp_rate_limit_min);
	printf("\t\tqp_rate_limit_max:\t%ukbps\n", attr->packet_pacing_caps.qp_rate_limit_max);
	if (attr->packet_pacing_caps.qp_rate_limit_max)
		print_supported_qps(attr->packet_pacing_caps.supported_qpts);
}

static void print_tag_matching(const struct ibv_device_attr_ex *attr)
{
	if (!attr->tm_caps.max_num_tags) {
		printf("\ttag matching not supported\n");
		return;
	}
	printf("\tmax_rndv_hdr_size:\t\t%u\n", attr->tm_caps.max_rndv_hdr_size);
	printf("\tmax_num_tags:\t\t\t%u\n", attr->tm_caps.max_num_tags);
	printf("\tmax_ops:\t\t\t%u\n", attr->tm_caps.max_ops);
	printf("\tmax_sge:\t\t\t%u\n", attr->tm_caps.max_sge);
	printf("\tflags:\n");
	if (attr->tm_caps.flags & IBV_TM_CAP_RC)
		printf("\t\t\t\t\tIBV_TM_CAP_RC\n");
}

void devinfo_print_limits(const struct ibv_device_attr_ex *attr)
{
	print_counts(&attr->orig_attr);
	print_odp(attr);
	print_clocks(attr);
	print_raw_packet(attr->raw_packet_caps);
	print_caps_ex(attr->device_cap_flags_ex, attr->orig_attr.device_cap_flags);
	print_offloads(attr);
	print_tag_matching(attr);
	if (attr->cq_mod_caps.max_cq_count) {
		printf("\n\tcq moderation caps:\n");
		printf("\t\tmax_cq_count:\t%u\n", attr->cq_mod_caps.max_cq_count);
		printf("\t\tmax_cq_period:\t%u us\n\n", attr->cq_mod_caps.max_cq_period);
	}
	if (attr->max_dm_size)
		printf("\tmaximum available device memory:\t%lluBytes\n\n",
		       (unsigned long long)attr->max_dm_size);
}
