/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rules: taking them apart, keeping them in order, and matching frames against them.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "device/adapter.h"
#include "device/flow.h"
#include "device/qp.h"
#include "explain/reason.h"

void flow_table_init(struct flow_table *table)
{
	pthread_mutex_init(&table->lock, NULL);
	CDS_INIT_LIST_HEAD(&table->flows);
}

void flow_table_fini(struct flow_table *table)
{
	pthread_mutex_destroy(&table->lock);
}

/* ---- rules ---- */

/* The size that a spec of this type has; 0: there is none, or we don't know it. */
static uint16_t size_of_spec(enum ibv_flow_spec_type type)
{
	switch (type) {
	case IBV_FLOW_SPEC_ETH:
		return sizeof(struct ibv_flow_spec_eth);
	case IBV_FLOW_SPEC_IPV4:
		return sizeof(struct ibv_flow_spec_ipv4);
	case IBV_FLOW_SPEC_IPV4_EXT:
		return sizeof(struct ibv_flow_spec_ipv4_ext);
	case IBV_FLOW_SPEC_IPV6:
		return sizeof(struct ibv_flow_spec_ipv6);
	case IBV_FLOW_SPEC_TCP:
	case IBV_FLOW_SPEC_UDP:
		return sizeof(struct ibv_flow_spec_tcp_udp);
	case IBV_FLOW_SPEC_VXLAN_TUNNEL:
		return sizeof(struct ibv_flow_spec_tunnel);
	case IBV_FLOW_SPEC_GRE:
		return sizeof(struct ibv_flow_spec_gre);
	case IBV_FLOW_SPEC_ESP:
		return sizeof(struct ibv_flow_spec_esp);
	case IBV_FLOW_SPEC_ACTION_TAG:
		return sizeof(struct ibv_flow_spec_action_tag);
	case IBV_FLOW_SPEC_ACTION_DROP:
		return sizeof(struct ibv_flow_spec_action_drop);
	case IBV_FLOW_SPEC_ACTION_COUNT:
		return sizeof(struct ibv_flow_spec_counter_action);
	default:
		return 0;
	}
}

static int take_spec(struct flow *flow, const struct ibv_flow_spec *spec)
{
	switch (spec->hdr.type) {
	case IBV_FLOW_SPEC_GRE:
		if (spec->gre.mask.key)
			return refuse(REASON_FLOW_SPEC_TYPE, "the key of GRE");
		flow->specs[flow->spec_count++] = *spec;
		return 0;
	case IBV_FLOW_SPEC_ACTION_TAG:
		flow->tag = spec->flow_tag.tag_id;
		return 0;
	case IBV_FLOW_SPEC_ACTION_DROP:
		flow->drops = true;
		return 0;
	case IBV_FLOW_SPEC_ACTION_COUNT:
		flow->counters = counters_of(spec->flow_count.counters);
		return 0;
	default:
		flow->specs[flow->spec_count++] = *spec;
		return 0;
	}
}

/* What attr->size says is there behind the attributes. Some programs leave it at those, and say
 * nothing by it. */
static size_t room_for_specs(const struct ibv_flow_attr *attr)
{
	return attr->size > sizeof(*attr) ? attr->size - sizeof(*attr) : SIZE_MAX;
}

static int refuse_size(const struct ibv_flow_attr *attr, int spec)
{
	return refuse(REASON_FLOW_SIZE, "size is %u, and spec %d of %u goes past it", attr->size,
		      spec, attr->num_of_specs);
}

static int take_specs(struct flow *flow, const struct ibv_flow_attr *attr)
{
	const char *at = (const char *)(attr + 1);
	size_t room = room_for_specs(attr);

	if (attr->num_of_specs > FLOW_MAX_SPECS)
		return refuse(REASON_FLOW_SPECS, "%u specs, at most %d", attr->num_of_specs,
			      FLOW_MAX_SPECS);
	for (int i = 0; i < attr->num_of_specs; i++) {
		struct ibv_flow_spec spec = {0};
		uint16_t size;

		if (room < sizeof(spec.hdr))
			return refuse_size(attr, i);
		memcpy(&spec.hdr, at, sizeof(spec.hdr));
		size = size_of_spec(spec.hdr.type);
		if (!size)
			return refuse(REASON_FLOW_SPEC_TYPE, "spec %d is of type %#x", i,
				      spec.hdr.type);
		if (spec.hdr.size != size)
			return refuse(REASON_FLOW_SPEC_SIZE,
				      "spec %d of type %#x has size %u, not %u", i, spec.hdr.type,
				      spec.hdr.size, size);
		if (room < size)
			return refuse_size(attr, i);
		room -= size;
		memcpy(&spec, at, size);
		if (take_spec(flow, &spec))
			return EOPNOTSUPP;
		at += size;
	}
	return 0;
}

static int check(const struct qp *qp, const struct ibv_flow_attr *attr)
{
	if (qp->type != IBV_QPT_RAW_PACKET)
		return refuse(REASON_FLOW_QP, "QP %#x", qp->number);
	if (attr->port != PORT_NUMBER)
		return refuse(REASON_PORT_NUMBER, "port is %u, %s has port %u", attr->port,
			      qp->adapter->name, PORT_NUMBER);
	if (attr->comp_mask || (unsigned int)attr->type > IBV_FLOW_ATTR_SNIFFER ||
	    attr->flags & ~(uint32_t)IBV_FLOW_ATTR_FLAGS_DONT_TRAP ||
	    (attr->flags && attr->type != IBV_FLOW_ATTR_NORMAL) ||
	    (attr->num_of_specs && attr->type != IBV_FLOW_ATTR_NORMAL))
		return refuse(REASON_FLOW_ATTR, "comp_mask %#x, type %d, flags %#x, %u specs",
			      attr->comp_mask, attr->type, attr->flags, attr->num_of_specs);
	return 0;
}

/* Behind all of its priority; what takes the rest comes last, who sees everything first. */
static int rank(const struct flow *flow)
{
	static const int kinds[] = {
	    [IBV_FLOW_ATTR_SNIFFER] = 0,
	    [IBV_FLOW_ATTR_NORMAL] = 1,
	    [IBV_FLOW_ATTR_MC_DEFAULT] = 2,
	    [IBV_FLOW_ATTR_ALL_DEFAULT] = 3,
	};

	return kinds[flow->type] << 16 | flow->priority;
}

static void insert(struct flow_table *table, struct flow *flow)
{
	struct cds_list_head *before = &table->flows;
	struct flow *at;

	pthread_mutex_lock(&table->lock);
	cds_list_for_each_entry (at, &table->flows, node) {
		if (rank(at) > rank(flow))
			break;
		before = &at->node;
	}
	cds_list_add(&flow->node, before);
	pthread_mutex_unlock(&table->lock);
}

int flow_create(struct qp *qp, const struct ibv_flow_attr *attr, struct flow **flow)
{
	struct flow *new;
	int ret = check(qp, attr);

	if (ret)
		return ret;
	new = calloc(1, sizeof(*new));
	if (!new)
		return refuse(REASON_NO_MEMORY, "for a flow");
	ret = take_specs(new, attr);
	if (!ret && new->counters &&new->counters->adapter != qp->adapter)
		ret = refuse(REASON_FLOW_COUNTERS, "the QP is of %s", qp->adapter->name);
	if (ret) {
		free(new);
		return ret;
	}
	new->adapter = qp->adapter;
	new->qp = qp;
	new->type = attr->type;
	new->priority = attr->priority;
	new->goes_on = attr->flags &IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
	new->ibv.handle = atomic_fetch_add(&qp->adapter->last_handle, 1) + 1;
	if (new->counters)
		atomic_fetch_add(&new->counters->users, 1);
	atomic_fetch_add(&qp->flows, 1);
	insert(&qp->adapter->flows, new);
	*flow = new;
	return 0;
}

void flow_destroy(struct flow *flow)
{
	struct flow_table *table = &flow->adapter->flows;

	pthread_mutex_lock(&table->lock);
	cds_list_del(&flow->node);
	pthread_mutex_unlock(&table->lock);
	if (flow->counters)
		atomic_fetch_sub(&flow->counters->users, 1);
	atomic_fetch_sub(&flow->qp->flows, 1);
	free(flow);
}

/* ---- matching ---- */

/* Where the mask has a bit, the two are the same. */
static bool fits(const void *header, const void *value, const void *mask, size_t length)
{
	const uint8_t *h = header, *v = value, *m = mask;

	for (size_t i = 0; i < length; i++)
		if ((h[i] ^ v[i]) & m[i])
			return false;
	return true;
}

static bool fits_16(uint16_t host, uint16_t value, uint16_t mask)
{
	return !((htobe16(host) ^ value) & mask);
}

static bool fits_eth(const struct frame *frame, const struct ibv_flow_spec_eth *spec)
{
	return fits(frame->bytes, spec->val.dst_mac, spec->mask.dst_mac, FRAME_MAC) &&
	       fits(frame->bytes + FRAME_MAC, spec->val.src_mac, spec->mask.src_mac, FRAME_MAC) &&
	       fits_16(frame->type, spec->val.ether_type, spec->mask.ether_type) &&
	       fits_16(frame->vlan_tag, spec->val.vlan_tag, spec->mask.vlan_tag);
}

static bool fits_ipv4(const uint8_t *ipv4, const struct ibv_flow_ipv4_filter *val,
		      const struct ibv_flow_ipv4_filter *mask)
{
	return ipv4 && fits(ipv4 + 12, &val->src_ip, &mask->src_ip, 4) &&
	       fits(ipv4 + 16, &val->dst_ip, &mask->dst_ip, 4);
}

static bool fits_ipv4_ext(const uint8_t *ipv4, const struct ibv_flow_spec_ipv4_ext *spec)
{
	const struct ibv_flow_ipv4_ext_filter *val = &spec->val, *mask = &spec->mask;

	return ipv4 && fits(ipv4 + 12, &val->src_ip, &mask->src_ip, 4) &&
	       fits(ipv4 + 16, &val->dst_ip, &mask->dst_ip, 4) &&
	       fits(ipv4 + 9, &val->proto, &mask->proto, 1) &&
	       fits(ipv4 + 1, &val->tos, &mask->tos, 1) &&
	       fits(ipv4 + 8, &val->ttl, &mask->ttl, 1) &&
	       !(((ipv4[6] >> 5) ^ val->flags) & mask->flags);
}

static bool fits_ipv6(const uint8_t *ipv6, const struct ibv_flow_spec_ipv6 *spec)
{
	const struct ibv_flow_ipv6_filter *val = &spec->val, *mask = &spec->mask;
	uint32_t label;
	uint8_t class;

	if (!ipv6)
		return false;
	label = htobe32(get_be32(ipv6) & 0xfffff);
	class = (uint8_t)(get_be16(ipv6) >> 4);
	return fits(ipv6 + 8, val->src_ip, mask->src_ip, 16) &&
	       fits(ipv6 + 24, val->dst_ip, mask->dst_ip, 16) &&
	       fits(&label, &val->flow_label, &mask->flow_label, 4) &&
	       fits(ipv6 + 6, &val->next_hdr, &mask->next_hdr, 1) &&
	       fits(&class, &val->traffic_class, &mask->traffic_class, 1) &&
	       fits(ipv6 + 7, &val->hop_limit, &mask->hop_limit, 1);
}

static bool fits_ports(const uint8_t *header, const struct ibv_flow_spec_tcp_udp *spec)
{
	return header && fits(header, &spec->val.src_port, &spec->mask.src_port, 2) &&
	       fits(header + 2, &spec->val.dst_port, &spec->mask.dst_port, 2);
}

/* The 24 bits of the VNI stand in the middle of a word. */
static bool fits_vxlan(const uint8_t *header, const struct ibv_flow_spec_tunnel *spec)
{
	uint32_t vni;

	if (!header)
		return false;
	vni = htobe32(get_be32(header + 4) >> 8);
	return fits(&vni, &spec->val.tunnel_id, &spec->mask.tunnel_id, 4);
}

static bool fits_gre(const uint8_t *header, const struct ibv_flow_spec_gre *spec)
{
	return header && fits(header, &spec->val.c_ks_res0_ver, &spec->mask.c_ks_res0_ver, 2) &&
	       fits(header + 2, &spec->val.protocol, &spec->mask.protocol, 2);
}

static bool fits_spec(const struct frame *frame, const struct ibv_flow_spec *spec)
{
	switch (spec->hdr.type) {
	case IBV_FLOW_SPEC_ETH:
		return fits_eth(frame, &spec->eth);
	case IBV_FLOW_SPEC_IPV4:
		return fits_ipv4(frame->ipv4, &spec->ipv4.val, &spec->ipv4.mask);
	case IBV_FLOW_SPEC_IPV4_EXT:
		return fits_ipv4_ext(frame->ipv4, &spec->ipv4_ext);
	case IBV_FLOW_SPEC_IPV6:
		return fits_ipv6(frame->ipv6, &spec->ipv6);
	case IBV_FLOW_SPEC_TCP:
		return fits_ports(frame->tcp, &spec->tcp_udp);
	case IBV_FLOW_SPEC_UDP:
		return fits_ports(frame->udp, &spec->tcp_udp);
	case IBV_FLOW_SPEC_VXLAN_TUNNEL:
		return fits_vxlan(frame->vxlan, &spec->tunnel);
	case IBV_FLOW_SPEC_GRE:
		return fits_gre(frame->gre, &spec->gre);
	case IBV_FLOW_SPEC_ESP:
		return frame->esp &&
		       fits(frame->esp, &spec->esp.val, &spec->esp.mask, sizeof(spec->esp.val));
	default:
		return false;
	}
}

static bool fits_flow(const struct frame *frame, const struct flow *flow)
{
	if (flow->type == IBV_FLOW_ATTR_MC_DEFAULT)
		return frame->bytes[0] & 1; /* the group bit of the destination */
	for (int i = 0; i < flow->spec_count; i++)
		if (!fits_spec(frame, &flow->specs[i]))
			return false;
	return true;
}

static void count(struct counters *counters, const struct frame *frame)
{
	if (!counters)
		return;
	atomic_fetch_add_explicit(&counters->packets, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&counters->bytes, frame->length, memory_order_relaxed);
}

void flow_match(struct adapter *adapter, const struct frame *frame,
		void (*take)(const struct flow *flow, const struct frame *frame, void *data),
		void *data)
{
	const struct flow *flow;

	pthread_mutex_lock(&adapter->flows.lock);
	cds_list_for_each_entry (flow, &adapter->flows.flows, node) {
		if (!fits_flow(frame, flow))
			continue;
		count(flow->counters, frame);
		if (!flow->drops)
			take(flow, frame, data);
		if (!flow->goes_on && flow->type != IBV_FLOW_ATTR_SNIFFER)
			break;
	}
	pthread_mutex_unlock(&adapter->flows.lock);
}

/* ---- counters ---- */

int counters_create(struct adapter *adapter, const struct ibv_counters_init_attr *attr,
		    struct counters **counters)
{
	struct counters *new;

	if (attr->comp_mask)
		return refuse(REASON_COMP_MASK, "init_attr->comp_mask is %#x", attr->comp_mask);
	new = calloc(1, sizeof(*new));
	if (!new)
		return refuse(REASON_NO_MEMORY, "for counters");
	new->adapter = adapter;
	pthread_mutex_init(&new->lock, NULL);
	memset(new->which, -1, sizeof(new->which));
	*counters = new;
	return 0;
}

int counters_destroy(struct counters *counters)
{
	unsigned int users = atomic_load(&counters->users);

	if (users)
		return refuse(REASON_COUNTERS_BUSY, "%u flows count there", users);
	pthread_mutex_destroy(&counters->lock);
	free(counters);
	return 0;
}

/* With a flow: that one, too, counts there from now on, if it has no counters yet. */
int counters_attach(struct counters *counters, const struct ibv_counter_attach_attr *attr,
		    struct flow *flow)
{
	int ret = 0;

	if (attr->comp_mask || (unsigned int)attr->counter_desc > IBV_COUNTER_BYTES ||
	    attr->index >= COUNTERS_MAX)
		return refuse(REASON_COUNTERS_ATTR, "comp_mask %#x, counter_desc %d, index %u",
			      attr->comp_mask, attr->counter_desc, attr->index);
	if (flow && flow->adapter != counters->adapter)
		return refuse(REASON_FLOW_COUNTERS, "the flow is of %s, its counters of %s",
			      flow->adapter->name, counters->adapter->name);
	if (flow) {
		pthread_mutex_lock(&flow->adapter->flows.lock);
		if (flow->counters && flow->counters != counters)
			ret = refuse(REASON_COUNTERS_TAKEN, "flow %u", flow->ibv.handle);
		else if (!flow->counters)
			atomic_fetch_add(&counters->users, 1);
		if (!ret)
			flow->counters = counters;
		pthread_mutex_unlock(&flow->adapter->flows.lock);
	}
	if (ret)
		return ret;
	pthread_mutex_lock(&counters->lock);
	counters->which[attr->index] = (int)attr->counter_desc;
	pthread_mutex_unlock(&counters->lock);
	return 0;
}

int counters_read(struct counters *counters, uint64_t *values, uint32_t number, uint32_t flags)
{
	if (number > COUNTERS_MAX || flags & ~(uint32_t)IBV_READ_COUNTERS_ATTR_PREFER_CACHED)
		return refuse(REASON_COUNTERS_ATTR, "%u counters, flags %#x", number, flags);
	pthread_mutex_lock(&counters->lock);
	for (uint32_t i = 0; i < number; i++)
		values[i] =
		    counters->which[i] == IBV_COUNTER_PACKETS ? atomic_load(&counters->packets)
		    : counters->which[i] == IBV_COUNTER_BYTES ? atomic_load(&counters->bytes)
							      : 0;
	pthread_mutex_unlock(&counters->lock);
	return 0;
}
