/* SPDX-License-Identifier: BSD-2-Clause */
/* See life.h: a connection with a receive CQ on a shared channel, one with an SRQ, every operation.
 */
#include <stdlib.h>
#include <string.h>

#include "life.h"
#include "rig.h"

/* The first failure ends the life. */
#define TRY(call)                                                                                  \
	do {                                                                                       \
		int code_ = (call);                                                                \
		if (code_)                                                                         \
			return code_;                                                              \
	} while (0)

static int complete(struct rpma_conn *conn)
{
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	TRY(rig_completion(conn, NULL, &wc));
	return wc.status == IBV_WC_SUCCESS ? 0 : RPMA_E_UNKNOWN;
}

static int operate(struct end *end)
{
	const int always = RPMA_F_COMPLETION_ALWAYS;

	TRY(rpma_write(end->conn, end->remote, 0, end->mr, 0, 4096, always, NULL));
	TRY(complete(end->conn));
	TRY(rpma_flush(end->conn, end->remote, 0, 4096, RPMA_FLUSH_TYPE_PERSISTENT, always, NULL));
	TRY(complete(end->conn));
	TRY(rpma_flush(end->conn, end->remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, always, NULL));
	TRY(complete(end->conn));
	TRY(rpma_atomic_write(end->conn, end->remote, 64, "8 bytes", always, NULL));
	TRY(complete(end->conn));
	TRY(rpma_read(end->conn, end->mr, 8192, end->remote, 0, 4096, always, NULL));
	return complete(end->conn);
}

/* A message into the SRQ, and a completion from its CQ. */
static int talk(struct rig *rig, struct rpma_conn *conns[SIDES], struct rpma_srq *srq)
{
	struct rpma_cq *rcq = NULL;
	struct ibv_wc wc;

	TRY(rpma_srq_get_rcq(srq, &rcq));
	TRY(rpma_srq_recv(srq, rig->ends[SERVER].mr, 0, 64, NULL));
	TRY(rpma_send(conns[CLIENT], rig->ends[CLIENT].mr, 0, 64, RPMA_F_COMPLETION_ALWAYS, NULL));
	TRY(complete(conns[CLIENT]));
	return rig_completion(NULL, rcq, &wc);
}

static int with_srq(struct rig *rig)
{
	struct rpma_conn *conns[SIDES] = {0};
	struct rpma_conn_cfg *cfg = NULL;
	struct rpma_srq_cfg *srq_cfg = NULL;
	struct rpma_srq *srq = NULL;
	int code = rpma_srq_cfg_new(&srq_cfg), ended;

	if (!code)
		code = rpma_srq_new(rig->peer, srq_cfg, &srq);
	if (!code)
		code = rpma_conn_cfg_new(&cfg);
	if (!code)
		code = rpma_conn_cfg_set_srq(cfg, srq);
	if (!code)
		code = rig_connect(rig, cfg, conns);
	if (!code)
		code = talk(rig, conns, srq);
	ended = rig_disconnect(conns);
	code = code ? code : ended;
	ended = rpma_srq_delete(&srq);
	rpma_srq_cfg_delete(&srq_cfg);
	rpma_conn_cfg_delete(&cfg);
	return code ? code : ended;
}

static int with_shared_channel(struct rig *rig)
{
	struct rpma_conn *conns[SIDES] = {0};
	struct rpma_conn_cfg *cfg = NULL;
	struct rpma_cq *cq = NULL;
	bool is_rcq = false;
	int code = rpma_conn_cfg_new(&cfg), ended;

	if (!code)
		code = rpma_conn_cfg_set_rcq_size(cfg, 4);
	if (!code)
		code = rpma_conn_cfg_set_compl_channel(cfg, true);
	if (!code)
		code = rig_connect(rig, cfg, conns);
	if (!code)
		code = rpma_recv(conns[SERVER], rig->ends[SERVER].mr, 0, 64, NULL);
	if (!code)
		code = rpma_send(conns[CLIENT], rig->ends[CLIENT].mr, 0, 64,
				 RPMA_F_COMPLETION_ON_ERROR, NULL);
	if (!code)
		code = rpma_conn_wait(conns[SERVER], 0, &cq, &is_rcq);
	if (!code && !is_rcq)
		code = RPMA_E_UNKNOWN;
	ended = rig_disconnect(conns);
	rpma_conn_cfg_delete(&cfg);
	return code ? code : ended;
}

/* Requests that nobody takes up, of both sides. */
static int turned_away(struct rig *rig)
{
	struct rpma_conn_private_data data = {(void *)"x", 1};
	struct rpma_conn_req *mine = NULL, *theirs = NULL;
	struct rpma_conn *conn = NULL;
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	int code = rpma_conn_req_new(rig->peer, RIG_ADDRESS, rig->port, NULL, &mine), ended;

	if (!code)
		code = rpma_conn_req_recv(mine, rig->ends[CLIENT].mr, 0, 8, NULL);
	ended = rpma_conn_req_delete(&mine);
	code = code ? code : ended;
	if (!code)
		code = rpma_conn_req_new(rig->peer, RIG_ADDRESS, rig->port, NULL, &mine);
	if (!code)
		code = rpma_conn_req_connect(&mine, &data, &conn);
	if (!code)
		code = rpma_ep_next_conn_req(rig->ep, NULL, &theirs);
	if (!code)
		code = rpma_conn_req_delete(&theirs);
	if (!code)
		code = rig_event(conn, &event);
	if (!code && event != RPMA_CONN_REJECTED)
		code = RPMA_E_UNKNOWN;
	ended = rpma_conn_delete(&conn);
	return code ? code : ended;
}

int life_lead(void)
{
	char *memory = aligned_alloc(4096, RIG_SIZE);
	struct rig rig;
	int code, ended;

	memset(memory, 0, RIG_SIZE);
	code = rig_up(&rig, NULL, memory);
	if (!code)
		code = operate(&rig.ends[CLIENT]);
	if (!code)
		code = with_srq(&rig);
	if (!code)
		code = with_shared_channel(&rig);
	if (!code)
		code = turned_away(&rig);
	ended = rig_down(&rig);
	free(memory);
	return code ? code : ended;
}
