/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports: state and limits, the GID table and the P_Key table. Ports are numbered from 1.
 */
#ifndef INFINIBAND_VERBS_PORT_H
#define INFINIBAND_VERBS_PORT_H

#include <infiniband/verbs/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Payload bytes of a packet, as the wire codes them: 128 << n. */
enum ibv_mtu {
	IBV_MTU_256 = 1,
	IBV_MTU_512 = 2,
	IBV_MTU_1024 = 3,
	IBV_MTU_2048 = 4,
	IBV_MTU_4096 = 5,
};

enum ibv_port_state {
	IBV_PORT_NOP = 0,
	IBV_PORT_DOWN = 1,
	IBV_PORT_INIT = 2,
	IBV_PORT_ARMED = 3,
	IBV_PORT_ACTIVE = 4, /* the one in which packets flow */
	IBV_PORT_ACTIVE_DEFER = 5,
};

enum {
	IBV_LINK_LAYER_UNSPECIFIED,
	IBV_LINK_LAYER_INFINIBAND,
	IBV_LINK_LAYER_ETHERNET,
};

/* Bits of ibv_port_attr.port_cap_flags: PortInfo:CapabilityMask. */
enum ibv_port_cap_flags {
	IBV_PORT_SM = 1 << 1,
	IBV_PORT_NOTICE_SUP = 1 << 2,
	IBV_PORT_TRAP_SUP = 1 << 3,
	IBV_PORT_OPT_IPD_SUP = 1 << 4,
	IBV_PORT_AUTO_MIGR_SUP = 1 << 5,
	IBV_PORT_SL_MAP_SUP = 1 << 6,
	IBV_PORT_MKEY_NVRAM = 1 << 7,
	IBV_PORT_PKEY_NVRAM = 1 << 8,
	IBV_PORT_LED_INFO_SUP = 1 << 9,
	IBV_PORT_SYS_IMAGE_GUID_SUP = 1 << 11,
	IBV_PORT_PKEY_SW_EXT_PORT_TRAP_SUP = 1 << 12,
	IBV_PORT_EXTENDED_SPEEDS_SUP = 1 << 14,
	IBV_PORT_CAP_MASK2_SUP = 1 << 15,
	IBV_PORT_CM_SUP = 1 << 16,
	IBV_PORT_SNMP_TUNNEL_SUP = 1 << 17,
	IBV_PORT_REINIT_SUP = 1 << 18,
	IBV_PORT_DEVICE_MGMT_SUP = 1 << 19,
	IBV_PORT_VENDOR_CLASS_SUP = 1 << 20,
	IBV_PORT_DR_NOTICE_SUP = 1 << 21,
	IBV_PORT_CAP_MASK_NOTICE_SUP = 1 << 22,
	IBV_PORT_BOOT_MGMT_SUP = 1 << 23,
	IBV_PORT_LINK_LATENCY_SUP = 1 << 24,
	IBV_PORT_CLIENT_REG_SUP = 1 << 25,
	IBV_PORT_IP_BASED_GIDS = 1 << 26, /* GIDs are IP addresses */
};

/* Bits of ibv_port_attr.port_cap_flags2: PortInfo:CapabilityMask2. */
enum ibv_port_cap_flags2 {
	IBV_PORT_SET_NODE_DESC_SUP = 1 << 0,
	IBV_PORT_INFO_EXT_SUP = 1 << 1,
	IBV_PORT_VIRT_SUP = 1 << 2,
	IBV_PORT_SWITCH_PORT_STATE_TABLE_SUP = 1 << 3,
	IBV_PORT_LINK_WIDTH_2X_SUP = 1 << 4,
	IBV_PORT_LINK_SPEED_HDR_SUP = 1 << 5,
	IBV_PORT_LINK_SPEED_NDR_SUP = 1 << 10,
	IBV_PORT_LINK_SPEED_XDR_SUP = 1 << 12,
};

struct ibv_port_attr {
	enum ibv_port_state state;
	enum ibv_mtu max_mtu;
	enum ibv_mtu active_mtu; /* the largest path_mtu that fits the network */
	int gid_tbl_len;
	uint32_t port_cap_flags; /* enum ibv_port_cap_flags */
	uint32_t max_msg_sz;	 /* bytes */
	uint32_t bad_pkey_cntr;
	uint32_t qkey_viol_cntr;
	uint16_t pkey_tbl_len;
	uint16_t lid; /* 0 with RoCE, as all of the LIDs */
	uint16_t sm_lid;
	uint8_t lmc;
	uint8_t max_vl_num;
	uint8_t sm_sl;
	uint8_t subnet_timeout; /* 4.096 us x 2^n */
	uint8_t init_type_reply;
	uint8_t active_width; /* lanes: 1 1x, 2 4x, 4 8x, 8 12x, 16 2x */
	uint8_t active_speed; /* of a lane: 1 SDR, 2 DDR, 4 QDR, 8 FDR10, 16 FDR, 32 EDR, 64 HDR,
				 128 NDR */
	uint8_t phys_state;   /* 3 disabled, 5 link up */
	uint8_t link_layer;   /* IBV_LINK_LAYER_... */
	uint8_t flags;	      /* IBV_QPF_GRH_REQUIRED */
	uint16_t port_cap_flags2; /* enum ibv_port_cap_flags2 */
	uint32_t active_speed_ex; /* as active_speed where 8 bits are not enough, 256 XDR; else 0 */
};

/*
 * Asks for a port's state and limits. Ports are numbered from 1; Verbatim's devices have one. It is
 * called through a macro, which tells the library how large the caller's struct is; the plain
 * function of that name, which old programs call, knows of no members from port_cap_flags2 on.
 * Errors: EINVAL: no such port.
 * Man: ibv_query_port(3).
 */
int ibv_query_port(struct ibv_context *context, uint8_t port_num,
		   struct _compat_ibv_port_attr *port_attr);

static inline int ___ibv_query_port(struct ibv_context *context, uint8_t port_num,
				    struct ibv_port_attr *port_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, query_port);

	if (vctx)
		return vctx->query_port(context, port_num, port_attr, sizeof(*port_attr));
	memset(port_attr, 0, sizeof(*port_attr));
	return ibv_query_port(context, port_num, (struct _compat_ibv_port_attr *)port_attr);
}

#define ibv_query_port(context, port_num, port_attr) ___ibv_query_port(context, port_num, port_attr)

/*
 * Asks for the speed that a port's traffic can really reach, in units of 100 Mbit/s: that of the
 * network interface.
 * Errors: EINVAL: no such port; EOPNOTSUPP: the interface does not say, as loopback and some
 * virtual ones.
 * Man: ibv_query_port_speed(3).
 */
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed);

/*
 * Gives the words for a port's state: "active", "down" and so on.
 * Returns a string that is never NULL nor to be freed: "unknown" for other values.
 * Errors: None.
 * Man: ibv_node_type_str(3).
 */
const char *ibv_port_state_str(enum ibv_port_state port_state);

/*
 * Reads a row of the port's GID table; an empty one gives zeroes. Which index to choose: one whose
 * address reaches the peer; ::ffff:a.b.c.d goes over IPv4. Row 0 is the link-local address, where
 * there is one.
 * Returns 0, or -1 with errno set.
 * Errors: EINVAL: no such port, or the index is not below gid_tbl_len.
 * Man: ibv_query_gid(3).
 */
int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid);

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size);

/*
 * Reads a row of the port's GID table with its type and network interface.
 * Errors: ENODATA: the row is empty; EINVAL: no such port, or the index is not below gid_tbl_len;
 * EOPNOTSUPP: flags is not 0.
 * Man: ibv_query_gid_ex(3).
 */
static inline int ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num,
				   uint32_t gid_index, struct ibv_gid_entry *entry, uint32_t flags)
{
	return _ibv_query_gid_ex(context, port_num, gid_index, entry, flags, sizeof(*entry));
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t max_entries, uint32_t flags, size_t entry_size);

/*
 * Reads all rows of the GID table that are in use, of all ports, into at most max_entries. The
 * table may change between two calls, see IBV_EVENT_GID_CHANGE.
 * Returns their number, or a negative errno value.
 * Errors: EINVAL: as -EINVAL: there are more than max_entries; EOPNOTSUPP: as -EOPNOTSUPP: flags is
 * not 0.
 * Man: ibv_query_gid_table(3).
 */
static inline ssize_t ibv_query_gid_table(struct ibv_context *context,
					  struct ibv_gid_entry *entries, size_t max_entries,
					  uint32_t flags)
{
	return _ibv_query_gid_table(context, entries, max_entries, flags, sizeof(*entries));
}

/*
 * Reads a row of the port's P_Key table, in network byte order; an empty one is 0. Row 0 is 0xffff,
 * the default partition, unless VERBATIM_PKEYS or verbatim_set_pkeys() says otherwise.
 * Returns 0, or -1 with errno set.
 * Errors: EINVAL: no such port, or the index is not below pkey_tbl_len.
 * Man: ibv_query_pkey(3).
 */
int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey);

/*
 * Finds where in the port's table a P_Key, in network byte order, is.
 * Returns the index, or -1 with errno set.
 * Errors: EINVAL: no such port, or the table does not have it.
 * Man: ibv_get_pkey_index(3).
 */
int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey);

#ifdef __cplusplus
}
#endif

#endif
