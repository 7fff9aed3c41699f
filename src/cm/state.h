/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the manager's own files share.
 */
#ifndef CM_STATE_H
#define CM_STATE_H

#include "cm/cm.h"

/* An id of the passive side, for a message that came. */
struct cm_id *cm_id_create(struct cm *cm, const struct cm_path *path);
void cm_id_free(struct cm *cm, struct cm_id *id);
struct cm_id *cm_id_find(const struct cm *cm, uint32_t local);

/* By the peer: its communication id, or its QP in a connection that lives. */
struct cm_id *cm_find_by_id(const struct cm *cm, const union ibv_gid *dgid, uint32_t remote);
struct cm_id *cm_find_by_qpn(const struct cm *cm, const union ibv_gid *dgid, uint32_t qpn);
void cm_list_by_id(struct cm *cm, struct cm_id *id);
void cm_list_by_qpn(struct cm *cm, struct cm_id *id);
void cm_unlist_by_id(struct cm *cm, struct cm_id *id);
void cm_unlist_by_qpn(struct cm *cm, struct cm_id *id);

/* Connected, and no longer: what finds an id by its peer's QP and process. */
void cm_join_peer(struct cm *cm, struct cm_id *id, uint64_t now);
void cm_part(struct cm *cm, struct cm_id *id);
void cm_peer_answered(struct cm_peer *peer);
/* The id that was asked for is unknown there: the next one is asked for at once. */
void cm_peer_denied(struct cm *cm, struct cm_peer *peer, uint64_t now);
void cm_peers_run(struct cm *cm, uint64_t now);
void cm_peers_free(struct cm *cm);

/* Sends once. */
void cm_send(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad);
/* Sends, and keeps it to answer duplicates. */
void cm_send_kept(struct cm *cm, struct cm_id *id, struct cm_mad *mad);
/* Sends until it is answered. */
void cm_send_tries(struct cm *cm, struct cm_id *id, struct cm_mad *mad, uint64_t now);
void cm_resend(struct cm *cm, struct cm_id *id);
void cm_repeat_rejection(struct cm *cm, struct cm_id *id, uint64_t now);

void cm_set_deadline(struct cm *cm, struct cm_id *id, uint64_t deadline);
void cm_enter_established(struct cm *cm, struct cm_id *id, uint64_t now);
void cm_enter_timewait(struct cm *cm, struct cm_id *id, bool tells_exit, uint64_t now);
/* No timer, no peer: freed at once if released. */
void cm_close(struct cm *cm, struct cm_id *id);
void cm_close_and_tell(struct cm *cm, struct cm_id *id, enum cm_event_type type,
		       const struct cm_mad *mad);
void cm_tell(struct cm *cm, struct cm_id *id, enum cm_event_type type, const struct cm_mad *mad);
void cm_send_rej(struct cm *cm, struct cm_id *id, enum cm_rejected message, uint16_t reason,
		 const void *data, size_t length);
void cm_send_dreq(struct cm *cm, struct cm_id *id, uint64_t now);
/* Nobody answers what was sent. */
void cm_give_up(struct cm *cm, struct cm_id *id, uint64_t now);

#endif
