/* SPDX-License-Identifier: BSD-2-Clause */
/* See common.h. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common.h"

void common_ok(int code, const char *what)
{
	if (code == 0)
		return;
	fprintf(stderr, "%s: %s\n", what, rpma_err_2str(code));
	exit(1);
}

void common_must(bool is_so, const char *words)
{
	if (is_so)
		return;
	fprintf(stderr, "%s\n", words);
	exit(1);
}

struct rpma_peer *common_peer(const char *address, enum rpma_util_ibv_context_type type)
{
	struct ibv_context *device;
	struct rpma_peer *peer;

	OK(rpma_utils_get_ibv_context(address, type, &device));
	OK(rpma_peer_new(device, &peer));
	return peer;
}

static void wait_for(struct rpma_conn *conn, enum rpma_conn_event wanted)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

	OK(rpma_conn_next_event(conn, &event));
	common_must(event == wanted, rpma_utils_conn_event_2str(event));
}

struct rpma_conn *common_connect(struct rpma_peer *peer, const char *address, const char *port,
				 const struct rpma_conn_cfg *cfg)
{
	struct rpma_conn_req *request;
	struct rpma_conn *conn;

	OK(rpma_conn_req_new(peer, address, port, cfg, &request));
	OK(rpma_conn_req_connect(&request, NULL, &conn));
	wait_for(conn, RPMA_CONN_ESTABLISHED);
	return conn;
}

struct rpma_conn *common_accept(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg,
				struct rpma_mr_local *recv, unsigned int receives,
				size_t message_size, const struct rpma_conn_private_data *said)
{
	struct rpma_conn_req *request;
	struct rpma_conn *conn;

	OK(rpma_ep_next_conn_req(ep, cfg, &request));
	/* before the connection is there: so no message comes too early */
	for (size_t i = 0; i < receives; i++)
		OK(rpma_conn_req_recv(request, recv, i * message_size, message_size, (void *)i));
	OK(rpma_conn_req_connect(&request, said, &conn));
	wait_for(conn, RPMA_CONN_ESTABLISHED);
	return conn;
}

void common_disconnect(struct rpma_conn *conn)
{
	OK(rpma_conn_disconnect(conn));
	wait_for(conn, RPMA_CONN_CLOSED);
	OK(rpma_conn_delete(&conn));
}

void common_wait_closed(struct rpma_conn *conn)
{
	wait_for(conn, RPMA_CONN_CLOSED);
	OK(rpma_conn_disconnect(conn));
	OK(rpma_conn_delete(&conn));
}

struct ibv_wc common_completion(struct rpma_conn *conn, struct rpma_cq *cq)
{
	struct ibv_wc wc;
	int code;

	if (!cq)
		OK(rpma_conn_get_cq(conn, &cq));
	/* look first: a wake may be for a completion that was taken already */
	while ((code = rpma_cq_get_wc(cq, 1, &wc, NULL)) == RPMA_E_NO_COMPLETION)
		OK(rpma_cq_wait(cq));
	common_ok(code, "rpma_cq_get_wc()");
	common_must(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
	return wc;
}

void common_offer(const struct rpma_mr_local *mr, bool is_durable, struct common_offer *offer)
{
	struct rpma_peer_cfg *cfg;
	size_t mr_size, cfg_size;

	OK(rpma_peer_cfg_new(&cfg));
	OK(rpma_peer_cfg_set_direct_write_to_pmem(cfg, is_durable));
	OK(rpma_mr_get_descriptor_size(mr, &mr_size));
	OK(rpma_peer_cfg_get_descriptor_size(cfg, &cfg_size));
	common_must(mr_size + cfg_size <= sizeof(offer->bytes), "the descriptors are too long");
	*offer = (struct common_offer){.mr_size = (uint8_t)mr_size, .cfg_size = (uint8_t)cfg_size};
	OK(rpma_mr_get_descriptor(mr, offer->bytes));
	OK(rpma_peer_cfg_get_descriptor(cfg, offer->bytes + mr_size));
	OK(rpma_peer_cfg_delete(&cfg));
}

struct rpma_mr_remote *common_take_offer(struct rpma_conn *conn)
{
	struct rpma_conn_private_data data;
	const struct common_offer *offer;
	struct rpma_mr_remote *remote;
	struct rpma_peer_cfg *cfg;

	OK(rpma_conn_get_private_data(conn, &data));
	common_must(data.ptr && data.len >= sizeof(*offer), "the server offers nothing");
	offer = data.ptr;
	common_must(offer->mr_size + offer->cfg_size <= (int)sizeof(offer->bytes), "no offer");
	OK(rpma_mr_remote_from_descriptor(offer->bytes, offer->mr_size, &remote));
	OK(rpma_peer_cfg_from_descriptor(offer->bytes + offer->mr_size, offer->cfg_size, &cfg));
	OK(rpma_conn_apply_remote_peer_cfg(conn, cfg));
	OK(rpma_peer_cfg_delete(&cfg));
	return remote;
}

void *common_map(const char *path, size_t size)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	void *memory;

	common_must(fd >= 0 && ftruncate(fd, (off_t)size) == 0, path);
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0);
	if (memory == MAP_FAILED)
		memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	common_must(memory != MAP_FAILED, path);
	close(fd);
	return memory;
}
