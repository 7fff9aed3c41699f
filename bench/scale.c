/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scale WHAT N ...: what grows with the number of things. Prints one JSON object.
 *
 * - qps N SEND RECV: N queue pairs in each of two processes, of SEND and RECV work requests: what
 *   making them takes, time and memory; with RECV 0 they have an SRQ, and messages of 8 B go over
 *   all of them in turn
 * - regions N: memory regions: registering, writing through all of them, ending them
 * - processes N: each connected to each other one
 * - threads N: each with a pair of queue pairs and a CQ of its own
 * - copies N: the same by N processes of one thread, to compare with
 *
 * Processes are forked before the first verb and meet in memory that they share.
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "rc.h"

enum {
	MESSAGE = 8,
	IN_FLIGHT = 64, /* over all queue pairs */
	MESSAGES = 100000,
	OVER_ALL = 400000, /* over all queue pairs, behind MESSAGES that are not counted */
	ROUNDS = 200,	   /* of each process to all others */
	REGION = 4096,
	PROCESSES_MAX = 128,
	QPS_MAX = 16384,
};

/* What the processes of one run see of each other. */
struct shared {
	pthread_barrier_t barrier;
	uint32_t qpns[PROCESSES_MAX][PROCESSES_MAX];
	uint32_t many[2][QPS_MAX];
	double figures[PROCESSES_MAX][4];
};

/* What one process or thread has. */
struct user {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq, *recv_cq;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	char *buffer;
	union ibv_gid gid;
};

static struct shared *shared;

/* Of the resident set what is not a file's, in bytes. */
static double memory(void)
{
	char line[128];
	long all = 0, some;
	FILE *file = fopen("/proc/self/status", "r");

	need(file != NULL, "/proc/self/status");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "RssAnon: %ld", &some) == 1 ||
		    sscanf(line, "RssShmem: %ld", &some) == 1)
			all += some;
	fclose(file);
	return (double)all * 1024;
}

static int descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = -3; /* ., .. and the folder's own */

	need(folder != NULL, "/proc/self/fd");
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

/* ---- what all do ---- */

static void make_region(struct user *user)
{
	user->buffer = aligned_alloc(4096, REGION);
	need(user->buffer != NULL, "memory");
	memset(user->buffer, 1, REGION);
	user->mr = ibv_reg_mr(user->pd, user->buffer, REGION,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	need(user->mr != NULL, "region");
}

static void make_cqs(struct user *user, int entries)
{
	user->cq = ibv_create_cq(user->context, entries, NULL, NULL, 0);
	user->recv_cq = ibv_create_cq(user->context, entries, NULL, NULL, 0);
	need(user->cq && user->recv_cq, "CQ");
}

static void open_user(struct user *user, int entries)
{
	user->context = open_last_device();
	user->pd = ibv_alloc_pd(user->context);
	need(user->pd && !ibv_query_gid(user->context, 1, 0, &user->gid), "set up");
	make_cqs(user, entries);
	make_region(user);
}

static void make_srq(struct user *user, uint32_t receives)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = receives, .max_sge = 1}};

	user->srq = ibv_create_srq(user->pd, &init);
	need(user->srq != NULL, "SRQ");
}

static struct ibv_qp *make_qp(struct user *user, uint32_t sends, uint32_t receives)
{
	struct ibv_qp_init_attr init = {
	    .send_cq = user->cq,
	    .recv_cq = user->recv_cq,
	    .srq = user->srq,
	    .cap = {.max_send_wr = sends,
		    .max_recv_wr = receives,
		    .max_send_sge = 1,
		    .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(user->pd, &init);

	need(qp != NULL, "QP");
	return qp;
}

static void connect(struct user *user, struct ibv_qp *qp, uint32_t peer)
{
	struct rc rc = {
	    .peer = peer,
	    .gid = user->gid,
	    .mtu = IBV_MTU_1024,
	    .depth = 1,
	    .timeout = 18, /* a second: 64 processes wait for cores */
	};

	rc_connect(qp, &rc);
}

static struct ibv_sge sge_of(const struct user *user)
{
	return (struct ibv_sge){(uintptr_t)user->buffer, MESSAGE, user->mr->lkey};
}

static void post_send(const struct user *user, struct ibv_qp *qp)
{
	struct ibv_sge sge = sge_of(user);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	need(!ibv_post_send(qp, &wr, &bad), "send");
}

static void post_recv(const struct user *user, struct ibv_qp *qp)
{
	struct ibv_sge sge = sge_of(user);
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	need(!(user->srq ? ibv_post_srq_recv(user->srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad)),
	     "receive");
}

static void meet(void)
{
	pthread_barrier_wait(&shared->barrier);
}

/* Forks `count` processes that meet; each calls `run` with its number. */
static void in_processes(int count, void (*run)(int number, int count, char **argv), char **argv)
{
	pthread_barrierattr_t attr;
	int failed = 0, status;
	pid_t pids[PROCESSES_MAX];

	need(count > 0 && count <= PROCESSES_MAX, "number of processes");
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->barrier, &attr, (unsigned int)count);
	for (int i = 0; i < count; i++) {
		pids[i] = fork();
		need(pids[i] >= 0, "fork");
		if (pids[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			run(i, count, argv);
			exit(0); /* a library for training writes what it counted */
		}
	}
	for (int i = 0; i < count; i++) {
		need(wait(&status) > 0, "wait");
		if (status && !failed++) /* the others would wait for it for ever */
			for (int k = 0; k < count; k++)
				kill(pids[k], SIGKILL);
	}
	need(!failed, "a process failed");
}

static double sum(int count, int figure)
{
	double all = 0;

	for (int i = 0; i < count; i++)
		all += shared->figures[i][figure];
	return all;
}

static double most(int count, int figure)
{
	double found = 0;

	for (int i = 0; i < count; i++)
		if (shared->figures[i][figure] > found)
			found = shared->figures[i][figure];
	return found;
}

/* ---- queue pairs ---- */

static void send_on_all(const struct user *user, struct ibv_qp **qps, int count, long messages)
{
	long posted = 0, sent = 0;

	while (sent < messages) {
		for (; posted < messages && posted - sent < IN_FLIGHT; posted++)
			post_send(user, qps[posted % count]);
		sent += rc_take(user->cq);
	}
}

static void receive_on_all(const struct user *user, long messages)
{
	long received = 0;

	while (received < messages) {
		int count = rc_take(user->recv_cq);

		received += count;
		while (count--)
			post_recv(user, NULL);
	}
}

/* What a message takes in a stream that has begun already. */
static double time_messages(int number, const struct user *user, struct ibv_qp **qps, int count)
{
	static const long messages[] = {MESSAGES, OVER_ALL};
	double begin = 0;

	for (int i = 0; i < 2; i++) {
		begin = now();
		if (number == 0)
			send_on_all(user, qps, count, messages[i]);
		else
			receive_on_all(user, messages[i]);
	}
	return (now() - begin) / OVER_ALL;
}

/* The second process receives, from an SRQ unless only the memory of queues is asked for. */
static void run_qps(int number, int unused, char **argv)
{
	int count = atoi(argv[2]);
	uint32_t sends = (uint32_t)atoi(argv[3]), receives = (uint32_t)atoi(argv[4]);
	struct ibv_qp **qps = calloc((size_t)count, sizeof(*qps));
	double *figures = shared->figures[number], before, begin;
	struct user user = {0};

	(void)unused;
	need(count > 0 && count <= QPS_MAX && qps != NULL, "number of queue pairs");
	open_user(&user, 4 * IN_FLIGHT);
	if (receives == 0) {
		make_srq(&user, 4 * IN_FLIGHT);
		for (int i = 0; i < 4 * IN_FLIGHT; i++)
			post_recv(&user, NULL);
	}
	meet();
	before = memory();
	begin = now();
	for (int i = 0; i < count; i++) {
		qps[i] = make_qp(&user, sends, receives);
		shared->many[number][i] = qps[i]->qp_num;
	}
	meet();
	for (int i = 0; i < count; i++)
		connect(&user, qps[i], shared->many[!number][i]);
	figures[0] = (now() - begin) / count;
	figures[1] = (memory() - before) / count;
	meet();
	if (receives == 0)
		figures[2] = time_messages(number, &user, qps, count);
	meet();
	begin = now();
	for (int i = 0; i < count; i++)
		need(!ibv_destroy_qp(qps[i]), "destroy");
	figures[3] = (now() - begin) / count;
	meet();
}

static void say_qps(void)
{
	const double *figures = shared->figures[0];

	printf("{\"make_ns\": %.0f, \"bytes\": %.0f, \"message_ns\": %.1f, \"end_ns\": %.0f}\n",
	       figures[0], figures[1], figures[2], figures[3]);
}

/* ---- regions ---- */

static void write_through(const struct user *user, struct ibv_qp *qp, struct ibv_mr **mrs,
			  int count)
{
	unsigned int at = 1;

	for (long i = 0; i < MESSAGES; i++) {
		struct ibv_mr *from, *to;
		struct ibv_send_wr *bad, wr = {.num_sge = 1,
					       .opcode = IBV_WR_RDMA_WRITE,
					       .send_flags = IBV_SEND_SIGNALED};
		struct ibv_sge sge;

		at = at * 1103515245 + 12345;
		from = mrs[(at >> 8) % (unsigned int)count];
		to = mrs[(at >> 4) % (unsigned int)count];
		sge = (struct ibv_sge){(uintptr_t)from->addr, MESSAGE, from->lkey};
		wr.sg_list = &sge;
		wr.wr.rdma.remote_addr = (uintptr_t)to->addr + 64;
		wr.wr.rdma.rkey = to->rkey;
		need(!ibv_post_send(qp, &wr, &bad), "write");
		while (!rc_take(user->cq))
			;
	}
}

static void run_regions(int number, int unused, char **argv)
{
	int count = atoi(argv[2]);
	struct ibv_mr **mrs = calloc((size_t)count, sizeof(*mrs));
	double *figures = shared->figures[number], before, begin;
	struct ibv_qp *a, *b;
	struct user user = {0};

	(void)unused;
	need(count > 0 && mrs != NULL, "number of regions");
	memset(mrs, 0, (size_t)count * sizeof(*mrs));
	open_user(&user, 16);
	a = make_qp(&user, 4, 4);
	b = make_qp(&user, 4, 4);
	connect(&user, a, b->qp_num);
	connect(&user, b, a->qp_num);
	before = memory();
	begin = now();
	for (int i = 0; i < count; i++) {
		mrs[i] = ibv_reg_mr(user.pd, user.buffer, REGION,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		need(mrs[i] != NULL, "register");
	}
	figures[0] = (now() - begin) / count;
	figures[1] = (memory() - before) / count;
	begin = now();
	write_through(&user, a, mrs, count);
	figures[2] = (now() - begin) / MESSAGES;
	begin = now();
	for (int i = 0; i < count; i++)
		need(!ibv_dereg_mr(mrs[i]), "deregister");
	figures[3] = (now() - begin) / count;
}

/* ---- processes ---- */

/* A message to each other process, and when as many have come in, the next round. */
static void exchange_rounds(const struct user *user, struct ibv_qp **qps, int number, int count)
{
	long sent = 0, received = 0;
	int others = count - 1;

	for (long due = others; due <= (long)ROUNDS * others; due += others) {
		for (int i = 1; i < count; i++)
			post_send(user, qps[(number + i) % count]);
		while (sent < due || received < due) {
			int arrived = rc_take(user->recv_cq);

			sent += rc_take(user->cq);
			received += arrived;
			while (arrived--)
				post_recv(user, NULL);
		}
	}
}

static void run_processes(int number, int count, char **unused)
{
	struct ibv_qp *qps[PROCESSES_MAX];
	double *figures = shared->figures[number], begin = now();
	struct user user = {0};

	(void)unused;
	open_user(&user, 16 * PROCESSES_MAX);
	make_srq(&user, 8 * PROCESSES_MAX);
	for (int i = 0; i < 8 * PROCESSES_MAX; i++)
		post_recv(&user, NULL);
	for (int i = 0; i < count; i++) {
		qps[i] = make_qp(&user, 4, 0);
		shared->qpns[number][i] = qps[i]->qp_num;
	}
	meet();
	for (int i = 0; i < count; i++)
		if (i != number)
			connect(&user, qps[i], shared->qpns[i][number]);
	meet();
	figures[0] = now() - begin;
	begin = now();
	exchange_rounds(&user, qps, number, count);
	figures[1] = now() - begin;
	figures[2] = memory();
	figures[3] = descriptors();
	meet();
}

/* ---- threads ---- */

static double exchange(struct user *user)
{
	struct ibv_qp *a = make_qp(user, IN_FLIGHT, IN_FLIGHT), *b;
	long posted = 0, sent = 0, received = 0;
	double begin;

	b = make_qp(user, IN_FLIGHT, IN_FLIGHT);
	connect(user, a, b->qp_num);
	connect(user, b, a->qp_num);
	for (int i = 0; i < IN_FLIGHT; i++)
		post_recv(user, b);
	meet();
	begin = now();
	while (received < 2 * MESSAGES) {
		int arrived;

		for (; posted < 2 * MESSAGES && posted - received < IN_FLIGHT / 4 &&
		       posted - sent < IN_FLIGHT;
		     posted++)
			post_send(user, a);
		sent += rc_take(user->cq);
		arrived = rc_take(user->recv_cq);
		received += arrived;
		while (arrived--)
			post_recv(user, b);
	}
	return (now() - begin) / received;
}

static void run_copy(int number, int count, char **unused)
{
	struct user user = {0};

	(void)count;
	(void)unused;
	open_user(&user, 4 * IN_FLIGHT);
	shared->figures[number][0] = exchange(&user);
	meet();
}

/* A thread's CQs and region are its own, context and PD are everybody's. */
static struct user common;

static void *thread_main(void *data)
{
	double *figure = data;
	struct user user = common;

	make_cqs(&user, 4 * IN_FLIGHT);
	make_region(&user);
	*figure = exchange(&user);
	meet();
	return NULL;
}

static void run_threads(int count)
{
	pthread_t threads[PROCESSES_MAX];

	need(count > 0 && count <= PROCESSES_MAX, "number of threads");
	pthread_barrier_init(&shared->barrier, NULL, (unsigned int)count);
	open_user(&common, 16);
	for (int i = 0; i < count; i++)
		need(!pthread_create(&threads[i], NULL, thread_main, shared->figures[i]), "thread");
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

static void say_rate(int count)
{
	double rate = 0;

	for (int i = 0; i < count; i++)
		rate += 1e9 / shared->figures[i][0];
	printf("{\"rate\": %.0f, \"slowest_ns\": %.1f}\n", rate, most(count, 0));
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";
	int count = argc > 2 ? atoi(argv[2]) : 0;

	shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	need(shared != MAP_FAILED, "mmap");
	if (!strcmp(what, "qps") && argc == 5) {
		in_processes(2, run_qps, argv);
		say_qps();
	} else if (!strcmp(what, "regions")) {
		in_processes(1, run_regions, argv);
		say_qps();
	} else if (!strcmp(what, "processes")) {
		in_processes(count, run_processes, argv);
		printf("{\"connect_s\": %.3f, \"message_ns\": %.0f, \"bytes\": %.0f, "
		       "\"descriptors\": %.0f}\n",
		       most(count, 0) / 1e9, most(count, 1) / ROUNDS / count / (count - 1),
		       sum(count, 2) / count, most(count, 3));
	} else if (!strcmp(what, "copies")) {
		in_processes(count, run_copy, argv);
		say_rate(count);
	} else if (!strcmp(what, "threads")) {
		run_threads(count);
		say_rate(count);
	} else {
		fprintf(stderr, "scale qps N SEND RECV | regions|processes|threads|copies N\n");
		return 2;
	}
	return 0;
}
