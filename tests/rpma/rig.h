/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the tests of librpma share: a connection between two ends of this process, over the loopback
 * device, with a region of each end.
 */
#ifndef RPMA_RIG_H
#define RPMA_RIG_H

#include <librpma.h>

#define RIG_ADDRESS "127.0.0.1"

enum { RIG_SIZE = 65536, RIG_TIMEOUT_MS = 10000 };

enum side { CLIENT, SERVER, SIDES };

struct end {
	struct rpma_conn *conn;
	char *memory; /* RIG_SIZE bytes, of the rig's maker or the rig's own */
	struct rpma_mr_local *mr;
	struct rpma_mr_remote *remote; /* the other end's */
};

struct rig {
	struct rpma_peer *peer;
	struct rpma_ep *ep;
	char port[8];
	struct end ends[SIDES];
};

/* All of it, connected; `server_memory` may be NULL. 0, or what failed first; rig_down() either
 * way. */
int rig_up(struct rig *rig, const struct rpma_conn_cfg *cfg, void *server_memory);
/* 0, or what failed first; but all of it is gone. */
int rig_down(struct rig *rig);

/* Peer and endpoint alone; then one more connection, without regions. */
int rig_listen(struct rig *rig);
int rig_connect(struct rig *rig, const struct rpma_conn_cfg *cfg, struct rpma_conn *conns[SIDES]);
/* Both sides of it, to the end. */
int rig_disconnect(struct rpma_conn *conns[SIDES]);

/* Waits for an event. RPMA_E_NO_EVENT after RIG_TIMEOUT_MS. */
int rig_event(struct rpma_conn *conn, enum rpma_conn_event *event);
/* Waits for a completion of a CQ (NULL: the connection's). RPMA_E_NO_COMPLETION after that time. */
int rig_completion(struct rpma_conn *conn, struct rpma_cq *cq, struct ibv_wc *wc);

#endif
