/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An rsocket whose peer has the other byte order: one that is made here of verbs, and that reads
 * what the rsocket writes into its table as such a machine would.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "own_network.h"
#include "rdmacm/rs.h"

enum { PORT = 7401, IOMAPS = 8, RECEIVES = 64, OFFSET = 0x1234 };

static int listener, stream;

/* The peer's memory: what the rsocket writes to, and what is sent from. */
static struct {
	struct rs_sge halves[RS_HALVES];
	struct rs_iomap iomaps[IOMAPS];
	char received[4096], sent[RS_BUFFER_DEFAULT];
} memory;

static struct rdma_cm_id *peer;
static struct ibv_mr *mr;
static struct rs_sge first; /* half of the rsocket's ring */

static uint64_t swapped64(uint64_t value)
{
	return __builtin_bswap64(value);
}

static uint32_t swapped32(uint32_t value)
{
	return __builtin_bswap32(value);
}

static void *accept_it(void *data)
{
	stream = raccept(listener, NULL, NULL);
	return NULL;
}

static struct sockaddr_in address(void)
{
	struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	inet_pton(AF_INET, "127.0.0.1", &here.sin_addr);
	return here;
}

static void listen_there(void)
{
	struct sockaddr_in here = address();
	int maps = IOMAPS;

	listener = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(rsetsockopt(listener, SOL_RDMA, RDMA_IOMAPSIZE, &maps, sizeof(maps)), 0);
	assert_int_equal(rbind(listener, (struct sockaddr *)&here, sizeof(here)), 0);
	assert_int_equal(rlisten(listener, 1), 0);
}

static void make_peer(void)
{
	struct ibv_qp_init_attr attr = {.cap = {16, RECEIVES, 1, 1, 0}, .sq_sig_all = 1};
	struct sockaddr_in there = address();

	assert_int_equal(rdma_create_id(NULL, &peer, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(peer, NULL, (struct sockaddr *)&there, 1000), 0);
	assert_int_equal(rdma_resolve_route(peer, 1000), 0);
	attr.qp_type = IBV_QPT_RC;
	assert_int_equal(rdma_create_qp(peer, NULL, &attr), 0);
	mr = rdma_reg_write(peer, &memory, sizeof(memory));
	assert_non_null(mr);
	for (int i = 0; i < RECEIVES; i++)
		assert_int_equal(rdma_post_recv(peer, NULL, memory.received, 1, mr), 0);
}

static int connect_peer(void **state)
{
	struct rs_conn_data data = {
	    .version = RS_CONN_VERSION,
	    .flags = RS_CONN_IOMAP | (htobe16(1) == 1 ? 0 : RS_CONN_NET_ORDER),
	    .credits = htobe16(RECEIVES),
	    .iomap_size = IOMAPS / 8,
	};
	struct rdma_conn_param param = {.private_data = &data,
					.private_data_len = sizeof(data),
					.retry_count = 7,
					.rnr_retry_count = 7};
	struct rs_conn_data told;
	pthread_t thread;

	if (interface_up("lo") < 0)
		return -1;
	listen_there();
	make_peer();
	data.target_sgl = (struct rs_sge){.addr = htobe64((uintptr_t)memory.halves),
					  .key = htobe32(mr->rkey),
					  .length = htobe32(RS_HALVES)};
	data.data_buf = (struct rs_sge){.addr = htobe64((uintptr_t)memory.received),
					.key = htobe32(mr->rkey),
					.length = htobe32(sizeof(memory.received))};
	assert_int_equal(pthread_create(&thread, NULL, accept_it, NULL), 0);
	assert_int_equal(rdma_connect(peer, &param), 0);
	memcpy(&told, peer->event->param.conn.private_data, sizeof(told));
	first = (struct rs_sge){.addr = be64toh(told.data_buf.addr),
				.key = be32toh(told.data_buf.key),
				.length = be32toh(told.data_buf.length)};
	pthread_join(thread, NULL);
	return stream < 0;
}

static int part(void **state)
{
	rclose(stream); /* which disconnects; the peer answers */
	rclose(listener);
	rdma_disconnect(peer);
	rdma_destroy_qp(peer);
	rdma_dereg_mr(mr);
	return rdma_destroy_id(peer);
}

/* The word that came with the next message. */
static uint32_t next_word(void)
{
	struct ibv_wc wc;

	assert_int_equal(rdma_get_recv_comp(peer, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	return ntohl(wc.imm_data);
}

static void send_into(const struct rs_sge *half, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)memory.sent, length, mr->lkey};
	struct ibv_send_wr wr = {
	    .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
	    .imm_data = htonl((uint32_t)RS_OP_DATA << RS_OP_SHIFT | length),
	    .sg_list = &sge,
	    .num_sge = 1,
	    .wr.rdma = {half->addr, half->key},
	};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	assert_int_equal(ibv_post_send(peer->qp, &wr, &bad), 0);
	assert_int_equal(rdma_get_send_comp(peer, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static void receive_all(uint32_t length)
{
	static char got[sizeof(memory.sent)];

	assert_int_equal(rrecv(stream, got, length, MSG_WAITALL), length);
	assert_memory_equal(got, memory.sent, length);
}

/* The first half is read, so it is given back: by an entry in the table of the peer. */
static void the_ring_is_given_in_the_peers_order(void **state)
{
	struct rs_sge second;

	for (size_t i = 0; i < sizeof(memory.sent); i++)
		memory.sent[i] = (char)(i * 7);
	send_into(&first, first.length);
	receive_all(first.length);
	assert_int_equal(rsend(stream, "x", 1, 0), 1); /* and makes progress */
	while (next_word() >> RS_OP_SHIFT != RS_OP_SGL)
		;
	second = (struct rs_sge){.addr = swapped64(memory.halves[1].addr),
				 .key = swapped32(memory.halves[1].key),
				 .length = swapped32(memory.halves[1].length)};
	assert_int_equal(second.length, first.length);
	assert_int_equal(second.key, first.key);
	memory.sent[0] = 'y';
	send_into(&second, 100);
	receive_all(100);
}

static void mapped_memory_is_told_in_the_peers_order(void **state)
{
	static char mapped[256];
	struct rs_sge there;

	assert_int_equal(riomap(stream, mapped, sizeof(mapped), PROT_WRITE, 0, OFFSET), OFFSET);
	while (next_word() >> RS_OP_SHIFT != RS_OP_IOMAP)
		;
	assert_int_equal(swapped64(memory.iomaps[0].offset), OFFSET);
	there = (struct rs_sge){.addr = swapped64(memory.iomaps[0].sge.addr),
				.key = swapped32(memory.iomaps[0].sge.key)};
	assert_int_equal(swapped32(memory.iomaps[0].sge.length), sizeof(mapped));
	assert_int_equal(there.addr, (uintptr_t)mapped);
	assert_int_equal(rdma_post_write(peer, NULL, memory.sent, 10, mr, 0, there.addr, there.key),
			 0);
	assert_int_equal(rdma_get_send_comp(peer, &(struct ibv_wc){0}), 1);
	assert_memory_equal(mapped, memory.sent, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_ring_is_given_in_the_peers_order),
	    cmocka_unit_test(mapped_memory_is_told_in_the_peers_order),
	};

	if (!own_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, connect_peer, part);
}
