/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The objects of a pingpong, made in this order and unmade in reverse.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pingpong.h"

static int fail(const char *message)
{
	fprintf(stderr, "%s\n", message);
	return 1;
}

int pp_open_device(struct pingpong *pp)
{
	struct ibv_device **list = ibv_get_device_list(NULL), *device;
	const char *wanted = pp->options.device;
	int i = 0, rc = 0;

	if (!list) {
		perror("Failed to get IB devices list");
		return 1;
	}
	while (wanted && list[i] && strcmp(ibv_get_device_name(list[i]), wanted))
		i++;
	device = list[i];
	if (!device && wanted)
		fprintf(stderr, "IB device %s not found\n", wanted);
	else if (!device)
		fprintf(stderr, "No IB devices found\n");
	else
		pp->context = ibv_open_device(device);
	if (!pp->context) {
		if (device)
			fprintf(stderr, "Couldn't get context for %s\n",
				ibv_get_device_name(device));
		rc = 1;
	}
	ibv_free_device_list(list);
	return rc;
}

/* On demand paging, timestamps and device memory are asked for before they are used. */
static int check_features(struct pingpong *pp, size_t size)
{
	const uint32_t needed = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV;
	const struct pp_options *options = &pp->options;
	struct ibv_device_attr_ex attr;

	if (!options->odp && !options->timestamps && !options->device_memory)
		return 0;
	if (ibv_query_device_ex(pp->context, NULL, &attr))
		return fail("Couldn't query device for its features");
	if (options->odp && (!(attr.odp_caps.general_caps & IBV_ODP_SUPPORT) ||
			     (attr.odp_caps.per_transport_caps.rc_odp_caps & needed) != needed))
		return fail("The device isn't ODP capable or does not support RC send and receive "
			    "with ODP");
	if (options->implicit_odp && !(attr.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT))
		return fail("The device doesn't support implicit ODP");
	if (options->timestamps && !attr.completion_timestamp_mask)
		return fail("The device isn't completion timestamp capable");
	pp->timestamp_mask = attr.completion_timestamp_mask;
	if (options->device_memory && !attr.max_dm_size)
		return fail("Device doesn't support dm allocation");
	if (options->device_memory && attr.max_dm_size < size)
		return fail("Device memory is insufficient");
	return 0;
}

static int register_device_memory(struct pingpong *pp, size_t size)
{
	struct ibv_alloc_dm_attr attr = {.length = size};

	pp->dm = ibv_alloc_dm(pp->context, &attr);
	if (!pp->dm)
		return fail("Dev mem allocation failed");
	pp->mr =
	    ibv_reg_dm_mr(pp->pd, pp->dm, 0, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED);
	return 0;
}

static void prefetch(struct pingpong *pp, size_t size)
{
	struct ibv_sge sge = {(uintptr_t)pp->buffer, (uint32_t)size, pp->mr->lkey};
	int rc = ibv_advise_mr(pp->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
			       IB_UVERBS_ADVISE_MR_FLAG_FLUSH, &sge, 1);

	if (rc)
		fprintf(stderr, "Couldn't prefetch MR(%d). Continue anyway\n", rc);
}

static int register_buffer(struct pingpong *pp)
{
	size_t size = (size_t)pp->header + pp->options.size;
	int rc = check_features(pp, size);

	if (rc)
		return rc;
	if (pp->options.device_memory) {
		rc = register_device_memory(pp, size);
		if (rc)
			return rc;
	} else if (pp->options.implicit_odp) {
		pp->mr = ibv_reg_mr(pp->pd, NULL, SIZE_MAX,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	} else {
		pp->mr = ibv_reg_mr(pp->pd, pp->buffer, size,
				    IBV_ACCESS_LOCAL_WRITE |
					(pp->options.odp ? IBV_ACCESS_ON_DEMAND : 0));
	}
	if (!pp->mr)
		return fail("Couldn't register MR");
	if (pp->options.prefetch)
		prefetch(pp, size);
	return 0;
}

static int make_cq(struct pingpong *pp)
{
	int cqe = pp->options.rx_depth + pp->options.num_qp;
	struct ibv_cq_init_attr_ex attr = {
	    .cqe = (uint32_t)cqe,
	    .channel = pp->channel,
	    .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
	};

	if (pp->options.timestamps) {
		pp->cq_ex = ibv_create_cq_ex(pp->context, &attr);
		pp->cq = pp->cq_ex ? ibv_cq_ex_to_cq(pp->cq_ex) : NULL;
	} else {
		pp->cq = ibv_create_cq(pp->context, cqe, NULL, pp->channel, 0);
	}
	return pp->cq ? 0 : fail("Couldn't create CQ");
}

static int make_srq(struct pingpong *pp)
{
	struct ibv_srq_init_attr attr = {
	    .attr = {.max_wr = (uint32_t)pp->options.rx_depth, .max_sge = 1},
	};

	if (!pp->kind->has_srq)
		return 0;
	pp->srq = ibv_create_srq(pp->pd, &attr);
	return pp->srq ? 0 : fail("Couldn't create SRQ");
}

static struct ibv_qp *make_qp(struct pingpong *pp)
{
	struct ibv_qp_init_attr_ex attr = {
	    .send_cq = pp->cq,
	    .recv_cq = pp->cq,
	    .srq = pp->srq,
	    .cap = {.max_send_wr = 1,
		    .max_recv_wr = pp->srq ? 0 : (uint32_t)pp->options.rx_depth,
		    .max_send_sge = 1,
		    .max_recv_sge = 1},
	    .qp_type = pp->kind->type,
	    .comp_mask = IBV_QP_INIT_ATTR_PD,
	    .pd = pp->pd,
	};

	if (!pp->options.new_send)
		return ibv_create_qp(pp->pd, (struct ibv_qp_init_attr *)&attr);
	attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
	return ibv_create_qp_ex(pp->context, &attr);
}

static int init_qp(struct pingpong *pp, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_INIT,
	    .pkey_index = 0,
	    .port_num = (uint8_t)pp->options.ib_port,
	    .qp_access_flags = 0,
	    .qkey = PP_QKEY,
	};

	return ibv_modify_qp(
	    qp, &attr,
	    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		(pp->kind->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static int make_qps(struct pingpong *pp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	for (int i = 0; i < pp->options.num_qp; i++) {
		pp->qps[i] = make_qp(pp);
		if (!pp->qps[i])
			return fail("Couldn't create QP");
		if (init_qp(pp, pp->qps[i]))
			return fail("Failed to modify QP to INIT");
	}
	/* What fits goes out with the work request itself. */
	if (!pp->options.device_memory && !ibv_query_qp(pp->qps[0], &attr, IBV_QP_CAP, &init) &&
	    init.cap.max_inline_data >= pp->options.size)
		pp->send_flags |= IBV_SEND_INLINE;
	return 0;
}

static int make_buffer(struct pingpong *pp)
{
	size_t size = (size_t)pp->header + pp->options.size;
	int count = pp->options.num_qp;

	pp->qps = calloc((size_t)count, sizeof(*pp->qps));
	pp->pending = calloc((size_t)count, sizeof(*pp->pending));
	pp->local = calloc(PP_MAX_QPS, sizeof(*pp->local));
	pp->remote = calloc(PP_MAX_QPS, sizeof(*pp->remote));
	if (posix_memalign((void **)&pp->buffer, (size_t)sysconf(_SC_PAGESIZE), size ? size : 1))
		pp->buffer = NULL;
	if (!pp->qps || !pp->pending || !pp->local || !pp->remote || !pp->buffer)
		return fail("Couldn't allocate work buf.");
	memset(pp->buffer, PP_FILL + !pp->options.server, size);
	return 0;
}

int pp_query_port(struct pingpong *pp)
{
	uint32_t room;

	if (ibv_query_port(pp->context, (uint8_t)pp->options.ib_port, &pp->port)) {
		fprintf(stderr, "Unable to query port info for port %d\n", pp->options.ib_port);
		return 1;
	}
	room = 128U << pp->port.active_mtu;
	if (pp->kind->type == IBV_QPT_UD && pp->options.size > room) {
		fprintf(stderr, "Requested size larger than port MTU (%u)\n", room);
		return 1;
	}
	return 0;
}

int pp_open(struct pingpong *pp)
{
	pp->header = pp->kind->type == IBV_QPT_UD ? PP_GRH : 0;
	pp->send_flags = IBV_SEND_SIGNALED;
	if (make_buffer(pp) || pp_open_device(pp) || pp_query_port(pp))
		return 1;
	if (pp->options.events) {
		pp->channel = ibv_create_comp_channel(pp->context);
		if (!pp->channel)
			return fail("Couldn't create completion channel");
	}
	pp->pd = ibv_alloc_pd(pp->context);
	if (!pp->pd)
		return fail("Couldn't allocate PD");
	return register_buffer(pp) || make_cq(pp) || make_srq(pp) || make_qps(pp);
}

static bool destroyed(int rc, const char *what)
{
	if (rc)
		fprintf(stderr, "Couldn't %s\n", what);
	return !rc;
}

int pp_close(struct pingpong *pp)
{
	bool ok = true;

	for (int i = 0; pp->qps && i < pp->options.num_qp; i++)
		ok &= !pp->qps[i] || destroyed(ibv_destroy_qp(pp->qps[i]), "destroy QP");
	ok &= !pp->srq || destroyed(ibv_destroy_srq(pp->srq), "destroy SRQ");
	ok &= !pp->cq || destroyed(ibv_destroy_cq(pp->cq), "destroy CQ");
	ok &= !pp->mr || destroyed(ibv_dereg_mr(pp->mr), "deregister MR");
	ok &= !pp->dm || destroyed(ibv_free_dm(pp->dm), "free DM");
	ok &= !pp->ah || destroyed(ibv_destroy_ah(pp->ah), "destroy AH");
	ok &= !pp->pd || destroyed(ibv_dealloc_pd(pp->pd), "deallocate PD");
	ok &= !pp->channel ||
	      destroyed(ibv_destroy_comp_channel(pp->channel), "destroy completion channel");
	ok &= !pp->context || destroyed(ibv_close_device(pp->context), "release context");
	free(pp->buffer);
	free(pp->remote);
	free(pp->local);
	free(pp->pending);
	free(pp->qps);
	return !ok;
}

/* An address that peers elsewhere can reach beats a link-local one, and IPv4 beats IPv6. */
static int rank(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	if (!gid->global.subnet_prefix && !gid->global.interface_id)
		return 0;
	if (!memcmp(gid->raw, mapped, sizeof(mapped)))
		return 3;
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80 ? 1 : 2;
}

/*
 * On Ethernet there is no way without a GID, which the original programs want to be told (-g) and
 * fail without; here a good one is found. -1 in options.gid_index stays for InfiniBand.
 */
int pp_choose_gid(struct pingpong *pp, union ibv_gid *gid)
{
	uint8_t port = (uint8_t)pp->options.ib_port;
	int best = 0;

	memset(gid, 0, sizeof(*gid));
	if (pp->options.gid_index < 0 && pp->port.link_layer == IBV_LINK_LAYER_ETHERNET)
		for (int i = 0; i < pp->port.gid_tbl_len; i++) {
			union ibv_gid at;

			if (!ibv_query_gid(pp->context, port, i, &at) && rank(&at) > best) {
				best = rank(&at);
				pp->options.gid_index = i;
			}
		}
	if (pp->options.gid_index < 0)
		return 0;
	if (ibv_query_gid(pp->context, port, pp->options.gid_index, gid)) {
		fprintf(stderr, "can't read sgid of index %d\n", pp->options.gid_index);
		return 1;
	}
	return 0;
}
