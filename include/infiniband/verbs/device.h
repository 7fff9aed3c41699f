/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices: finding, opening, asking what they can do.
 *
 *   list = ibv_get_device_list(&n); ctx = ibv_open_device(list[0]); ibv_free_device_list(list);
 *   ... ibv_close_device(ctx);
 *
 * With Verbatim there is a device for each network interface that is up and has an address; when
 * the list is empty, `verbatim doctor` says why.
 */
#ifndef INFINIBAND_VERBS_DEVICE_H
#define INFINIBAND_VERBS_DEVICE_H

#include <infiniband/verbs/context.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ibv_node_type {
	IBV_NODE_UNKNOWN = -1,
	IBV_NODE_CA = 1, /* InfiniBand and RoCE adapters, so Verbatim's */
	IBV_NODE_SWITCH,
	IBV_NODE_ROUTER,
	IBV_NODE_RNIC, /* iWARP */
	IBV_NODE_USNIC,
	IBV_NODE_USNIC_UDP,
	IBV_NODE_UNSPECIFIED,
};

enum ibv_transport_type {
	IBV_TRANSPORT_UNKNOWN = -1,
	IBV_TRANSPORT_IB = 0, /* also RoCE */
	IBV_TRANSPORT_IWARP,
	IBV_TRANSPORT_USNIC,
	IBV_TRANSPORT_USNIC_UDP,
	IBV_TRANSPORT_UNSPECIFIED,
};

/* Sizes of the names in struct ibv_device, with the final 0. */
enum {
	IBV_SYSFS_NAME_MAX = 64,
	IBV_SYSFS_PATH_MAX = 256,
};

/* No longer used; keeps the place. */
struct _ibv_device_ops {
	struct ibv_context *(*_dummy1)(struct ibv_device *device, int cmd_fd);
	void (*_dummy2)(struct ibv_context *context);
};

/* A device of the list, before it is opened. Read only for programs. */
struct ibv_device {
	struct _ibv_device_ops _ops;
	enum ibv_node_type node_type;
	enum ibv_transport_type transport_type;
	char name[IBV_SYSFS_NAME_MAX];	     /* "rxe0" */
	char dev_name[IBV_SYSFS_NAME_MAX];   /* "uverbs0" */
	char dev_path[IBV_SYSFS_PATH_MAX];   /* "/sys/class/infiniband_verbs/uverbs0" */
	char ibdev_path[IBV_SYSFS_PATH_MAX]; /* "/sys/class/infiniband/rxe0" */
};

/* Bits of ibv_device_attr.device_cap_flags. */
enum ibv_device_cap_flags {
	IBV_DEVICE_RESIZE_MAX_WR = 1,
	IBV_DEVICE_BAD_PKEY_CNTR = 1 << 1,
	IBV_DEVICE_BAD_QKEY_CNTR = 1 << 2,
	IBV_DEVICE_RAW_MULTI = 1 << 3,
	IBV_DEVICE_AUTO_PATH_MIG = 1 << 4,
	IBV_DEVICE_CHANGE_PHY_PORT = 1 << 5,
	IBV_DEVICE_UD_AV_PORT_ENFORCE = 1 << 6,
	IBV_DEVICE_CURR_QP_STATE_MOD = 1 << 7,
	IBV_DEVICE_SHUTDOWN_PORT = 1 << 8,
	IBV_DEVICE_INIT_TYPE = 1 << 9,
	IBV_DEVICE_PORT_ACTIVE_EVENT = 1 << 10,
	IBV_DEVICE_SYS_IMAGE_GUID = 1 << 11,
	IBV_DEVICE_RC_RNR_NAK_GEN = 1 << 12,
	IBV_DEVICE_SRQ_RESIZE = 1 << 13,
	IBV_DEVICE_N_NOTIFY_CQ = 1 << 14,
	IBV_DEVICE_MEM_WINDOW = 1 << 17,
	IBV_DEVICE_UD_IP_CSUM = 1 << 18,
	IBV_DEVICE_XRC = 1 << 20,
	IBV_DEVICE_MEM_MGT_EXTENSIONS = 1 << 21,
	IBV_DEVICE_MEM_WINDOW_TYPE_2A = 1 << 23,
	IBV_DEVICE_MEM_WINDOW_TYPE_2B = 1 << 24,
	IBV_DEVICE_RC_IP_CSUM = 1 << 25,
	IBV_DEVICE_RAW_IP_CSUM = 1 << 26,
	IBV_DEVICE_MANAGED_FLOW_STEERING = 1 << 29,
};

/* More bits, for ibv_device_attr_ex.device_cap_flags_ex: too high for an enum everywhere. */
#define IBV_DEVICE_RAW_SCATTER_FCS	 (1ULL << 34)
#define IBV_DEVICE_PCI_WRITE_END_PADDING (1ULL << 36)
#define IBV_DEVICE_CC_DMA_BOUNCE	 (1ULL << 41)

/* Atomic towards what: operations of this device only, or the processors' as well. */
enum ibv_atomic_cap {
	IBV_ATOMIC_NONE,
	IBV_ATOMIC_HCA,
	IBV_ATOMIC_GLOB,
};

/* Limits and abilities, from ibv_query_device. A limit of 0 says that there is no such object. */
struct ibv_device_attr {
	char fw_ver[64];
	__be64 node_guid;
	__be64 sys_image_guid;
	uint64_t max_mr_size;	/* bytes */
	uint64_t page_size_cap; /* bit n: pages of 2^n bytes */
	uint32_t vendor_id;
	uint32_t vendor_part_id;
	uint32_t hw_ver;
	int max_qp;
	int max_qp_wr;		       /* work requests in one queue */
	unsigned int device_cap_flags; /* enum ibv_device_cap_flags */
	int max_sge;		       /* entries of one work request, except RDMA READ */
	int max_sge_rd;		       /* entries of one RDMA READ */
	int max_cq;
	int max_cqe;
	int max_mr;
	int max_pd;
	int max_qp_rd_atom;	 /* READs and atomics that a QP serves at once */
	int max_ee_rd_atom;	 /* RD transport: unused */
	int max_res_rd_atom;	 /* the same, of all QPs */
	int max_qp_init_rd_atom; /* READs and atomics that a QP has under way at once */
	int max_ee_init_rd_atom;
	enum ibv_atomic_cap atomic_cap;
	int max_ee;
	int max_rdd;
	int max_mw;
	int max_raw_ipv6_qp;
	int max_raw_ethy_qp;
	int max_mcast_grp;
	int max_mcast_qp_attach; /* QPs of one group */
	int max_total_mcast_qp_attach;
	int max_ah;
	int max_fmr;
	int max_map_per_fmr;
	int max_srq;
	int max_srq_wr;
	int max_srq_sge;
	uint16_t max_pkeys;	    /* P_Keys of a port */
	uint8_t local_ca_ack_delay; /* 4.096 us x 2^n */
	uint8_t phys_port_cnt;	    /* ports are numbered from 1 */
};

/* For ibv_query_device_ex: no inputs are defined, comp_mask is 0. */
struct ibv_query_device_ex_input {
	uint32_t comp_mask;
};

/* On-demand paging (registering memory without pinning it), as a whole ... */
enum ibv_odp_general_caps {
	IBV_ODP_SUPPORT = 1 << 0,
	IBV_ODP_SUPPORT_IMPLICIT = 1 << 1, /* the whole address space as one region */
};

/* ... and for the operations of each transport. */
enum ibv_odp_transport_cap_bits {
	IBV_ODP_SUPPORT_SEND = 1 << 0,
	IBV_ODP_SUPPORT_RECV = 1 << 1,
	IBV_ODP_SUPPORT_WRITE = 1 << 2,
	IBV_ODP_SUPPORT_READ = 1 << 3,
	IBV_ODP_SUPPORT_ATOMIC = 1 << 4,
	IBV_ODP_SUPPORT_SRQ_RECV = 1 << 5,
	IBV_ODP_SUPPORT_FLUSH = 1 << 6,
	IBV_ODP_SUPPORT_ATOMIC_WRITE = 1 << 7,
};

struct ibv_odp_caps {
	uint64_t general_caps; /* enum ibv_odp_general_caps */
	struct {
		uint32_t rc_odp_caps; /* enum ibv_odp_transport_cap_bits */
		uint32_t uc_odp_caps;
		uint32_t ud_odp_caps;
	} per_transport_caps;
};

/* Segmentation offload of TCP for raw packet QPs. */
struct ibv_tso_caps {
	uint32_t max_tso;	 /* bytes of one send */
	uint32_t supported_qpts; /* ask with ibv_is_qpt_supported */
};

enum ibv_rx_hash_function_flags {
	IBV_RX_HASH_FUNC_TOEPLITZ = 1 << 0,
};

/*
 * Which fields of a packet the receive hash covers. Of IPv4 and IPv6, and of TCP and UDP, a QP may
 * choose one only.
 */
__extension__ enum ibv_rx_hash_fields {
	IBV_RX_HASH_SRC_IPV4 = 1 << 0,
	IBV_RX_HASH_DST_IPV4 = 1 << 1,
	IBV_RX_HASH_SRC_IPV6 = 1 << 2,
	IBV_RX_HASH_DST_IPV6 = 1 << 3,
	IBV_RX_HASH_SRC_PORT_TCP = 1 << 4,
	IBV_RX_HASH_DST_PORT_TCP = 1 << 5,
	IBV_RX_HASH_SRC_PORT_UDP = 1 << 6,
	IBV_RX_HASH_DST_PORT_UDP = 1 << 7,
	IBV_RX_HASH_IPSEC_SPI = 1 << 8,
	IBV_RX_HASH_INNER = (1UL << 31),
};

struct ibv_rss_caps {
	uint32_t supported_qpts;
	uint32_t max_rwq_indirection_tables;
	uint32_t max_rwq_indirection_table_size;
	uint64_t rx_hash_fields_mask; /* enum ibv_rx_hash_fields */
	uint8_t rx_hash_function;     /* enum ibv_rx_hash_function_flags */
};

struct ibv_packet_pacing_caps {
	uint32_t qp_rate_limit_min; /* kbit/s */
	uint32_t qp_rate_limit_max; /* kbit/s */
	uint32_t supported_qpts;
};

enum ibv_raw_packet_caps {
	IBV_RAW_PACKET_CAP_CVLAN_STRIPPING = 1 << 0,
	IBV_RAW_PACKET_CAP_SCATTER_FCS = 1 << 1,
	IBV_RAW_PACKET_CAP_IP_CSUM = 1 << 2,
	IBV_RAW_PACKET_CAP_DELAY_DROP = 1 << 3,
};

enum ibv_tm_cap_flags {
	IBV_TM_CAP_RC = 1 << 0, /* tag matching over RC */
};

/* Tag matching in an SRQ. */
struct ibv_tm_caps {
	uint32_t max_rndv_hdr_size; /* bytes of a rendezvous request's header */
	uint32_t max_num_tags;	    /* tagged buffers in one list */
	uint32_t flags;		    /* enum ibv_tm_cap_flags */
	uint32_t max_ops;	    /* list operations under way */
	uint32_t max_sge;	    /* entries of a tagged buffer */
};

/* Largest values for ibv_modify_cq. */
struct ibv_cq_moderation_caps {
	uint16_t max_cq_count;
	uint16_t max_cq_period; /* microseconds */
};

/* Sizes of atomics on the PCI bus, bits of the members of ibv_pci_atomic_caps. */
enum ibv_pci_atomic_op_size {
	IBV_PCI_ATOMIC_OPERATION_4_BYTE_SIZE_SUP = 1 << 0,
	IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP = 1 << 1,
	IBV_PCI_ATOMIC_OPERATION_16_BYTE_SIZE_SUP = 1 << 2,
};

struct ibv_pci_atomic_caps {
	uint16_t fetch_add;
	uint16_t swap;
	uint16_t compare_swap;
};

/* What ibv_query_device_ex fills; a library that knows less leaves the rest 0. */
struct ibv_device_attr_ex {
	struct ibv_device_attr orig_attr;
	uint32_t comp_mask;
	struct ibv_odp_caps odp_caps;
	uint64_t completion_timestamp_mask; /* valid bits of a completion's time, 0 if none */
	uint64_t hca_core_clock;	    /* kHz, of those times */
	uint64_t device_cap_flags_ex;	    /* device_cap_flags and the bits above 32 */
	struct ibv_tso_caps tso_caps;
	struct ibv_rss_caps rss_caps;
	uint32_t max_wq_type_rq; /* receive WQs */
	struct ibv_packet_pacing_caps packet_pacing_caps;
	uint32_t raw_packet_caps; /* enum ibv_raw_packet_caps */
	struct ibv_tm_caps tm_caps;
	struct ibv_cq_moderation_caps cq_mod_caps;
	uint64_t max_dm_size; /* bytes of device memory */
	struct ibv_pci_atomic_caps pci_atomic_caps;
	uint32_t xrc_odp_caps;
	uint32_t phys_port_cnt_ex; /* ports, where 255 are not enough */
};

enum ibv_fork_status {
	IBV_FORK_DISABLED,
	IBV_FORK_ENABLED,
	IBV_FORK_UNNEEDED,
};

/*
 * Lists the devices that there are now, in an array that ends with NULL; their number goes to
 * *num_devices unless that is NULL. Free it with ibv_free_device_list(). No devices is an empty
 * list and not a failure; `verbatim doctor` says why there is none.
 * Returns the array, or NULL with errno set.
 * Errors: ENOMEM; EIO: the kernel did not list its interfaces.
 * Man: ibv_get_device_list(3).
 */
struct ibv_device **ibv_get_device_list(int *num_devices);

/*
 * Frees the array of devices. A device that is not open by then is gone, so open what you need
 * first. `list` must not be NULL.
 * Errors: None.
 * Man: ibv_get_device_list(3).
 */
void ibv_free_device_list(struct ibv_device **list);

/*
 * Gives the device's name, such as "rxe0".
 * Returns the name, never NULL; it lives as long as the device.
 * Errors: None.
 * Man: ibv_get_device_name(3).
 */
const char *ibv_get_device_name(struct ibv_device *device);

/*
 * Gives a number that no other device has: here the index of its network interface. It stays as
 * long as that.
 * Returns the index; on other libraries -1 if the kernel has none.
 * Errors: None.
 * Man: ibv_get_device_index(3).
 */
int ibv_get_device_index(struct ibv_device *device);

/*
 * Gives the device's node GUID, in network byte order.
 * Returns the GUID; other libraries give 0 on failure.
 * Errors: None.
 * Man: ibv_get_device_guid(3).
 */
__be64 ibv_get_device_guid(struct ibv_device *device);

/*
 * Opens a device. Everything else hangs on the context that it gives, which has async_fd and
 * num_comp_vectors. A device may be opened several times, and by all processes of one user: they
 * share UDP port 4791 of its address.
 * Returns the context, or NULL with errno set.
 * Errors: EADDRINUSE: UDP port 4791 is somebody else's: another user's, another program's or the
 * kernel's rdma_rxe; EAGAIN: 256 processes use devices, or no thread could be started; EMFILE: no
 * descriptor is left; ENODEV: its interface is gone; EADDRNOTAVAIL: its address is; EBUSY: another
 * process has been opening a device for too long; ENOMEM.
 * Man: ibv_open_device(3).
 */
struct ibv_context *ibv_open_device(struct ibv_device *device);

/*
 * Closes a context. It does not destroy what was made from it: a context with objects left stays as
 * it is, and its device open, until the process ends.
 * Returns 0 always.
 * Errors: None: EBUSY is told by VERBATIM_EXPLAIN=1 alone.
 * Threads: the last call with this context.
 * Man: ibv_open_device(3).
 */
int ibv_close_device(struct ibv_context *context);

/*
 * Opens the device of a context whose `cmd_fd` another process handed over (by SCM_RIGHTS), or this
 * one duplicated. PDs, regions and device memory of that context can then be imported by their
 * handles. The context that is returned owns the descriptor: ibv_close_device() closes it.
 * Returns the context, or NULL with errno set; cmd_fd is then still the caller's.
 * Errors: EINVAL: it is no context's cmd_fd; EPERM: its process cannot be looked at (it has to run,
 * as the same user); ENODEV: the device is not seen from here; and what ibv_open_device() says.
 * Man: ibv_import_device(3).
 */
struct ibv_context *ibv_import_device(int cmd_fd);

/*
 * Asks for a device's limits and abilities. A limit of 0 says that there is no such object.
 * Errors: None: it gives 0.
 * Man: ibv_query_device(3).
 */
int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *device_attr);

/*
 * Makes fork() safe for the parent's registered memory; on hardware it has to come before the first
 * registration. Here nothing is pinned and nothing is to be done. In the child all that was opened
 * before is dead (EIO): open the device anew.
 * Errors: None: it gives 0.
 * Man: ibv_fork_init(3).
 */
int ibv_fork_init(void);

/*
 * Tells whether fork support is on, off, or needs no turning on.
 * Returns IBV_FORK_UNNEEDED, with Verbatim.
 * Errors: None.
 * Man: ibv_is_fork_initialized(3).
 */
enum ibv_fork_status ibv_is_fork_initialized(void);

/*
 * Gives the words for a node type: "InfiniBand channel adapter" and so on.
 * Returns a string that is never NULL nor to be freed: "unknown" for other values.
 * Errors: None.
 * Man: ibv_node_type_str(3).
 */
const char *ibv_node_type_str(enum ibv_node_type node_type);

/*
 * Asks for all that a device can do: ibv_query_device(), and on-demand paging, timestamps, tag
 * matching, device memory and more. `input` is NULL or has comp_mask 0. A library that knows less
 * leaves the rest 0.
 * Errors: EINVAL: comp_mask of input is not 0.
 * Man: ibv_query_device_ex(3).
 */
static inline int ibv_query_device_ex(struct ibv_context *context,
				      const struct ibv_query_device_ex_input *input,
				      struct ibv_device_attr_ex *attr)
{
	struct verbs_context *vctx;

	if (input && input->comp_mask)
		return EINVAL;
	vctx = verbs_get_ctx_op(context, query_device_ex);
	if (vctx) {
		int ret = vctx->query_device_ex(context, input, attr, sizeof(*attr));

		if (ret != EOPNOTSUPP && ret != ENOSYS)
			return ret;
	}
	memset(attr, 0, sizeof(*attr));
	return ibv_query_device(context, &attr->orig_attr);
}

enum ibv_values_mask {
	IBV_VALUES_MASK_RAW_CLOCK = 1 << 0,
	IBV_VALUES_MASK_RESERVED = 1 << 1,
};

struct ibv_values_ex {
	uint32_t comp_mask; /* in: what to read; out: what was read */
	struct timespec raw_clock;
};

/*
 * Reads the device's clock, the one that stamps completions. comp_mask is
 * IBV_VALUES_MASK_RAW_CLOCK, or 0 for nothing; cycles are in raw_clock.tv_nsec, in tv_sec is 0.
 * Here a cycle is a nanosecond of CLOCK_MONOTONIC.
 * Errors: EINVAL: another bit in comp_mask.
 * Man: ibv_query_rt_values_ex(3).
 */
static inline int ibv_query_rt_values_ex(struct ibv_context *context, struct ibv_values_ex *values)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, query_rt_values);

	return vctx ? vctx->query_rt_values(context, values) : EOPNOTSUPP;
}

/*
 * Static linking only: naming providers in RDMA_STATIC_PROVIDERS pulled them in. Verbatim's adapter
 * is part of the library, so the name is accepted and nothing follows from it.
 */

#ifdef __cplusplus
}
#endif

#endif
