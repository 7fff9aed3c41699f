/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * windows -d DEVICE -g GID_INDEX -p PORT [SERVER]: memory windows of type 2 between two adapters.
 * The server binds one, the client writes through it and invalidates it by a SEND; the server binds
 * it again, the client reads, the server invalidates, and the client's next WRITE is refused. Runs
 * over any libibverbs.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

/* Soft-RoCE hands the kernel's own flag to programs: bit 2, where theirs is bit 3. */
enum { KERNEL_WITH_INV = 1 << 2 };

enum { SIZE = 8192, AT = 1000, LENGTH = 3000, PATIENCE_S = 20 };

struct told {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t qpn, rkey;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static struct ibv_mw *mw;
static char *memory;
static struct told me, peer;
static int tcp = -1;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition);            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* ---- the other side ---- */

static void tell(const void *what, size_t size)
{
	if (write(tcp, what, size) != (ssize_t)size)
		die("write");
}

static void hear(void *what, size_t size)
{
	if (recv(tcp, what, size, MSG_WAITALL) != (ssize_t)size)
		die("recv");
}

static void meet(const char *server, const char *port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = server ? 0 : AI_PASSIVE};
	struct addrinfo *address;
	int fd, yes = 1;

	must(!getaddrinfo(server, port, &hints, &address));
	fd = socket(address->ai_family, SOCK_STREAM, 0);
	if (server) {
		if (connect(fd, address->ai_addr, address->ai_addrlen))
			die("connect");
		tcp = fd;
	} else {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
		if (bind(fd, address->ai_addr, address->ai_addrlen) || listen(fd, 1))
			die("listen");
		tcp = accept(fd, NULL, NULL);
		close(fd);
	}
	freeaddrinfo(address);
	tell(&me, sizeof(me));
	hear(&peer, sizeof(peer));
}

/* ---- verbs ---- */

static void open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (struct ibv_device **device = list; list && *device; device++)
		if (!strcmp(ibv_get_device_name(*device), name))
			context = ibv_open_device(*device);
	if (!context)
		die(name);
}

static void make_objects(void)
{
	struct ibv_qp_init_attr attr = {
	    .qp_type = IBV_QPT_RC,
	    .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags =
				       IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};

	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	memory = aligned_alloc(4096, SIZE);
	must(pd && cq && memory);
	mr = ibv_reg_mr(pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	must(mr && mw);
	attr.send_cq = attr.recv_cq = cq;
	qp = ibv_create_qp(pd, &attr);
	must(qp);
	must(!ibv_modify_qp(qp, &init,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	me.qpn = qp->qp_num;
	me.addr = (uintptr_t)memory + AT;
	me.rkey = mw->rkey;
}

static void connect_qp(int gid_index)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = IBV_MTU_1024,
	    .dest_qp_num = peer.qpn,
	    .max_dest_rd_atomic = 1,
	    .min_rnr_timer = 12,
	    .ah_attr = {.is_global = 1,
			.port_num = 1,
			.grh = {.dgid = peer.gid, .sgid_index = gid_index, .hop_limit = 64}}};

	must(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 1};
	must(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

static struct ibv_wc completion(void)
{
	time_t end = time(NULL) + PATIENCE_S;
	struct ibv_wc wc;
	int count;

	do {
		count = ibv_poll_cq(cq, 1, &wc);
	} while (!count && time(NULL) < end);
	must(count == 1);
	return wc;
}

static void post(struct ibv_send_wr *wr, enum ibv_wc_status status)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	wr->wr_id = 77;
	wr->send_flags = IBV_SEND_SIGNALED;
	must(!ibv_post_send(qp, wr, &bad));
	wc = completion();
	if (wc.status != status || wc.wr_id != 77) {
		fprintf(stderr, "opcode %d: %s, not %s\n", wr->opcode, ibv_wc_status_str(wc.status),
			ibv_wc_status_str(status));
		exit(1);
	}
}

static void access_window(enum ibv_wr_opcode opcode, uint32_t rkey, enum ibv_wc_status status)
{
	struct ibv_sge sge = {(uintptr_t)memory, LENGTH, mr->lkey};
	struct ibv_send_wr wr = {.opcode = opcode, .sg_list = &sge, .num_sge = 1};

	wr.wr.rdma.remote_addr = peer.addr;
	wr.wr.rdma.rkey = rkey;
	post(&wr, status);
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
	post(&wr, IBV_WC_SUCCESS);
	mw->rkey = rkey; /* where Soft-RoCE looks for it at the next binding */
	tell(&rkey, sizeof(rkey));
	return rkey;
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
	rkey = bind_window(rkey);
	hear(&done, 1);
	wr.invalidate_rkey = rkey;
	post(&wr, IBV_WC_SUCCESS);
	tell(&done, 1);
	hear(&done, 1);
	check(memory + AT, 2);
}

static void use(void)
{
	struct ibv_sge sge = {(uintptr_t)memory, 50, mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_INV, .sg_list = &sge, .num_sge = 1};
	uint32_t rkey;
	char done = 0;

	hear(&rkey, sizeof(rkey));
	fill(memory, 1);
	access_window(IBV_WR_RDMA_WRITE, rkey, IBV_WC_SUCCESS);
	wr.invalidate_rkey = rkey;
	post(&wr, IBV_WC_SUCCESS);
	hear(&rkey, sizeof(rkey));
	access_window(IBV_WR_RDMA_READ, rkey, IBV_WC_SUCCESS);
	check(memory, 2);
	tell(&done, 1);
	hear(&done, 1);
	fill(memory, 3);
	access_window(IBV_WR_RDMA_WRITE, rkey, IBV_WC_REM_ACCESS_ERR);
	tell(&done, 1);
}

int main(int argc, char **argv)
{
	const char *device = "", *port = "18515";
	int option, gid_index = 0;

	while ((option = getopt(argc, argv, "d:g:p:")) != -1) {
		if (option == 'd')
			device = optarg;
		else if (option == 'g')
			gid_index = atoi(optarg);
		else if (option == 'p')
			port = optarg;
		else
			return 2;
	}
	open_device(device);
	if (ibv_query_gid(context, 1, gid_index, &me.gid))
		die("GID");
	make_objects();
	meet(argv[optind], port);
	connect_qp(gid_index);
	tell("", 1); /* ready to receive */
	hear(&(char){0}, 1);
	if (argv[optind])
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
