/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Looking at other processes' sockets: a few that we send to are kept at hand.
 */
#include <linux/sock_diag.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "device/qp.h"
#include "engine/crowd.h"
#include "engine/state.h"
#include "engine/steer.h"

enum { LOOK_UP_AGAIN_NS = 1000000000 };

void crowd_init(struct crowd *crowd)
{
	memset(crowd, 0, sizeof(*crowd));
	for (int i = 0; i < CROWD_PEERS; i++)
		crowd->peers[i].fd = -1;
}

void crowd_close(struct crowd *crowd)
{
	for (int i = 0; i < CROWD_PEERS; i++)
		if (crowd->peers[i].fd >= 0)
			close(crowd->peers[i].fd);
	crowd_init(crowd);
}

/* Where the QP's next message goes. False if it has none, or goes to many. */
static bool next_receiver(const struct qp *qp, const struct av **av, uint32_t *qpn)
{
	uint32_t head = atomic_load_explicit(&qp->sq.head, memory_order_relaxed);
	const struct send_wqe *wqe;

	if (head == atomic_load_explicit(&qp->sq.tail, memory_order_acquire))
		return false;
	wqe = sq_wqe(&qp->sq, head);
	*av = qp->type == IBV_QPT_UD ? &wqe->ud.av : &qp->av;
	*qpn = qp->type == IBV_QPT_UD ? wqe->ud.qpn : qp->attr.dest_qp_num;
	return !gid_is_multicast(&(*av)->dgid);
}

static struct crowd_peer *find_peer(struct crowd *crowd, struct engine *engine,
				    const union ibv_gid *gid, uint32_t qpn, uint64_t now)
{
	uint32_t index =
	    1 + (qpn >> QPN_SLOT_SHIFT) * GROUP_MAX_LANES + steer_lane(qpn, GROUP_MAX_LANES);
	struct crowd_peer *peer;

	for (int i = 0; i < CROWD_PEERS; i++) {
		peer = &crowd->peers[i];
		if (peer->index == index && memcmp(&peer->gid, gid, sizeof(*gid)) == 0 &&
		    (peer->fd >= 0 || now < peer->looked_up + LOOK_UP_AGAIN_NS))
			return peer;
	}
	peer = &crowd->peers[crowd->next++ % CROWD_PEERS];
	if (peer->fd >= 0)
		close(peer->fd);
	peer->gid = *gid;
	peer->index = index;
	peer->looked_up = now;
	peer->fd = group_peer(&engine->groups, gid, qpn);
	return peer;
}

bool crowd_is_full(struct crowd *crowd, struct engine *engine, const struct qp *qp, uint64_t now)
{
	uint32_t memory[SK_MEMINFO_VARS];
	socklen_t size = sizeof(memory);
	const struct av *av;
	uint32_t qpn;
	int fd;

	if (!next_receiver(qp, &av, &qpn))
		return false;
	fd = find_peer(crowd, engine, &av->dgid, qpn, now)->fd;
	return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, &size) == 0 &&
	       memory[SK_MEMINFO_RMEM_ALLOC] > memory[SK_MEMINFO_RCVBUF] / 2;
}
