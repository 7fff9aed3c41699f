/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address vectors: the attributes of a program checked and resolved, once, so that sending needs no
 * table.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "device/adapter.h"
#include "device/av.h"
#include "explain/reason.h"

enum { HOP_LIMIT = 64, FLOW_LABEL_MASK = 0xfffff, MAX_SL = 15 };

static const char *gid_text(const union ibv_gid *gid, char text[INET6_ADDRSTRLEN])
{
	return inet_ntop(AF_INET6, gid, text, INET6_ADDRSTRLEN);
}

static bool is_zero(const union ibv_gid *gid)
{
	static const union ibv_gid zero;

	return !memcmp(gid, &zero, sizeof(zero));
}

static int check_plain(const struct ibv_ah_attr *attr)
{
	if (attr->port_num != PORT_NUMBER)
		return refuse(REASON_AV_PORT, "port_num is %u, the device has port %u",
			      attr->port_num, PORT_NUMBER);
	if (!attr->is_global)
		return refuse(REASON_AV_NO_GRH, "is_global is 0 (dlid is %u)", attr->dlid);
	if (attr->sl > MAX_SL)
		return refuse(REASON_AV_SL, "sl is %u", attr->sl);
	if (is_zero(&attr->grh.dgid))
		return refuse(REASON_AV_NO_DGID, "grh.dgid is ::");
	return 0;
}

/* A packet has one IP version: both ends must be of it. A multicast GID may also be RoCEv1's form,
 * ff0e::ffff:a.b.c.d. */
static int check_family(const union ibv_gid *sgid, const union ibv_gid *dgid, unsigned int index)
{
	char source[INET6_ADDRSTRLEN], destination[INET6_ADDRSTRLEN];

	if (gid_is_ipv4(sgid) == gid_is_ipv4(dgid) || gid_is_multicast(dgid))
		return 0;
	return refuse(REASON_AV_FAMILY, "grh.sgid_index %u is %s, grh.dgid is %s", index,
		      gid_text(sgid, source), gid_text(dgid, destination));
}

int av_resolve(struct adapter *adapter, const struct ibv_ah_attr *attr, struct av *av)
{
	int ret = check_plain(attr);

	if (ret)
		return ret;
	ret = port_gid(&adapter->port, attr->grh.sgid_index, &av->sgid);
	if (ret)
		return refuse(REASON_AV_SGID_INDEX, "grh.sgid_index is %u; %s has no address there",
			      attr->grh.sgid_index, adapter->name);
	ret = check_family(&av->sgid, &attr->grh.dgid, attr->grh.sgid_index);
	if (ret)
		return ret;
	av->dgid = attr->grh.dgid;
	av->flow_label = attr->grh.flow_label & FLOW_LABEL_MASK;
	av->traffic_class = attr->grh.traffic_class;
	av->ecn = 0;
	av->sgid_index = attr->grh.sgid_index;
	av->sl = attr->sl;
	av->carrier_max = 0;
	/* RoCE takes the hop limit of a unicast path from the route, whatever the program says:
	 * many say 1. */
	av->hop_limit = HOP_LIMIT;
	if (gid_is_multicast(&av->dgid) && attr->grh.hop_limit)
		av->hop_limit = attr->grh.hop_limit;
	return 0;
}

void av_describe(const struct av *av, struct ibv_ah_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->grh.dgid = av->dgid;
	attr->grh.flow_label = av->flow_label;
	attr->grh.sgid_index = av->sgid_index;
	attr->grh.hop_limit = av->hop_limit;
	attr->grh.traffic_class = av->traffic_class;
	attr->sl = av->sl;
	attr->is_global = 1;
	attr->port_num = PORT_NUMBER;
}
