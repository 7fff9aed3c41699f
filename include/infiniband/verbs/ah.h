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
 * Converts a static rate to a multiple of 2.5 Gbit/s, the rate of one lane at single data rate.
 * Rates that are no whole multiple, 14, 25, 56 and 100 Gbit/s among them, have none.
 * Returns the multiple (IBV_RATE_20_GBPS: 8), or -1 if the rate has none or is none.
 * Errors: None but the -1; errno is not touched.
 * Man: ibv_rate_to_mult(3).
 */
__attribute__((const)) int ibv_rate_to_mult(enum ibv_rate rate);

/*
 * Converts a multiple of 2.5 Gbit/s to the static rate that is exactly that.
 * Returns the rate, or IBV_RATE_MAX, which is no limit, if there is no such rate.
 * Errors: None but IBV_RATE_MAX; errno is not touched.
 * Man: ibv_rate_to_mult(3).
 */
__attribute__((const)) enum ibv_rate mult_to_ibv_rate(int mult);

/*
 * Converts a static rate to Mbit/s, as the lanes really run: IBV_RATE_100_GBPS gives 103125.
 * Returns the rate in Mbit/s, or -1 if it is none (IBV_RATE_MAX is none).
 * Errors: None but the -1; errno is not touched.
 * Man: ibv_rate_to_mbps(3).
 */
__attribute__((const)) int ibv_rate_to_mbps(enum ibv_rate rate);

/*
 * Converts Mbit/s to the static rate that is exactly that.
 * Returns the rate, or IBV_RATE_MAX, which is no limit, if there is no such rate.
 * Errors: None but IBV_RATE_MAX; errno is not touched.
 * Man: ibv_rate_to_mbps(3).
 */
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
 * Makes an address handle, the address that a datagram is sent to. `attr` is checked and resolved
 * once, here; what changes in the GID table later does not change it. RoCE needs is_global,
 * grh.dgid and grh.sgid_index. hop_limit counts towards multicast groups; all else is sent with 64.
 * Returns the handle, or NULL with errno set.
 * Errors: EINVAL: no such port, no GRH, no dgid, sl above 15, an sgid_index without an address, or
 * one of the other IP version than dgid; ENOMEM: max_ah handles, or memory.
 * Man: ibv_create_ah(3).
 */
struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);

/*
 * Destroys an address handle. A work request that was posted has its own copy of the address, and
 * goes where it was meant to; on hardware, let it complete first.
 * Errors: None: it gives 0.
 * Man: ibv_create_ah(3).
 */
int ibv_destroy_ah(struct ibv_ah *ah);

/*
 * Finds the way back to a datagram's sender, from the completion of its receive. `grh` is the head
 * of the receive's buffer: 40 bytes, in whose last 20 an IPv4 header lies if it came over IPv4. A
 * datagram to a multicast group is answered from the first address of the sender's IP version.
 * port_num is taken over unchecked.
 * Returns 0, or -1 with errno set.
 * Errors: EINVAL: the completion has no IBV_WC_GRH, or the datagram was to no address of this
 * device.
 * Man: ibv_create_ah_from_wc(3).
 */
int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
			struct ibv_grh *grh, struct ibv_ah_attr *ah_attr);

/*
 * Makes an address handle for a datagram's sender: ibv_init_ah_from_wc() and ibv_create_ah() in
 * one.
 * Returns the handle, or NULL with errno set.
 * Errors: EINVAL: what either of the two refuses; ENOMEM: max_ah handles, or memory.
 * Man: ibv_create_ah_from_wc(3).
 */
struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				     uint8_t port_num);

/*
 * Finds the Ethernet address and VLAN that packets to this address go to, as the kernel's neighbour
 * table has them. The whole of `attr` is checked, as ibv_create_ah() does; *vid is 0xffff without a
 * VLAN. It may wait for the neighbour's answer.
 * Errors: EINVAL: what ibv_create_ah() refuses; EHOSTUNREACH: the neighbour does not answer; EIO:
 * the kernel could not be asked.
 */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid);

/*
 * Lets a UD QP receive what is sent to a multicast group: a gid of ff00::/8, or ::ffff:224.0.0.0 to
 * ::ffff:239.255.255.255. The lid is InfiniBand's and not looked at. A QP may be in many groups, a
 * message comes once to each QP; attaching twice is attaching once. The first one joins the group
 * at the interface.
 * Errors: EINVAL: not a UD QP, or no multicast GID; ENOMEM: max_mcast_grp groups, or memory;
 * ENOBUFS: the kernel did not join the group, see net.ipv4.igmp_max_memberships; EIO: in the child
 * of a fork().
 * Man: ibv_attach_mcast(3); 10.5.2.
 */
int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/*
 * Takes a QP out of a multicast group. What has arrived by then is received.
 * Errors: EINVAL: the QP is not in this group, is not UD, or it is no multicast GID; EIO: in the
 * child of a fork().
 * Man: ibv_attach_mcast(3); 10.5.2.
 */
int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/* UDP source ports of RoCEv2 are from the upper quarter. */
#define IB_ROCE_UDP_ENCAP_VALID_PORT_MIN (0xC000)
#define IB_ROCE_UDP_ENCAP_VALID_PORT_MAX (0xFFFF)
#define IB_GRH_FLOWLABEL_MASK		 (0x000FFFFF)

/*
 * Computes the UDP source port that packets with a flow label are sent from: the label's upper 6
 * bits folded onto its lower 14, in the range 0xc000 to 0xffff. Both ends of a connection that use
 * the same label get the same port, so that routers spread connections and keep each on one path.
 * Returns the port, in host byte order.
 * Errors: None.
 */
static inline uint16_t ibv_flow_label_to_udp_sport(uint32_t fl)
{
	uint32_t folded = (fl & 0x03FFF) ^ ((fl & 0xFC000) >> 14);

	return (uint16_t)(folded | IB_ROCE_UDP_ENCAP_VALID_PORT_MIN);
}

#ifdef __cplusplus
}
#endif

#endif
