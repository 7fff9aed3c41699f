/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several connections. The server has one receive queue for all of them (an SRQ), and knows by the
 * QP's number who sent; the client has all of them in one epoll(7), each with a channel that its CQ
 * and its receive CQ share.
 *
 *   several server|client ADDRESS PORT
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "common.h"

enum { CONNS = 4, ROUNDS = 50, RING = 32, MESSAGE = 64 };

struct guest {
	struct rpma_conn *conn;
	uint32_t number;
	unsigned int count;
};

static struct guest *guest_of(struct guest *guests, uint32_t number)
{
	for (int i = 0; i < CONNS; i++)
		if (guests[i].number == number)
			return &guests[i];
	common_must(false, "a message of nobody");
	return NULL;
}

static struct rpma_srq *srq_new(struct rpma_peer *peer, struct rpma_mr_local *mr)
{
	struct rpma_srq_cfg *cfg;
	struct rpma_srq *srq;

	OK(rpma_srq_cfg_new(&cfg));
	OK(rpma_srq_cfg_set_rq_size(cfg, RING));
	OK(rpma_srq_cfg_set_rcq_size(cfg, RING));
	OK(rpma_srq_new(peer, cfg, &srq));
	OK(rpma_srq_cfg_delete(&cfg));
	for (size_t i = 0; i < RING; i++)
		OK(rpma_srq_recv(srq, mr, i * MESSAGE, MESSAGE, (void *)i));
	return srq;
}

/* Whatever comes, from whoever: its sender gets the number of messages that it sent by now. */
static void serve(struct rpma_srq *srq, struct guest *guests, struct rpma_mr_local *mr,
		  char *memory)
{
	struct rpma_cq *rcq;

	OK(rpma_srq_get_rcq(srq, &rcq));
	for (int i = 0; i < CONNS * ROUNDS; i++) {
		struct ibv_wc wc = common_completion(NULL, rcq);
		struct guest *guest = guest_of(guests, wc.qp_num);
		char *place = memory + wc.wr_id * MESSAGE;

		common_must((unsigned int)atoi(place) == guest->count++, "out of order");
		snprintf(place, MESSAGE, "%u", guest->count);
		OK(rpma_send(guest->conn, mr, wc.wr_id * MESSAGE, MESSAGE, RPMA_F_COMPLETION_ALWAYS,
			     NULL));
		common_completion(guest->conn, NULL);
		OK(rpma_srq_recv(srq, mr, wc.wr_id * MESSAGE, MESSAGE, (void *)wc.wr_id));
	}
}

static void server(const char *address, const char *port)
{
	struct rpma_peer *peer = common_peer(address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
	char *memory = calloc(RING, MESSAGE);
	struct guest guests[CONNS] = {0};
	struct rpma_conn_cfg *cfg;
	struct rpma_mr_local *mr;
	struct rpma_srq *srq;
	struct rpma_ep *ep;

	OK(rpma_mr_reg(peer, memory, RING * MESSAGE, RPMA_MR_USAGE_RECV | RPMA_MR_USAGE_SEND, &mr));
	srq = srq_new(peer, mr);
	OK(rpma_conn_cfg_new(&cfg));
	OK(rpma_conn_cfg_set_srq(cfg, srq));
	OK(rpma_ep_listen(peer, address, port, &ep));
	for (int i = 0; i < CONNS; i++) {
		guests[i].conn = common_accept(ep, cfg, NULL, 0, 0, NULL);
		OK(rpma_conn_get_qp_num(guests[i].conn, &guests[i].number));
	}
	serve(srq, guests, mr, memory);
	for (int i = 0; i < CONNS; i++)
		common_wait_closed(guests[i].conn);
	puts("served");
	OK(rpma_ep_shutdown(&ep));
	OK(rpma_srq_delete(&srq));
	OK(rpma_conn_cfg_delete(&cfg));
	OK(rpma_mr_dereg(&mr));
	OK(rpma_peer_delete(&peer));
	free(memory);
}

/* Place 2i is connection i's to send, 2i + 1 to receive. */
static void ask(struct guest *guest, int i, struct rpma_mr_local *mr, char *memory)
{
	snprintf(memory + 2 * i * MESSAGE, MESSAGE, "%u", guest->count);
	OK(rpma_recv(guest->conn, mr, (2 * (size_t)i + 1) * MESSAGE, MESSAGE, NULL));
	OK(rpma_send(guest->conn, mr, 2 * (size_t)i * MESSAGE, MESSAGE, RPMA_F_COMPLETION_ALWAYS,
		     NULL));
}

/* What woke it: ends of sends are taken and forgotten, an answer is followed by the next question.
 */
static void woken(struct guest *guest, int i, struct rpma_mr_local *mr, char *memory)
{
	struct rpma_cq *cq;
	bool is_rcq, is_answered = false;
	struct ibv_wc wc;

	OK(rpma_conn_wait(guest->conn, 0, &cq, &is_rcq));
	while (rpma_cq_get_wc(cq, 1, &wc, NULL) == 0) {
		common_must(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
		common_must(is_rcq == (wc.opcode == IBV_WC_RECV), "it came to the other CQ");
		if (!is_rcq)
			continue;
		guest->count++;
		common_must((unsigned int)atoi(memory + (2 * i + 1) * MESSAGE) == guest->count,
			    "another count");
		is_answered = true;
	}
	/* not within the loop, which fast answers would keep from the other CQ until that is full
	 */
	if (is_answered && guest->count < ROUNDS)
		ask(guest, i, mr, memory);
}

static void talk(struct guest *guests, struct rpma_mr_local *mr, char *memory)
{
	struct epoll_event events[CONNS];
	int epoll = epoll_create1(0), done = 0;

	for (int i = 0; i < CONNS; i++) {
		struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
		int fd;

		OK(rpma_conn_get_compl_fd(guests[i].conn, &fd));
		common_must(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "epoll");
		ask(&guests[i], i, mr, memory);
	}
	while (done < CONNS) {
		int count = epoll_wait(epoll, events, CONNS, -1);

		for (int j = 0; j < count; j++) {
			int i = (int)events[j].data.u32;
			unsigned int before = guests[i].count;

			woken(&guests[i], i, mr, memory);
			done += before < ROUNDS && guests[i].count == ROUNDS;
		}
	}
}

static void client(const char *address, const char *port)
{
	struct rpma_peer *peer = common_peer(address, RPMA_UTIL_IBV_CONTEXT_REMOTE);
	char *memory = calloc(2 * CONNS, MESSAGE);
	struct guest guests[CONNS] = {0};
	struct rpma_conn_cfg *cfg;
	struct rpma_mr_local *mr;

	OK(rpma_mr_reg(peer, memory, (size_t)(2 * CONNS) * MESSAGE,
		       RPMA_MR_USAGE_RECV | RPMA_MR_USAGE_SEND, &mr));
	OK(rpma_conn_cfg_new(&cfg));
	OK(rpma_conn_cfg_set_rcq_size(cfg, 10));
	OK(rpma_conn_cfg_set_compl_channel(cfg, true));
	for (int i = 0; i < CONNS; i++)
		guests[i].conn = common_connect(peer, address, port, cfg);
	talk(guests, mr, memory);
	for (int i = 0; i < CONNS; i++)
		common_disconnect(guests[i].conn);
	printf("%d connections, %d answers each\n", CONNS, ROUNDS);
	OK(rpma_conn_cfg_delete(&cfg));
	OK(rpma_mr_dereg(&mr));
	OK(rpma_peer_delete(&peer));
	free(memory);
}

int main(int argc, char **argv)
{
	common_must(argc == 4, "several server|client ADDRESS PORT");
	(strcmp(argv[1], "server") ? client : server)(argv[2], argv[3]);
	return 0;
}
