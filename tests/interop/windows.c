/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * windows -d DEVICE -g GID_INDEX -p PORT [SERVER]: memory windows of type 2 between two adapters.
 * The server binds one, the client writes through it and invalidates it by a SEND; the server binds
 * it again, the client reads, the server invalidates, and the client's next WRITE is refused, in
 * the environment LINK=lossy at one of three tries. Runs over any libibverbs.
 */
#include "peer.h"

/* Soft-RoCE hands the kernel's own flag to programs: bit 2, where theirs is bit 3. */
enum { KERNEL_WITH_INV = 1 << 2 };

enum { AT = 1000, LENGTH = 3000, TRIES_LOSSY = 3 };

static struct ibv_mw *mw;
static int gid_index;

static void make_qp(void)
{
	struct ibv_qp_init_attr attr = {
	    .send_cq = cq,
	    .recv_cq = cq,
	    .qp_type = IBV_QPT_RC,
	    .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags =
				       IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};

	qp = ibv_create_qp(pd, &attr);
	must(qp);
	must(!ibv_modify_qp(qp, &init,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	me.qpn = qp->qp_num;
}

static void make_objects(void)
{
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	memory = aligned_alloc(4096, SIZE);
	must(pd && cq && memory);
	mr = ibv_reg_mr(pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	must(mr && mw);
	make_qp();
	me.addr = (uintptr_t)memory + AT;
	me.rkey = mw->rkey;
}

static enum ibv_wc_status status_of(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	wr->wr_id = 77;
	wr->send_flags = IBV_SEND_SIGNALED;
	must(!ibv_post_send(qp, wr, &bad));
	wc = completion();
	must(wc.wr_id == 77);
	return wc.status;
}

static void expect(enum ibv_wr_opcode opcode, enum ibv_wc_status status, enum ibv_wc_status wanted)
{
	if (status == wanted)
		return;
	fprintf(stderr, "opcode %d: %s, not %s\n", opcode, ibv_wc_status_str(status),
		ibv_wc_status_str(wanted));
	exit(1);
}

static void post(struct ibv_send_wr *wr)
{
	expect(wr->opcode, status_of(wr), IBV_WC_SUCCESS);
}

static enum ibv_wc_status access_window(enum ibv_wr_opcode opcode, uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)memory, LENGTH, mr->lkey};
	struct ibv_send_wr wr = {.opcode = opcode, .sg_list = &sge, .num_sge = 1};

	wr.wr.rdma.remote_addr = peer.addr;
	wr.wr.rdma.rkey = rkey;
	return status_of(&wr);
}

static void fill(char *place, char seed)
{
	for (int i = 0; i < LENGTH; i++)
		place[i] = (char)(seed + i * 7);
}

static void check(const char *place, char seed)
{
	for (int i = 0; i < LENGTH; i++)
		must(place[i] == (char)(seed + i * 7));
}

/* ---- the two sides ---- */

static uint32_t bind_window(uint32_t rkey)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW};

	rkey = ibv_inc_rkey(rkey);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
	    mr, me.addr, LENGTH, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
	post(&wr);
	mw->rkey = rkey; /* where Soft-RoCE looks for it at the next binding */
	tell(&rkey, sizeof(rkey));
	return rkey;
}

/*
 * A responder that refused is in the error state, and says nothing more: on a link that loses the
 * NAK its peer runs out of retries. So that it is seen, both begin anew.
 */
static void renew(void)
{
	printf("the refusal was lost: once more\n");
	must(!ibv_destroy_qp(qp));
	make_qp();
	tell(&me, sizeof(me));
	hear(&peer, sizeof(peer));
	connect_qp(gid_index);
	wait_for_other();
}

static void serve(void)
{
	struct ibv_sge sge = {(uintptr_t)memory + 5000, 100, mr->lkey};
	struct ibv_recv_wr recv_wr = {.wr_id = 5, .sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV};
	struct ibv_wc wc;
	uint32_t rkey;
	char done;

	must(!ibv_post_recv(qp, &recv_wr, &bad));
	rkey = bind_window(mw->rkey);
	wc = completion();
	must(wc.status == IBV_WC_SUCCESS && wc.wr_id == 5);
	must(wc.wc_flags & (IBV_WC_WITH_INV | KERNEL_WITH_INV) && wc.invalidated_rkey == rkey);
	check(memory + AT, 1);
	fill(memory + AT, 2);
	for (;;) {
		rkey = bind_window(rkey);
		hear(&done, 1);
		wr.invalidate_rkey = rkey;
		post(&wr);
		tell(&done, 1);
		hear(&done, 1);
		check(memory + AT, 2);
		if (done)
			return;
		renew();
	}
}

static int most_tries(void)
{
	const char *link = getenv("LINK");

	return link && !strcmp(link, "lossy") ? TRIES_LOSSY : 1;
}

static void use(void)
{
	struct ibv_sge sge = {(uintptr_t)memory, 50, mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_INV, .sg_list = &sge, .num_sge = 1};
	enum ibv_wc_status status;
	uint32_t rkey;
	char done = 0;

	hear(&rkey, sizeof(rkey));
	fill(memory, 1);
	expect(IBV_WR_RDMA_WRITE, access_window(IBV_WR_RDMA_WRITE, rkey), IBV_WC_SUCCESS);
	wr.invalidate_rkey = rkey;
	post(&wr);
	for (int left = most_tries() - 1;; left--) {
		hear(&rkey, sizeof(rkey));
		expect(IBV_WR_RDMA_READ, access_window(IBV_WR_RDMA_READ, rkey), IBV_WC_SUCCESS);
		check(memory, 2);
		tell(&done, 1);
		hear(&done, 1);
		fill(memory, 3);
		status = access_window(IBV_WR_RDMA_WRITE, rkey);
		done = status != IBV_WC_RETRY_EXC_ERR || !left;
		if (done)
			expect(IBV_WR_RDMA_WRITE, status, IBV_WC_REM_ACCESS_ERR);
		tell(&done, 1);
		if (done)
			return;
		renew();
	}
}

int main(int argc, char **argv)
{
	const char *port, *server;

	server = begin(argc, argv, &port, &gid_index);
	make_objects();
	meet(server, port);
	connect_qp(gid_index);
	wait_for_other(); /* ready to receive */
	if (server)
		use();
	else
		serve();
	must(!ibv_dealloc_mw(mw));
	must(!ibv_destroy_qp(qp));
	must(!ibv_dereg_mr(mr));
	must(!ibv_destroy_cq(cq));
	must(!ibv_dealloc_pd(pd));
	printf("windows: all as it should be\n");
	return ibv_close_device(context);
}
