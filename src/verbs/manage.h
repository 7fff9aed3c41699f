/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What librdmacm asks of libibverbs besides the verbs: messages of the connection manager from QP
 * 1, which no program may use. Of the private symbol version: both libraries are of one build.
 */
#ifndef VERBS_MANAGE_H
#define VERBS_MANAGE_H

#include <stdint.h>

#include <infiniband/verbs.h>

struct netdev;
struct gsi_counters;

/* This process's slot, the high bits of its communication ids. */
uint32_t verbatim_cm_slot(struct ibv_context *context);

/* Sends a MAD of 256 bytes to the QP 1 of `dgid`. 0 or a positive errno. */
int verbatim_cm_send(struct ibv_context *context, const union ibv_gid *sgid,
		     const union ibv_gid *dgid, uint32_t flow_label, uint8_t traffic_class,
		     uint8_t hop_limit, const uint8_t *mad);

/* engine/engine.h */
void verbatim_cm_counters(struct ibv_context *context, struct gsi_counters *counters);

/* engine/netdev.h: what the interfaces are, and a descriptor that tells when to look again. Here
 * since a process may have one user of libnl at a time. */
int verbatim_cm_interfaces(struct netdev **list);
int verbatim_cm_watch_open(void);
void verbatim_cm_watch_drain(int fd);

#endif
