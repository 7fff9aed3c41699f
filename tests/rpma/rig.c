/* SPDX-License-Identifier: BSD-2-Clause */
/* See rig.h. Every failure goes to the caller, who may have wanted it. */
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rig.h"

static const char *const words[SIDES] = {"client", "server"};

static int wait_readable(int fd)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

	return poll(&poll_fd, 1, RIG_TIMEOUT_MS) == 1;
}

int rig_event(struct rpma_conn *conn, enum rpma_conn_event *event)
{
	int fd = -1, code = rpma_conn_get_event_fd(conn, &fd);

	if (code)
		return code;
	return wait_readable(fd) ? rpma_conn_next_event(conn, event) : RPMA_E_NO_EVENT;
}

int rig_completion(struct rpma_conn *conn, struct rpma_cq *cq, struct ibv_wc *wc)
{
	int fd = -1, code = cq ? 0 : rpma_conn_get_cq(conn, &cq);

	if (!code)
		code = rpma_cq_get_fd(cq, &fd);
	if (code)
		return code;
	while ((code = rpma_cq_get_wc(cq, 1, wc, NULL)) == RPMA_E_NO_COMPLETION) {
		if (!wait_readable(fd))
			return code;
		code = rpma_cq_wait(cq);
		if (code)
			return code;
	}
	return code;
}

int rig_listen(struct rig *rig)
{
	static atomic_uint listened;
	struct ibv_context *context;
	int code = rpma_utils_get_ibv_context(RIG_ADDRESS, RPMA_UTIL_IBV_CONTEXT_LOCAL, &context);

	if (!code)
		code = rpma_peer_new(context, &rig->peer);
	if (code)
		return code;
	snprintf(rig->port, sizeof(rig->port), "%u",
		 20000 +
		     ((unsigned int)getpid() * 16 + atomic_fetch_add(&listened, 1) % 16) % 20000);
	return rpma_ep_listen(rig->peer, RIG_ADDRESS, rig->port, &rig->ep);
}

static int is_said(const struct rpma_conn_private_data *data, const char *wanted)
{
	return data->ptr && data->len > strlen(wanted) && !strcmp(data->ptr, wanted);
}

static int accept_one(struct rig *rig, const struct rpma_conn_cfg *cfg, struct rpma_conn **conn)
{
	struct rpma_conn_private_data data = {(void *)words[SERVER], 7}, said;
	struct rpma_conn_req *req = NULL;
	int fd = -1, code = rpma_ep_get_fd(rig->ep, &fd);

	if (!code && !wait_readable(fd))
		code = RPMA_E_NO_EVENT;
	if (!code)
		code = rpma_ep_next_conn_req(rig->ep, cfg, &req);
	if (code)
		return code;
	code = rpma_conn_req_get_private_data(req, &said);
	if (!code && !is_said(&said, words[CLIENT]))
		code = RPMA_E_UNKNOWN;
	if (code) {
		rpma_conn_req_delete(&req);
		return code;
	}
	return rpma_conn_req_connect(&req, &data, conn);
}

int rig_connect(struct rig *rig, const struct rpma_conn_cfg *cfg, struct rpma_conn *conns[SIDES])
{
	struct rpma_conn_private_data data = {(void *)words[CLIENT], 7}, said;
	struct rpma_conn_req *req = NULL;
	int code = rpma_conn_req_new(rig->peer, RIG_ADDRESS, rig->port, cfg, &req);

	if (!code)
		code = rpma_conn_req_connect(&req, &data, &conns[CLIENT]);
	if (!code)
		code = accept_one(rig, cfg, &conns[SERVER]);
	for (int side = 0; !code && side < SIDES; side++) {
		enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

		code = rig_event(conns[side], &event);
		if (!code && event != RPMA_CONN_ESTABLISHED)
			code = RPMA_E_UNKNOWN;
		if (!code)
			code = rpma_conn_get_private_data(conns[side], &said);
		if (!code && !is_said(&said, words[!side]))
			code = RPMA_E_UNKNOWN;
	}
	return code;
}

static int disconnect(struct rpma_conn *conns[SIDES])
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	int code = rpma_conn_disconnect(conns[CLIENT]);

	for (int side = 0; !code && side < SIDES; side++) {
		code = rig_event(conns[!side], &event);
		if (!code && event != RPMA_CONN_CLOSED)
			code = RPMA_E_UNKNOWN;
		if (!code && side == 0)
			code = rpma_conn_disconnect(conns[SERVER]);
	}
	return code;
}

int rig_disconnect(struct rpma_conn *conns[SIDES])
{
	int code = conns[CLIENT] && conns[SERVER] ? disconnect(conns) : 0;

	for (int side = 0; side < SIDES; side++) {
		int deleted = rpma_conn_delete(&conns[side]);

		code = code ? code : deleted;
	}
	return code;
}

static int register_end(struct rig *rig, enum side side)
{
	struct end *end = &rig->ends[side], *other = &rig->ends[!side];
	char descriptor[64];
	size_t size = 0;
	int code = rpma_mr_reg(rig->peer, end->memory, RIG_SIZE, 0xff, &end->mr);

	if (!code)
		code = rpma_mr_get_descriptor_size(end->mr, &size);
	if (!code)
		code = rpma_mr_get_descriptor(end->mr, descriptor);
	if (!code)
		code = rpma_mr_remote_from_descriptor(descriptor, size, &other->remote);
	return code;
}

/* Both ends' memory is written directly, as they tell each other. */
static int exchange_cfg(struct rig *rig)
{
	struct rpma_peer_cfg *cfg = NULL, *told = NULL;
	char descriptor[8];
	size_t size = 0;
	int code = rpma_peer_cfg_new(&cfg);

	if (!code)
		code = rpma_peer_cfg_set_direct_write_to_pmem(cfg, true);
	if (!code)
		code = rpma_peer_cfg_get_descriptor_size(cfg, &size);
	if (!code)
		code = rpma_peer_cfg_get_descriptor(cfg, descriptor);
	if (!code)
		code = rpma_peer_cfg_from_descriptor(descriptor, size, &told);
	for (int side = 0; !code && side < SIDES; side++)
		code = rpma_conn_apply_remote_peer_cfg(rig->ends[side].conn, told);
	rpma_peer_cfg_delete(&cfg);
	rpma_peer_cfg_delete(&told);
	return code;
}

int rig_up(struct rig *rig, const struct rpma_conn_cfg *cfg, void *server_memory)
{
	struct rpma_conn *conns[SIDES] = {0};
	int code;

	memset(rig, 0, sizeof(*rig));
	code = rig_listen(rig);
	if (!code)
		code = rig_connect(rig, cfg, conns);
	for (int side = 0; side < SIDES; side++) {
		struct end *end = &rig->ends[side];

		end->conn = conns[side];
		end->memory =
		    side == SERVER && server_memory ? server_memory : aligned_alloc(4096, RIG_SIZE);
		if (!(side == SERVER && server_memory))
			memset(end->memory, 0, RIG_SIZE);
		if (!code)
			code = register_end(rig, side);
	}
	return code ? code : exchange_cfg(rig);
}

int rig_down(struct rig *rig)
{
	struct rpma_conn *conns[SIDES] = {rig->ends[CLIENT].conn, rig->ends[SERVER].conn};
	int codes[5], first = 0;

	codes[0] = rig_disconnect(conns);
	codes[1] = rpma_mr_dereg(&rig->ends[CLIENT].mr);
	codes[2] = rpma_mr_dereg(&rig->ends[SERVER].mr);
	codes[3] = rpma_ep_shutdown(&rig->ep);
	codes[4] = rpma_peer_delete(&rig->peer);
	for (int i = 4; i >= 0; i--)
		first = codes[i] ? codes[i] : first;
	for (int side = 0; side < SIDES; side++)
		rpma_mr_remote_delete(&rig->ends[side].remote);
	free(rig->ends[CLIENT].memory);
	return first;
}
