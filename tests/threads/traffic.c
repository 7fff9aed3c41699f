// SPDX-License-Identifier: BSD-2-Clause
/*
 * A traffic that checks itself. Each end posts SEND, WRITE, READ and FETCH_ADD in turn, up to its
 * depth, and takes what the other sends: every byte sent or read has to be right, every work
 * request complete once, and at the end as many messages and additions have to be here as the other
 * end says that it made.
 */
#include <string.h>
#include <sys/socket.h>

#include "rig.h"

/* Registered as a whole. What the other end writes is not looked at. */
struct area {
	char send[TRAFFIC_DEPTH][TRAFFIC_SLOT];
	char receive[2 * TRAFFIC_DEPTH][TRAFFIC_SLOT];
	char read[TRAFFIC_DEPTH][TRAFFIC_SLOT]; /* what came */
	uint64_t old[TRAFFIC_DEPTH];		/* of additions */
	char written[TRAFFIC_SLOT];		/* by the other end */
	char source[TRAFFIC_SLOT];		/* read by the other end, never changed */
	uint64_t counter;			/* added to by the other end */
};

struct address {
	uint64_t addr;
	uint32_t rkey, qpn;
};

struct totals {
	uint64_t sent, added;
};

enum kind { SEND, WRITE, READ, ADD, KINDS };

/* Work requests' numbers: receives have their slot, the others their number above this. */
enum { NOT_A_RECEIVE = 1 << 16 };

static char pattern(uint64_t number, size_t at)
{
	return (char)(number * 31 + at * 7);
}

static void fill(char *bytes, size_t length, uint64_t number)
{
	for (size_t i = 0; i < length; i++)
		bytes[i] = pattern(number, i);
}

static void check_filled(const char *bytes, size_t length, uint64_t number)
{
	for (size_t i = 0; i < length; i++)
		CHECK(bytes[i] == pattern(number, i));
}

static uint32_t length_of(uint64_t number)
{
	return (uint32_t)(1 + number * 397 % TRAFFIC_SLOT);
}

static void post_receive(struct traffic *t, uint32_t slot)
{
	struct ibv_sge sge = {(uintptr_t)t->own->receive[slot], TRAFFIC_SLOT, t->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!ibv_post_recv(t->qp, &wr, &bad));
}

static void post(struct traffic *t)
{
	uint32_t number = t->next++, slot = number % TRAFFIC_DEPTH;
	struct ibv_sge sge = {.length = length_of(number), .lkey = t->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = NOT_A_RECEIVE + (uint64_t)number,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	switch ((enum kind)(number % KINDS)) {
	case SEND:
		wr.opcode = IBV_WR_SEND;
		sge.length = length_of(t->sent);
		fill(t->own->send[slot], sge.length, t->sent++);
		sge.addr = (uintptr_t)t->own->send[slot];
		break;
	case WRITE:
		wr.opcode = IBV_WR_RDMA_WRITE;
		sge.addr = (uintptr_t)t->own->send[slot];
		wr.wr.rdma.remote_addr = t->peer_addr + offsetof(struct area, written);
		wr.wr.rdma.rkey = t->peer_rkey;
		break;
	case READ:
		wr.opcode = IBV_WR_RDMA_READ;
		memset(t->own->read[slot], 0, TRAFFIC_SLOT);
		sge.addr = (uintptr_t)t->own->read[slot];
		wr.wr.rdma.remote_addr = t->peer_addr + offsetof(struct area, source);
		wr.wr.rdma.rkey = t->peer_rkey;
		break;
	default:
		wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		sge.addr = (uintptr_t)&t->own->old[slot];
		sge.length = sizeof(uint64_t);
		wr.wr.atomic.remote_addr = t->peer_addr + offsetof(struct area, counter);
		wr.wr.atomic.rkey = t->peer_rkey;
		wr.wr.atomic.compare_add = 1;
		break;
	}
	CHECK(!ibv_post_send(t->qp, &wr, &bad));
	t->outstanding++;
}

static void complete(struct traffic *t, const struct ibv_wc *wc)
{
	uint32_t number = (uint32_t)(wc->wr_id - NOT_A_RECEIVE);

	if (wc->status != IBV_WC_SUCCESS)
		fprintf(stderr, "QP %#x: %s, reason %u\n", wc->qp_num,
			ibv_wc_status_str(wc->status), wc->vendor_err);
	CHECK(wc->status == IBV_WC_SUCCESS);
	CHECK(wc->qp_num == t->qp->qp_num);
	if (wc->wr_id < NOT_A_RECEIVE) {
		CHECK(wc->wr_id == t->received % (2 * (uint64_t)TRAFFIC_DEPTH));
		CHECK(wc->byte_len == length_of(t->received));
		check_filled(t->own->receive[wc->wr_id], wc->byte_len, t->received++);
		post_receive(t, (uint32_t)wc->wr_id);
		return;
	}
	/* in the order of posting */
	CHECK(number == t->next - t->outstanding);
	t->outstanding--;
	if (number % KINDS == READ)
		check_filled(t->own->read[number % TRAFFIC_DEPTH], length_of(number), 0);
	if (number % KINDS == ADD)
		CHECK(t->own->old[number % TRAFFIC_DEPTH] == t->added++);
}

static void poll_once(struct traffic *t)
{
	struct ibv_wc wc[4];
	int count = ibv_poll_cq(t->cq, 4, wc);

	CHECK(count >= 0);
	for (int i = 0; i < count; i++)
		complete(t, &wc[i]);
}

void traffic_open(struct traffic *t, struct rig *rig, int line, atomic_bool *stop)
{
	memset(t, 0, sizeof(*t));
	t->rig = rig;
	t->line = line;
	t->stop = stop;
	t->own = calloc(1, sizeof(*t->own));
	CHECK(t->own);
	fill(t->own->source, sizeof(t->own->source), 0);
	t->mr = ibv_reg_mr(rig->pd, t->own, sizeof(*t->own),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	CHECK(t->mr);
	t->cq = ibv_create_cq(rig->context, 4 * TRAFFIC_DEPTH, NULL, NULL, 0);
	CHECK(t->cq);
	t->qp = rig_qp(rig, t->cq, t->cq, 2 * TRAFFIC_DEPTH);
	rig_init(t->qp);
	for (uint32_t i = 0; i < 2 * TRAFFIC_DEPTH; i++)
		post_receive(t, i);
}

static void meet(struct traffic *t)
{
	struct address own = {(uintptr_t)t->own, t->mr->rkey, t->qp->qp_num}, peer;

	CHECK(send(t->line, &own, sizeof(own), 0) == sizeof(own));
	CHECK(recv(t->line, &peer, sizeof(peer), MSG_WAITALL) == sizeof(peer));
	t->peer_addr = peer.addr;
	t->peer_rkey = peer.rkey;
	rig_connect(t->rig, t->qp, peer.qpn);
	/* neither sends before the other is there */
	CHECK(send(t->line, &own, 1, 0) == 1);
	CHECK(recv(t->line, &peer, 1, MSG_WAITALL) == 1);
}

/* Serves the other end until that is through, then compares. */
static void part(struct traffic *t)
{
	struct totals own = {t->sent, t->added}, peer;

	CHECK(send(t->line, &own, sizeof(own), 0) == sizeof(own));
	while (recv(t->line, &peer, sizeof(peer), MSG_DONTWAIT | MSG_PEEK) != sizeof(peer))
		poll_once(t);
	CHECK(recv(t->line, &peer, sizeof(peer), 0) == sizeof(peer));
	while (t->received < peer.sent)
		poll_once(t);
	poll_once(t);
	CHECK(t->received == peer.sent);
	CHECK(__atomic_load_n(&t->own->counter, __ATOMIC_SEQ_CST) == peer.added);
}

void *traffic_run(void *data)
{
	struct traffic *t = data;

	meet(t);
	do {
		while (t->outstanding < TRAFFIC_DEPTH)
			post(t);
		poll_once(t);
	} while (!atomic_load(t->stop));
	while (t->outstanding)
		poll_once(t);
	part(t);
	return NULL;
}

void traffic_close(struct traffic *t)
{
	CHECK(!ibv_destroy_qp(t->qp));
	CHECK(!ibv_destroy_cq(t->cq));
	CHECK(!ibv_dereg_mr(t->mr));
	free(t->own);
}
