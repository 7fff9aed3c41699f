/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * placement -d DEVICE -g GID_INDEX -p PORT [SERVER]: ATOMIC WRITE and FLUSH between two adapters,
 * by the extended QP; the client does what the device at the other end says it takes, and is
 * refused what it may not. A device that cannot post an operation is no client for it, but that
 * Soft-RoCE is helped to FLUSH. Where packets get lost it (6.12) is no client at all, as it says
 * address 0 when it repeats either, and no target of FLUSH, as it does not answer one that was
 * repeated because its first answer was lost. Prints what was done. Over any libibverbs.
 */
#include <infiniband/verbatim.h>

#include "peer.h"
#include "soft_roce.h"

enum { CAN_FLUSH = 1, CAN_ATOMIC_WRITE = 2, AT = 1024, LENGTH = 5000 };

/* What both sides say of themselves, after the addresses. */
struct abilities {
	uint32_t takes;	       /* as target: CAN_* */
	uint32_t refused_rkey; /* of a region without the rights of FLUSH */
};

static struct abilities mine, theirs;
static struct ibv_mr *plain;
static uint32_t posts; /* CAN_* */
static bool helps_flush;
static uint64_t last_wr_id = 0x56424d0000000000;

static bool is_lossy(void)
{
	const char *link = getenv("LINK");

	return link && !strcmp(link, "lossy");
}

static void ask_device(void)
{
	struct ibv_device_attr_ex attr;

	must(!ibv_query_device_ex(context, NULL, &attr));
	if (attr.device_cap_flags_ex & VERBATIM_DEVICE_FLUSH_GLOBAL)
		mine.takes |= CAN_FLUSH;
	if (attr.device_cap_flags_ex & VERBATIM_DEVICE_ATOMIC_WRITE)
		mine.takes |= CAN_ATOMIC_WRITE;
	if (is_soft_roce() && is_lossy())
		mine.takes &= ~(uint32_t)CAN_FLUSH;
	printf("device_cap_flags_ex %#llx: FLUSH %s, ATOMIC WRITE %s\n",
	       (unsigned long long)attr.device_cap_flags_ex, mine.takes & CAN_FLUSH ? "yes" : "no",
	       mine.takes & CAN_ATOMIC_WRITE ? "yes" : "no");
}

static struct ibv_qp *create(uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
	    .qp_type = IBV_QPT_RC,
	    .send_cq = cq,
	    .recv_cq = cq,
	    .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
	    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	    .pd = pd,
	    .send_ops_flags = ops};

	return ibv_create_qp_ex(context, &attr);
}

/* With as many of the operations as the user library knows how to post. */
static void create_most(void)
{
	static const uint32_t tries[] = {CAN_FLUSH | CAN_ATOMIC_WRITE, CAN_ATOMIC_WRITE, CAN_FLUSH,
					 0};

	for (size_t i = 0; !qp && i < sizeof(tries) / sizeof(tries[0]); i++) {
		uint64_t ops = IBV_QP_EX_WITH_RDMA_WRITE;

		if (tries[i] & ~mine.takes)
			continue;
		posts = tries[i];
		ops |= posts & CAN_FLUSH ? (uint64_t)IBV_QP_EX_WITH_FLUSH : 0;
		ops |= posts & CAN_ATOMIC_WRITE ? (uint64_t)IBV_QP_EX_WITH_ATOMIC_WRITE : 0;
		qp = create(ops);
	}
	must(qp);
	if (is_soft_roce() && is_lossy())
		posts = 0;
	else if (is_soft_roce() && mine.takes & ~posts & CAN_FLUSH)
		helps_flush = true;
	if (helps_flush)
		posts |= CAN_FLUSH;
}

static void make_objects(void)
{
	unsigned int access =
	    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct ibv_qp_attr init = {
	    .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};

	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	memory = aligned_alloc(4096, SIZE);
	must(pd && cq && memory);
	memset(memory, 0, SIZE);
	plain = ibv_reg_mr(pd, memory, SIZE, (int)access);
	if (mine.takes & CAN_FLUSH) {
		access |= IBV_ACCESS_FLUSH_GLOBAL;
		init.qp_access_flags = access;
	}
	mr = ibv_reg_mr(pd, memory, SIZE, (int)access);
	must(mr && plain);
	mine.refused_rkey = plain->rkey;
	create_most();
	must(!ibv_modify_qp(qp, &init,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	me.qpn = qp->qp_num;
	me.addr = (uintptr_t)memory;
	me.rkey = mr->rkey;
}

/* Who refuses is in the error state then, and says so once: on a lossy link that may be lost. */
static enum ibv_wc_status refusal(void)
{
	struct ibv_wc wc = completion();

	if (is_lossy() && wc.status == IBV_WC_RETRY_EXC_ERR)
		return IBV_WC_REM_ACCESS_ERR;
	return wc.status;
}

static void expect(const char *what, enum ibv_wc_status status)
{
	enum ibv_wc_status was = status == IBV_WC_SUCCESS ? completion().status : refusal();

	if (was != status) {
		fprintf(stderr, "%s: %s, not %s\n", what, ibv_wc_status_str(was),
			ibv_wc_status_str(status));
		exit(1);
	}
	printf("%s: %s\n", what, ibv_wc_status_str(status));
}

static void flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint32_t length,
		  uint8_t level)
{
	ex->wr_id = ++last_wr_id;
	if (helps_flush)
		soft_roce_flush(ex, rkey, addr, length, IBV_FLUSH_GLOBAL, level);
	else
		ibv_wr_flush(ex, rkey, addr, length, IBV_FLUSH_GLOBAL, level);
}

static struct ibv_qp_ex *start(void)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(ex);
	ex->wr_id = ++last_wr_id;
	ex->wr_flags = IBV_SEND_SIGNALED;
	return ex;
}

/* ---- operations ---- */

static void write_atomically(uint64_t offset, enum ibv_wc_status status)
{
	struct ibv_qp_ex *ex = start();

	ibv_wr_atomic_write(ex, peer.rkey, peer.addr + offset, "8 bytes");
	must(!ibv_wr_complete(ex));
	expect("ATOMIC WRITE", status);
}

static void write_and_flush(void)
{
	struct ibv_qp_ex *ex = start();

	memset(memory, 0x5a, LENGTH);
	ex->wr_flags = 0;
	ibv_wr_rdma_write(ex, peer.rkey, peer.addr + AT);
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)memory, LENGTH);
	ex->wr_flags = IBV_SEND_SIGNALED;
	flush(ex, peer.rkey, peer.addr + AT, LENGTH, IBV_FLUSH_RANGE);
	must(!ibv_wr_complete(ex));
	expect("WRITE, FLUSH of the range", IBV_WC_SUCCESS);
	ex = start();
	flush(ex, peer.rkey, peer.addr, 0, IBV_FLUSH_MR);
	must(!ibv_wr_complete(ex));
	expect("FLUSH of the region", IBV_WC_SUCCESS);
}

static void flush_what_may_not_be(void)
{
	struct ibv_qp_ex *ex = start();

	flush(ex, theirs.refused_rkey, peer.addr, 100, IBV_FLUSH_RANGE);
	must(!ibv_wr_complete(ex));
	expect("FLUSH of a region without the right", IBV_WC_REM_ACCESS_ERR);
}

static void use(uint32_t what)
{
	if (what & CAN_ATOMIC_WRITE)
		write_atomically(0, IBV_WC_SUCCESS);
	if (what & CAN_FLUSH)
		write_and_flush();
	wait_for_other();
	if (what & CAN_FLUSH)
		flush_what_may_not_be();
	else if (what & CAN_ATOMIC_WRITE)
		write_atomically(SIZE, IBV_WC_REM_ACCESS_ERR);
	wait_for_other();
}

static void serve(uint32_t what)
{
	wait_for_other();
	if (what & CAN_ATOMIC_WRITE)
		must(!memcmp(memory, "8 bytes", 8));
	for (int i = 0; what & CAN_FLUSH && i < LENGTH; i++)
		must(memory[AT + i] == 0x5a);
	wait_for_other();
}

int main(int argc, char **argv)
{
	const char *port, *server;
	int gid_index;
	uint32_t what, their_posts;

	server = begin(argc, argv, &port, &gid_index);
	ask_device();
	make_objects();
	meet(server, port);
	tell(&mine, sizeof(mine));
	hear(&theirs, sizeof(theirs));
	tell(&posts, sizeof(posts));
	hear(&their_posts, sizeof(their_posts));
	connect_qp(gid_index);
	wait_for_other();
	what = server ? posts & theirs.takes : their_posts & mine.takes;
	printf("%s:%s%s%s\n", server ? "client" : "server", what & CAN_FLUSH ? " FLUSH" : "",
	       what & CAN_ATOMIC_WRITE ? " ATOMIC WRITE" : "", what ? "" : " nothing to do");
	if (server)
		use(what);
	else
		serve(what);
	must(!ibv_destroy_qp(qp));
	must(!ibv_dereg_mr(mr));
	must(!ibv_dereg_mr(plain));
	must(!ibv_destroy_cq(cq));
	must(!ibv_dealloc_pd(pd));
	printf("placement: all as it should be\n");
	return ibv_close_device(context);
}
