// SPDX-License-Identifier: BSD-2-Clause
/*
 * The matrix of verbs: devices, contexts, ports, events, and what needs no object.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "matrix.h"

static void list_devices(struct set *set)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list && *list);
	CHECK(*ibv_get_device_name(*list) && ibv_get_device_guid(*list));
	CHECK(ibv_get_device_index(*list) >= 0);
	ibv_free_device_list(list);
}

static void open_and_close(struct set *set)
{
	struct ibv_context *context = ibv_open_device(set->rig.context->device);

	CHECK(context && !ibv_close_device(context));
}

static void import_all(struct set *set)
{
	struct ibv_context *context = ibv_import_device(dup(set->rig.context->cmd_fd));
	struct ibv_pd *pd = ibv_import_pd(context, set->rig.pd->handle);
	struct ibv_mr *mr = ibv_import_mr(pd, set->mr->handle);
	struct ibv_dm *dm = ibv_import_dm(context, set->dm->handle);

	CHECK(context && pd && mr && dm);
	CHECK(mr->rkey == set->mr->rkey);
	ibv_unimport_dm(dm);
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
	CHECK(!ibv_close_device(context));
}

/* It has objects, and stays as it is. */
static void close_busy(struct set *set)
{
	CHECK(!ibv_close_device(set->rig.context));
}

static void query_device(struct set *set)
{
	struct ibv_device_attr_ex ex;
	struct ibv_device_attr attr;

	CHECK(!ibv_query_device(set->rig.context, &attr));
	CHECK(!ibv_query_device_ex(set->rig.context, NULL, &ex));
	CHECK(attr.max_qp == ex.orig_attr.max_qp);
}

static void query_clock(struct set *set)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	CHECK(!ibv_query_rt_values_ex(set->rig.context, &values));
}

static void query_port(struct set *set)
{
	struct ibv_port_attr attr;
	uint64_t speed;

	CHECK(!ibv_query_port(set->rig.context, 1, &attr) && attr.state == IBV_PORT_ACTIVE);
	CHECK(ibv_query_port_speed(set->rig.context, 1, &speed) == EOPNOTSUPP); /* a loopback */
}

static void query_gids(struct set *set)
{
	struct ibv_gid_entry entry, entries[8];
	union ibv_gid gid;

	CHECK(!ibv_query_gid(set->rig.context, 1, set->rig.gid_index, &gid));
	CHECK(!memcmp(&gid, &set->rig.gid, sizeof(gid)));
	CHECK(!ibv_query_gid_ex(set->rig.context, 1, set->rig.gid_index, &entry, 0));
	CHECK(ibv_query_gid_table(set->rig.context, entries, 8, 0) >= 1);
}

static void query_pkeys(struct set *set)
{
	__be16 pkey;

	CHECK(!ibv_query_pkey(set->rig.context, 1, 0, &pkey));
	CHECK(ibv_get_pkey_index(set->rig.context, 1, htobe16(0xffff)) == 0);
}

static void set_pkeys(struct set *set)
{
	static const uint16_t keys[] = {0xffff, 0x8001};

	CHECK(!verbatim_set_pkeys(set->rig.context, 1, keys, 2));
	CHECK(!verbatim_set_pkeys(set->rig.context, 1, keys, 1));
}

/* ---- events ---- */

static void raise_event(struct set *set)
{
	struct ibv_async_event event = {.event_type = IBV_EVENT_PATH_MIG, .element.qp = set->from};

	CHECK(!verbatim_raise_event(set->rig.context, &event));
	atomic_fetch_add(&set->events->raised, 1);
}

static void raise_others(struct set *set)
{
	struct ibv_async_event ud = {.event_type = IBV_EVENT_QP_LAST_WQE_REACHED,
				     .element.qp = set->ud};
	struct ibv_async_event cq = {.event_type = IBV_EVENT_CQ_ERR, .element.cq = set->cq};
	struct ibv_async_event srq = {.event_type = IBV_EVENT_SRQ_LIMIT_REACHED,
				      .element.srq = set->srq};
	struct ibv_async_event wq = {.event_type = IBV_EVENT_WQ_FATAL, .element.wq = set->wq};
	struct ibv_async_event port = {.event_type = IBV_EVENT_CLIENT_REREGISTER,
				       .element.port_num = 1};

	CHECK(!verbatim_raise_event(set->rig.context, &ud));
	CHECK(!verbatim_raise_event(set->rig.context, &cq));
	CHECK(!verbatim_raise_event(set->rig.context, &srq));
	CHECK(!verbatim_raise_event(set->rig.context, &wq));
	CHECK(!verbatim_raise_event(set->rig.context, &port));
}

static void take_events(struct set *set)
{
	set_take_event(set);
}

/* ---- no object ---- */

static void strings(struct set *set)
{
	CHECK(ibv_node_type_str(IBV_NODE_CA) && ibv_port_state_str(IBV_PORT_ACTIVE));
	CHECK(ibv_event_type_str(IBV_EVENT_CQ_ERR) && ibv_wc_status_str(IBV_WC_SUCCESS));
	CHECK(ibv_wr_opcode_str(IBV_WR_SEND));
	CHECK(ibv_rate_to_mult(IBV_RATE_10_GBPS) == 4 && ibv_rate_to_mbps(IBV_RATE_10_GBPS));
	CHECK(mult_to_ibv_rate(4) == IBV_RATE_10_GBPS && mbps_to_ibv_rate(10000));
	CHECK(ibv_flow_label_to_udp_sport(5) && ibv_inc_rkey(1) == 2);
	CHECK(ibv_is_qpt_supported(1, (enum ibv_qp_type)0));
}

static void fork_state(struct set *set)
{
	ibv_fork_init();
	CHECK(ibv_is_fork_initialized() == IBV_FORK_UNNEEDED ||
	      ibv_is_fork_initialized() == IBV_FORK_ENABLED ||
	      ibv_is_fork_initialized() == IBV_FORK_DISABLED);
}

const struct verb calls_context[] = {
    {"ibv_get_device_list ibv_get_device_name ibv_get_device_guid ibv_get_device_index "
     "ibv_free_device_list",
     list_devices},
    {"ibv_open_device ibv_close_device", open_and_close},
    {"ibv_import_device ibv_import_pd ibv_import_mr ibv_import_dm ibv_unimport_dm "
     "ibv_unimport_mr ibv_unimport_pd",
     import_all},
    {"ibv_close_device", close_busy},
    {"ibv_query_device ibv_query_device_ex", query_device},
    {"ibv_query_rt_values_ex", query_clock},
    {"ibv_query_port ibv_query_port_speed", query_port},
    {"ibv_query_gid ibv_query_gid_ex ibv_query_gid_table", query_gids},
    {"ibv_query_pkey ibv_get_pkey_index", query_pkeys},
    {"verbatim_set_pkeys", set_pkeys},
    {"verbatim_raise_event", raise_event},
    {"verbatim_raise_event", raise_others},
    {"ibv_get_async_event ibv_ack_async_event", take_events},
    {"ibv_node_type_str ibv_port_state_str ibv_event_type_str ibv_wc_status_str "
     "ibv_wr_opcode_str ibv_rate_to_mult ibv_rate_to_mbps mult_to_ibv_rate mbps_to_ibv_rate "
     "ibv_flow_label_to_udp_sport ibv_inc_rkey ibv_is_qpt_supported",
     strings},
    {"ibv_fork_init ibv_is_fork_initialized", fork_state},
    {NULL, NULL},
};
