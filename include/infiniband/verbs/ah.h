/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses: how to reach a port, as a connected QP's path or as the address handle of a datagram,
 * and the multicast groups a UD QP listens to.
 */
#ifndef INFINIBAND_VERBS_AH_H
#define INFINIBAND_VERBS_AH_H

#include <infiniband/verbs/context.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_global_route {
	union ibv_gid dgid;  /* the peer; with RoCE its IP address */
	uint32_t flow_label; /* 20 bits; with RoCE it also picks the UDP source port */
	uint8_t sgid_index;  /* our row in the port's GID table */
	uint8_t hop_limit;   /* TTL */
	uint8_t traffic_class;
};

/* The global route header on the wire, also at the head of each datagram's buffer. */
struct ibv_grh {
	__be32 version_tclass_flow; /* 4, 8 and 20 bits */
	__be16 paylen;
	uint8_t next_hdr;
	uint8_t hop_limit;
	union ibv_gid sgid;
	union ibv_gid dgid;
};

/* Static rates, as the wire codes them; 0 is no limit. */
enum ibv_rate {
	IBV_RATE_MAX = 0,
	IBV_RATE_2_5_GBPS = 2,
	IBV_RATE_5_GBPS = 5,
	IBV_RATE_10_GBPS = 3,
	IBV_RATE_20_GBPS = 6,
	IBV_RATE_30_GBPS = 4,
	IBV_RATE_40_GBPS = 7,
	IBV_RATE_60_GBPS = 8,
	IBV_RATE_80_GBPS = 9,
	IBV_RATE_120_GBPS = 10,
	IBV_RATE_14_GBPS = 11,
	IBV_RATE_56_GBPS = 12,
	IBV_RATE_112_GBPS = 13,
	IBV_RATE_168_GBPS = 14,
	IBV_RATE_25_GBPS = 15,
	IBV_RATE_100_GBPS = 16,
	IBV_RATE_200_GBPS = 17,
	IBV_RATE_300_GBPS = 18,
	IBV_RATE_28_GBPS = 19,
	IBV_RATE_50_GBPS = 20,
	IBV_RATE_400_GBPS = 21,
	IBV_RATE_600_GBPS = 22,
	IBV_RATE_800_GBPS = 23,
	IBV_RATE_1200_GBPS = 24,
};

/*
 * A rate as a multiple of 2.5 Gbit/s, or -1 if it is none; and back, IBV_RATE_MAX if there is no
 * such rate. Man: ibv_rate_to_mult(3).
 */
__attribute__((const)) int ibv_rate_to_mult(enum ibv_rate rate);
__attribute__((const)) enum ibv_rate mult_to_ibv_rate(int mult);

/* The same in Mbit/s. Man: ibv_rate_to_mbps(3). */
__attribute__((const)) int ibv_rate_to_mbps(enum ibv_rate rate);
__attribute__((const)) enum ibv_rate mbps_to_ibv_rate(int mbps);

struct ibv_ah_attr {
	struct ibv_global_route grh; /* used if is_global, which RoCE requires */
	uint16_t dlid;		     /* InfiniBand only */
	uint8_t sl;
	uint8_t src_path_bits;
	uint8_t static_rate; /* enum ibv_rate */
	uint8_t is_global;
	uint8_t port_num;
};

struct ibv_ah {
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint32_t handle;
};

/*
 * An address to send datagrams to. errno EINVAL: no such port or GID index, no GRH on RoCE, no
 * dgid, or one of the other IP version than the source's GID; ENOMEM. Man: ibv_create_ah(3).
 */
struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);

/* Work requests that name it must have completed. Man: ibv_create_ah(3). */
int ibv_destroy_ah(struct ibv_ah *ah);

/*
 * From a received datagram the way back to its sender. `grh` is the head of the buffer and is
 * looked at if wc->wc_flags has IBV_WC_GRH, as all of RoCE have. 0, or -1 with errno (EINVAL: it is
 * none, or did not come to this device). Man: ibv_create_ah_from_wc(3).
 */
int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
			struct ibv_grh *grh, struct ibv_ah_attr *ah_attr);

/* The same, as an address handle. Man: ibv_create_ah_from_wc(3). */
struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				     uint8_t port_num);

/*
 * The Ethernet address and VLAN that packets to this address go to; *vid is 0xffff without VLAN.
 * A positive errno if the neighbour cannot be found.
 */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid);

/*
 * A UD QP joins a multicast group: gid ff0e::... or ::ffff:224..239.x.y.z; lid 0 with RoCE. A QP
 * may join several, a message comes once to each QP. EINVAL: not a UD QP, or no multicast GID.
 * Man: ibv_attach_mcast(3).
 */
int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/* EINVAL: it is not in this group. Man: ibv_attach_mcast(3). */
int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/* UDP source ports of RoCEv2 are from the upper quarter. */
#define IB_ROCE_UDP_ENCAP_VALID_PORT_MIN (0xC000)
#define IB_ROCE_UDP_ENCAP_VALID_PORT_MAX (0xFFFF)
#define IB_GRH_FLOWLABEL_MASK		 (0x000FFFFF)

/* The UDP source port that goes with a flow label: its upper 6 bits folded onto the lower 14. */
static inline uint16_t ibv_flow_label_to_udp_sport(uint32_t fl)
{
	uint32_t folded = (fl & 0x03FFF) ^ ((fl & 0xFC000) >> 14);

	return (uint16_t)(folded | IB_ROCE_UDP_ENCAP_VALID_PORT_MIN);
}

#ifdef __cplusplus
}
#endif

#endif
