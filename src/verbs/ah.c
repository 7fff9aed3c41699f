/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address handles, from attributes or from a completion and the 40 bytes before its datagram.
 */
#include "device/pd.h"
#include "verbs/face.h"
#include "wire/headers.h"

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ah *ah;
	int ret = ah_create(pd_of(pd), attr, &ah);

	if (ret) {
		errno = ret;
		return NULL;
	}
	ah->ibv.context = pd->context;
	return &ah->ibv;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	return verb_result(ah_destroy(ah_of(ah)));
}

/* ---- back to where a datagram came from ---- */

enum { IPV4_OFFSET = GRH_BYTES - 20, IPV4_TTL = 8, IPV4_SOURCE = 12, IPV4_DESTINATION = 16 };

static union ibv_gid gid_of_ipv4(const uint8_t address[4])
{
	union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};

	memcpy(gid.raw + 12, address, 4);
	return gid;
}

/* The header in the area: what to answer to, and with which of our addresses. */
static void read_grh(const uint8_t *area, struct ibv_global_route *route, union ibv_gid *ours)
{
	const uint8_t *ipv4 = area + IPV4_OFFSET;
	struct grh grh;

	if (area[0] >> 4 != 6 && ipv4[0] == 0x45) {
		route->dgid = gid_of_ipv4(ipv4 + IPV4_SOURCE);
		*ours = gid_of_ipv4(ipv4 + IPV4_DESTINATION);
		route->traffic_class = ipv4[1];
		route->hop_limit = ipv4[IPV4_TTL];
		return;
	}
	grh_unpack(&grh, area);
	memcpy(&route->dgid, grh.sgid, sizeof(route->dgid));
	memcpy(ours, grh.dgid, sizeof(*ours));
	route->flow_label = grh.flow_label;
	route->traffic_class = grh.traffic_class;
	route->hop_limit = grh.hop_limit;
}

/* A datagram to a group is answered from the first address of the sender's IP version. */
static int find_gid(struct adapter *adapter, const union ibv_gid *ours, const union ibv_gid *peer,
		    uint8_t *index)
{
	bool is_multicast = gid_is_multicast(ours);

	for (unsigned int i = 0; i < MAX_GIDS; i++) {
		union ibv_gid gid;

		if (port_gid(&adapter->port, i, &gid))
			continue;
		if (is_multicast ? gid_is_ipv4(&gid) != gid_is_ipv4(peer)
				 : memcmp(&gid, ours, sizeof(gid)) != 0)
			continue;
		*index = (uint8_t)i;
		return 0;
	}
	return refuse(REASON_AH_NOT_OURS,
		      "no entry in the GID table of %s is the destination of the "
		      "datagram",
		      adapter->name);
}

int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
			struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	union ibv_gid ours;
	int ret = 0;

	memset(attr, 0, sizeof(*attr));
	attr->dlid = wc->slid;
	attr->sl = wc->sl;
	attr->src_path_bits = wc->dlid_path_bits;
	attr->port_num = port_num;
	if (!(wc->wc_flags & IBV_WC_GRH)) {
		ret = refuse(REASON_AH_NO_GRH, "wc_flags is %#x", wc->wc_flags);
	} else {
		attr->is_global = 1;
		read_grh((const uint8_t *)grh, &attr->grh, &ours);
		ret = find_gid(context_of(context)->adapter, &ours, &attr->grh.dgid,
			       &attr->grh.sgid_index);
	}
	if (!ret)
		return 0;
	errno = ret;
	return -1;
}

/* The whole of `attr` is checked, as an address handle's would be. */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	UNCANCELLED;
	struct adapter *adapter = context_of(context)->adapter;
	struct av av;
	int ret = av_resolve(adapter, attr, &av);

	if (!ret)
		ret = engine_resolve_mac(adapter, &av.dgid, eth_mac, vid);
	return verb_result(ret);
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				     uint8_t port_num)
{
	struct ibv_ah_attr attr;

	if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr))
		return NULL;
	return ibv_create_ah(pd, &attr);
}
