/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups of ids. On RoCE there is nobody to ask: a group's address is its GID, and
 * joining is the interface's business (ibv_attach_mcast()).
 */
#include <stdlib.h>
#include <string.h>

#include "rdmacm/face.h"

static void leave(struct id *id, struct group *group)
{
	if (group->is_attached && id->cm.qp)
		ibv_detach_mcast(id->cm.qp, &group->gid, 0xffff);
	cds_list_del(&group->node);
	free(group);
}

void groups_leave(struct id *id)
{
	struct group *group, *next;

	cds_list_for_each_entry_safe (group, next, &id->groups, node)
		leave(id, group);
}

static int join(struct id *id, const struct sockaddr *address, bool is_sender, void *context)
{
	struct group *group;
	struct event *event;
	int error = 0;

	if (id_need_device(id) || !address_length(address))
		return EINVAL;
	group = calloc(1, sizeof(*group));
	event = event_create(id, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	if (!group || !event)
		error = ENOMEM;
	if (error == 0) {
		memcpy(&group->address, address, address_length(address));
		gid_of_address(address, &group->gid);
		if (id->cm.qp && !is_sender)
			error = ibv_attach_mcast(id->cm.qp, &group->gid, 0xffff);
	}
	if (error) {
		free(group);
		free(event);
		return error;
	}
	group->is_attached = id->cm.qp && !is_sender;
	cds_list_add(&group->node, &id->groups);
	event->cm.param.ud.private_data = context;
	event->cm.param.ud.qp_num = 0xffffff;
	event->cm.param.ud.qkey = RDMA_UDP_QKEY;
	event->cm.param.ud.ah_attr.is_global = 1;
	event->cm.param.ud.ah_attr.port_num = 1;
	event->cm.param.ud.ah_attr.dlid = 0xffff;
	event->cm.param.ud.ah_attr.grh.dgid = group->gid;
	event->cm.param.ud.ah_attr.grh.sgid_index = (uint8_t)id->sgid_index;
	event->cm.param.ud.ah_attr.grh.hop_limit = 64;
	event->cm.param.ud.ah_attr.grh.traffic_class = id->tos;
	event_post(event);
	return 0;
}

int rdma_join_multicast_ex(struct rdma_cm_id *cm_id, struct rdma_cm_join_mc_attr_ex *attr,
			   void *context)
{
	struct sockaddr_storage room;
	struct id *id = id_of(cm_id);
	int error;

	if (!(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) || !attr->addr ||
	    attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED ||
	    ((attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) &&
	     attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED))
		return cm_result(EINVAL);
	manager_lock();
	error = join(id, address_plain(attr->addr, &room),
		     (attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) &&
			 attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
		     context);
	manager_unlock();
	return error ? cm_result(error) : id_complete(id);
}

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	struct rdma_cm_join_mc_attr_ex attr = {.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS,
					       .addr = addr};

	return rdma_join_multicast_ex(id, &attr, context);
}

int rdma_leave_multicast(struct rdma_cm_id *cm_id, struct sockaddr *addr)
{
	struct id *id = id_of(cm_id);
	struct group *group, *found = NULL;
	struct sockaddr_storage room;
	const struct sockaddr *plain = address_plain(addr, &room);

	manager_lock();
	cds_list_for_each_entry (group, &id->groups, node)
		if (memcmp(&group->address, plain, address_length(plain)) == 0)
			found = group;
	if (found)
		leave(id, found);
	manager_unlock();
	return found ? 0 : cm_result(EADDRNOTAVAIL);
}
