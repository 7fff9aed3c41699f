/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private entry points of librdmacm.
 */
#include "engine/netdev.h"
#include "verbs/face.h"
#include "verbs/manage.h"

uint32_t verbatim_cm_slot(struct ibv_context *context)
{
	return engine_slot(context_of(context)->adapter);
}

int verbatim_cm_send(struct ibv_context *context, const union ibv_gid *sgid,
		     const union ibv_gid *dgid, uint32_t flow_label, uint8_t traffic_class,
		     uint8_t hop_limit, const uint8_t *mad)
{
	struct av av = {
	    .dgid = *dgid,
	    .sgid = *sgid,
	    .flow_label = flow_label,
	    .traffic_class = traffic_class,
	    .hop_limit = hop_limit ? hop_limit : 64,
	};

	return engine_send_mad(context_of(context)->adapter, &av, mad);
}

void verbatim_cm_counters(struct ibv_context *context, struct gsi_counters *counters)
{
	engine_gsi_counters(context_of(context)->adapter, counters);
}

int verbatim_cm_interfaces(struct netdev **list)
{
	return netdev_list(list);
}

int verbatim_cm_watch_open(void)
{
	return netdev_watch_open();
}

void verbatim_cm_watch_drain(int fd)
{
	netdev_watch_drain(fd);
}
