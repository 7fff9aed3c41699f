/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages there and back, each with an immediate that says which it is, and one write with an
 * immediate at the end. Receives complete in a CQ of their own.
 *
 *   messages server|client ADDRESS PORT
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

enum { ROUNDS = 100, RING = 8, MESSAGE = 1024, END = 0x7fffffff };

static struct rpma_conn_cfg *cfg_new(void)
{
	struct rpma_conn_cfg *cfg;

	OK(rpma_conn_cfg_new(&cfg));
	OK(rpma_conn_cfg_set_rq_size(cfg, RING));
	OK(rpma_conn_cfg_set_rcq_size(cfg, RING));
	return cfg;
}

static uint32_t receive(struct rpma_conn *conn, size_t *slot)
{
	struct rpma_cq *rcq;
	struct ibv_wc wc;

	OK(rpma_conn_get_rcq(conn, &rcq));
	wc = common_completion(conn, rcq);
	common_must(wc.wc_flags & IBV_WC_WITH_IMM, "no immediate");
	*slot = wc.wr_id;
	return ntohl(wc.imm_data);
}

static void server(const char *address, const char *port)
{
	struct rpma_peer *peer = common_peer(address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
	char *memory = calloc(RING + 1, MESSAGE);
	struct rpma_conn_cfg *cfg = cfg_new();
	struct common_offer offer;
	struct rpma_conn_private_data said = {&offer, sizeof(offer)};
	struct rpma_conn *conn;
	struct rpma_mr_local *mr;
	struct rpma_ep *ep;
	uint32_t number;
	size_t slot;

	OK(rpma_mr_reg(peer, memory, (RING + 1) * MESSAGE,
		       RPMA_MR_USAGE_RECV | RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_WRITE_DST, &mr));
	common_offer(mr, false, &offer);
	OK(rpma_ep_listen(peer, address, port, &ep));
	conn = common_accept(ep, cfg, mr, RING, MESSAGE, &said);
	while ((number = receive(conn, &slot)) != END) {
		/* the same back, from where it came to; then the place is free again */
		OK(rpma_send_with_imm(conn, mr, slot * MESSAGE, MESSAGE, RPMA_F_COMPLETION_ALWAYS,
				      number + 1, NULL));
		common_completion(conn, NULL);
		OK(rpma_recv(conn, mr, slot * MESSAGE, MESSAGE, (void *)slot));
	}
	common_must(!strcmp(memory + RING * MESSAGE, "that was all"), "another last word");
	common_wait_closed(conn);
	puts("echoed");
	OK(rpma_ep_shutdown(&ep));
	OK(rpma_conn_cfg_delete(&cfg));
	OK(rpma_mr_dereg(&mr));
	OK(rpma_peer_delete(&peer));
	free(memory);
}

static void client(const char *address, const char *port)
{
	struct rpma_peer *peer = common_peer(address, RPMA_UTIL_IBV_CONTEXT_REMOTE);
	struct rpma_conn_cfg *cfg = cfg_new();
	struct rpma_conn *conn = common_connect(peer, address, port, cfg);
	struct rpma_mr_remote *remote = common_take_offer(conn);
	char *memory = calloc(2, MESSAGE);
	struct rpma_mr_local *mr;
	size_t slot;

	OK(rpma_mr_reg(peer, memory, 2 * MESSAGE,
		       RPMA_MR_USAGE_RECV | RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_WRITE_SRC, &mr));
	for (uint32_t i = 0; i < ROUNDS; i++) {
		snprintf(memory, MESSAGE, "message %u", i);
		OK(rpma_recv(conn, mr, MESSAGE, MESSAGE, NULL));
		OK(rpma_send_with_imm(conn, mr, 0, MESSAGE, RPMA_F_COMPLETION_ALWAYS, 2 * i, NULL));
		common_completion(conn, NULL);
		common_must(receive(conn, &slot) == 2 * i + 1, "another immediate");
		common_must(!memcmp(memory, memory + MESSAGE, MESSAGE), "another message");
	}
	strcpy(memory, "that was all");
	OK(rpma_write_with_imm(conn, remote, RING * MESSAGE, mr, 0, 13, RPMA_F_COMPLETION_ALWAYS,
			       END, NULL));
	common_completion(conn, NULL);
	printf("%d messages there and back\n", ROUNDS);
	common_disconnect(conn);
	OK(rpma_mr_remote_delete(&remote));
	OK(rpma_conn_cfg_delete(&cfg));
	OK(rpma_mr_dereg(&mr));
	OK(rpma_peer_delete(&peer));
	free(memory);
}

int main(int argc, char **argv)
{
	common_must(argc == 4, "messages server|client ADDRESS PORT");
	(strcmp(argv[1], "server") ? client : server)(argv[2], argv[3]);
	return 0;
}
