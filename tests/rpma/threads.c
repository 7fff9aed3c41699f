/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * threads CLASS [ROUNDS]: several threads in librpma at once, on the same objects. The classes are
 * those of docs/rpma-thread-safety.md; run by itself, under ThreadSanitizer and under valgrind's
 * tools.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

enum { THREADS = 4 };

static struct rig rig;
static unsigned int rounds = 200;
static pthread_barrier_t barrier;

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)
#define OK(call) MUST((call) == 0)

/* Whole pages, as registration looks at pages, and valgrind at each byte. */
static char *pages(void)
{
	char *memory = aligned_alloc(4096, RIG_SIZE);

	MUST(memory);
	return memset(memory, 0, RIG_SIZE);
}

static void in_threads(void *(*body)(void *))
{
	pthread_t threads[THREADS];

	pthread_barrier_init(&barrier, NULL, THREADS);
	for (intptr_t i = 0; i < THREADS; i++)
		OK(pthread_create(&threads[i], NULL, body, (void *)i));
	for (int i = 0; i < THREADS; i++)
		OK(pthread_join(threads[i], NULL));
	pthread_barrier_destroy(&barrier);
}

/* ---- words and the log ---- */

static atomic_uint logged;

static void count_messages(enum rpma_log_level level, const char *file_name, const int line_no,
			   const char *function_name, const char *message_format, ...)
{
	char text[256];
	va_list arguments;

	va_start(arguments, message_format);
	vsnprintf(text, sizeof(text), message_format, arguments);
	va_end(arguments);
	MUST(strlen(text) > 4);
	atomic_fetch_add(&logged, 1);
}

static void *log_body(void *argument)
{
	pthread_barrier_wait(&barrier);
	for (unsigned int i = 0; i < rounds; i++) {
		enum rpma_log_level level = RPMA_LOG_DISABLED;
		struct ibv_context *context = NULL;
		int odp;

		OK(rpma_log_set_function(i % 2 ? count_messages : NULL));
		OK(rpma_log_set_threshold(RPMA_LOG_THRESHOLD,
					  i % 2 ? RPMA_LOG_LEVEL_INFO : RPMA_LOG_LEVEL_FATAL));
		OK(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &level));
		MUST(rpma_mr_dereg(NULL) == RPMA_E_INVAL);
		MUST(!strcmp(rpma_err_2str(0), "Success"));
		MUST(strstr(rpma_utils_conn_event_2str(RPMA_CONN_CLOSED), "closed"));
		if (i % 8)
			continue;
		OK(rpma_utils_get_ibv_context(RIG_ADDRESS, RPMA_UTIL_IBV_CONTEXT_LOCAL, &context));
		MUST(context);
		OK(rpma_utils_ibv_context_is_odp_capable(context, &odp));
	}
	return NULL;
}

static void log_class(void)
{
	/* nothing goes to the machine's log: only our function is let through in the end */
	in_threads(log_body);
	MUST(logged > 0);
}

/* ---- peers and regions ---- */

static void *memory_body(void *argument)
{
	static char memory[THREADS][8192];
	char *mine = memory[(intptr_t)argument], descriptor[32];
	struct ibv_context *context;

	OK(rpma_utils_get_ibv_context(RIG_ADDRESS, RPMA_UTIL_IBV_CONTEXT_LOCAL, &context));
	pthread_barrier_wait(&barrier);
	for (unsigned int i = 0; i < rounds; i++) {
		struct rpma_mr_remote *remote;
		struct rpma_mr_local *mr;
		struct rpma_peer *peer;
		size_t size;

		OK(rpma_mr_reg(rig.peer, mine, 8192, 0xff, &mr));
		OK(rpma_mr_get_descriptor(mr, descriptor));
		OK(rpma_mr_get_descriptor_size(mr, &size));
		OK(rpma_mr_remote_from_descriptor(descriptor, size, &remote));
		OK(rpma_mr_remote_get_size(remote, &size));
		MUST(size == 8192);
		OK(rpma_mr_remote_delete(&remote));
		OK(rpma_mr_dereg(&mr));
		/* one region that all ask */
		OK(rpma_mr_get_size(rig.ends[CLIENT].mr, &size));
		OK(rpma_mr_get_descriptor(rig.ends[CLIENT].mr, descriptor));
		OK(rpma_peer_new(context, &peer));
		OK(rpma_peer_delete(&peer));
	}
	return NULL;
}

static void memory_class(void)
{
	char *memory = pages();

	OK(rig_up(&rig, NULL, memory));
	in_threads(memory_body);
	OK(rig_down(&rig));
	free(memory);
}

/* ---- configurations: one of each, that all set and get ---- */

static struct rpma_peer_cfg *peer_cfg;
static struct rpma_conn_cfg *conn_cfg;
static struct rpma_srq_cfg *srq_cfg;

static void *cfg_body(void *argument)
{
	uint32_t mine = 100 + (uint32_t)(intptr_t)argument, value = 0;
	char descriptor[4];
	bool flag;
	int timeout;

	pthread_barrier_wait(&barrier);
	for (unsigned int i = 0; i < rounds; i++) {
		struct rpma_peer_cfg *copy;
		struct rpma_srq *srq;

		OK(rpma_peer_cfg_set_direct_write_to_pmem(peer_cfg, i % 2));
		OK(rpma_peer_cfg_get_direct_write_to_pmem(peer_cfg, &flag));
		OK(rpma_peer_cfg_get_descriptor(peer_cfg, descriptor));
		MUST(descriptor[0] == 0 || descriptor[0] == 1);
		OK(rpma_peer_cfg_from_descriptor(descriptor, 1, &copy));
		OK(rpma_peer_cfg_delete(&copy));
		OK(rpma_conn_cfg_set_timeout(conn_cfg, (int)mine));
		OK(rpma_conn_cfg_get_timeout(conn_cfg, &timeout));
		MUST(timeout >= 100 && timeout < 100 + THREADS);
		OK(rpma_conn_cfg_set_cq_size(conn_cfg, mine));
		OK(rpma_conn_cfg_get_cq_size(conn_cfg, &value));
		MUST(value >= 100 && value < 100 + THREADS);
		OK(rpma_conn_cfg_set_rcq_size(conn_cfg, mine));
		OK(rpma_conn_cfg_set_sq_size(conn_cfg, mine));
		OK(rpma_conn_cfg_get_sq_size(conn_cfg, &value));
		OK(rpma_conn_cfg_set_rq_size(conn_cfg, mine));
		OK(rpma_conn_cfg_set_compl_channel(conn_cfg, i % 2));
		OK(rpma_conn_cfg_get_compl_channel(conn_cfg, &flag));
		OK(rpma_conn_cfg_set_srq(conn_cfg, NULL));
		OK(rpma_conn_cfg_get_srq(conn_cfg, &srq));
		OK(rpma_srq_cfg_set_rq_size(srq_cfg, mine));
		OK(rpma_srq_cfg_get_rq_size(srq_cfg, &value));
		OK(rpma_srq_cfg_set_rcq_size(srq_cfg, mine));
		OK(rpma_srq_cfg_get_rcq_size(srq_cfg, &value));
		MUST(value >= 100 && value < 100 + THREADS);
		if (i % 16 == 0) { /* and what reads them */
			struct rpma_conn_req *req;

			OK(rpma_conn_cfg_set_timeout(conn_cfg, (int)mine));
			OK(rpma_conn_req_new(rig.peer, RIG_ADDRESS, "7204", conn_cfg, &req));
			OK(rpma_conn_req_delete(&req));
			OK(rpma_srq_new(rig.peer, srq_cfg, &srq));
			OK(rpma_srq_delete(&srq));
		}
	}
	return NULL;
}

static void cfg_class(void)
{
	OK(rig_listen(&rig));
	OK(rpma_peer_cfg_new(&peer_cfg));
	OK(rpma_conn_cfg_new(&conn_cfg));
	OK(rpma_srq_cfg_new(&srq_cfg));
	OK(rpma_srq_cfg_set_rcq_size(srq_cfg, 100));
	/* as the loop has them, so that no value is another thread's default */
	OK(rpma_conn_cfg_set_timeout(conn_cfg, 100));
	OK(rpma_conn_cfg_set_cq_size(conn_cfg, 100));
	in_threads(cfg_body);
	OK(rpma_peer_cfg_delete(&peer_cfg));
	OK(rpma_conn_cfg_delete(&conn_cfg));
	OK(rpma_srq_cfg_delete(&srq_cfg));
	OK(rig_down(&rig));
}

/* ---- connections: half of the threads connect, the others take requests of one endpoint ---- */

static atomic_uint established;

static void wait_event(struct rpma_conn *conn, enum rpma_conn_event wanted)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

	OK(rig_event(conn, &event));
	MUST(event == wanted);
}

static void *connect_body(void *argument)
{
	bool is_client = (intptr_t)argument % 2;

	pthread_barrier_wait(&barrier);
	for (unsigned int i = 0; i < rounds / 8; i++) {
		struct rpma_conn_req *req;
		struct rpma_conn *conn;

		if (is_client)
			OK(rpma_conn_req_new(rig.peer, RIG_ADDRESS, rig.port, NULL, &req));
		else
			OK(rpma_ep_next_conn_req(rig.ep, NULL, &req));
		OK(rpma_conn_req_connect(&req, NULL, &conn));
		wait_event(conn, RPMA_CONN_ESTABLISHED);
		atomic_fetch_add(&established, 1);
		if (is_client)
			OK(rpma_conn_disconnect(conn));
		wait_event(conn, RPMA_CONN_CLOSED);
		if (!is_client)
			OK(rpma_conn_disconnect(conn));
		OK(rpma_conn_delete(&conn));
	}
	return NULL;
}

static void connect_class(void)
{
	OK(rig_listen(&rig));
	in_threads(connect_body);
	MUST(established == THREADS * (rounds / 8));
	OK(rig_down(&rig));
}

/* ---- one request, and who gets to connect it ---- */

static struct rpma_conn_req *request;
static struct rpma_conn *connected;
static struct rpma_mr_local *request_mr;
static atomic_uint connects;

static void *request_body(void *argument)
{
	struct rpma_conn_private_data data;
	struct rpma_conn *conn = NULL;

	pthread_barrier_wait(&barrier);
	OK(rpma_conn_req_recv(request, request_mr, 0, 64, NULL));
	OK(rpma_conn_req_get_private_data(request, &data));
	MUST(data.ptr && !memcmp(data.ptr, "hello", 5));
	pthread_barrier_wait(&barrier);
	if (rpma_conn_req_connect(&request, NULL, &conn) == 0) {
		connected = conn;
		atomic_fetch_add(&connects, 1);
	}
	return NULL;
}

static void request_class(void)
{
	static char memory[64];

	OK(rig_listen(&rig));
	OK(rpma_mr_reg(rig.peer, memory, 64, RPMA_MR_USAGE_RECV, &request_mr));
	for (unsigned int i = 0; i < rounds / 16 + 1; i++) {
		struct rpma_conn_private_data data = {(void *)"hello", 5};
		struct rpma_conn_req *mine;
		struct rpma_conn *conn;

		connects = 0;
		OK(rpma_conn_req_new(rig.peer, RIG_ADDRESS, rig.port, NULL, &mine));
		OK(rpma_conn_req_connect(&mine, &data, &conn));
		OK(rpma_ep_next_conn_req(rig.ep, NULL, &request));
		in_threads(request_body);
		MUST(connects == 1 && !request);
		wait_event(conn, RPMA_CONN_ESTABLISHED);
		wait_event(connected, RPMA_CONN_ESTABLISHED);
		OK(rpma_conn_delete(&conn));
		OK(rpma_conn_delete(&connected));
	}
	OK(rpma_mr_dereg(&request_mr));
	OK(rig_down(&rig));
}

/* ---- one connection: all operate on it, and all take its completions ---- */

static atomic_uint posted, completed;

static void take(struct rpma_conn *conn, unsigned int most)
{
	struct rpma_cq *cq;
	struct ibv_wc wc[4];
	int got = 0;

	OK(rpma_conn_get_cq(conn, &cq));
	while (atomic_load(&posted) - atomic_load(&completed) > most) {
		int code = rpma_cq_get_wc(cq, 4, wc, &got);

		if (code == RPMA_E_NO_COMPLETION) {
			/* nonblocking: whoever is woken, all look */
			code = rpma_cq_wait(cq);
			MUST(code == 0 || code == RPMA_E_NO_COMPLETION);
			sched_yield();
			continue;
		}
		OK(code);
		for (int i = 0; i < got; i++)
			MUST(wc[i].status == IBV_WC_SUCCESS);
		atomic_fetch_add(&completed, (unsigned int)got);
	}
}

static void post_one(struct end *end, unsigned int kind, size_t at)
{
	const int always = RPMA_F_COMPLETION_ALWAYS;

	switch (kind % 6) {
	case 0:
		OK(rpma_write(end->conn, end->remote, at, end->mr, at, 512, always, NULL));
		break;
	case 1:
		OK(rpma_read(end->conn, end->mr, at, end->remote, at, 512, always, NULL));
		break;
	case 2:
		OK(rpma_flush(end->conn, end->remote, at, 512, RPMA_FLUSH_TYPE_VISIBILITY, always,
			      NULL));
		break;
	case 3:
		OK(rpma_atomic_write(end->conn, end->remote, at, "8 bytes", always, NULL));
		break;
	case 4:
		OK(rpma_send(end->conn, end->mr, at, 64, always, NULL));
		break;
	case 5:
		OK(rpma_send_with_imm(end->conn, NULL, 0, 0, always, 7, NULL));
		break;
	}
}

static void *operate_body(void *argument)
{
	struct end *end = &rig.ends[CLIENT];
	size_t at = 8192 * (size_t)(intptr_t)argument;
	struct rpma_conn_private_data data;

	pthread_barrier_wait(&barrier);
	for (unsigned int i = 0; i < rounds; i++) {
		uint32_t number;

		atomic_fetch_add(&posted, 1);
		post_one(end, i, at);
		OK(rpma_conn_get_qp_num(end->conn, &number));
		OK(rpma_conn_get_private_data(end->conn, &data));
		take(end->conn, 8);
	}
	take(end->conn, 0);
	return NULL;
}

static void operate_class(void)
{
	char *memory = pages();
	struct rpma_conn_cfg *cfg;
	struct rpma_cq *cq;
	int fd;

	OK(rpma_conn_cfg_new(&cfg));
	OK(rpma_conn_cfg_set_cq_size(cfg, 4096));
	OK(rpma_conn_cfg_set_sq_size(cfg, 64));
	OK(rpma_conn_cfg_set_rq_size(cfg, 2048));
	OK(rig_up(&rig, cfg, memory));
	OK(rpma_conn_get_cq(rig.ends[CLIENT].conn, &cq));
	OK(rpma_cq_get_fd(cq, &fd));
	OK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK));
	for (unsigned int i = 0; i < THREADS * rounds / 3 + THREADS * 2 && i < 2048; i++)
		OK(rpma_recv(rig.ends[SERVER].conn, rig.ends[SERVER].mr, 60000, 64, NULL));
	in_threads(operate_body);
	MUST(completed == THREADS * rounds);
	OK(rig_down(&rig));
	OK(rpma_conn_cfg_delete(&cfg));
	free(memory);
}

/* ---- a shared receive queue ---- */

static struct rpma_srq *shared;

static void *srq_body(void *argument)
{
	pthread_barrier_wait(&barrier);
	for (unsigned int i = 0; i < rounds / 4; i++) {
		struct rpma_cq *rcq;
		struct ibv_wc wc;

		OK(rpma_srq_recv(shared, NULL, 0, 0, argument));
		OK(rpma_srq_get_rcq(shared, &rcq));
		OK(rpma_send(rig.ends[CLIENT].conn, NULL, 0, 0, RPMA_F_COMPLETION_ON_ERROR, NULL));
		/* (waits of several threads for one CQ wake one of them) */
		while (rpma_cq_get_wc(rcq, 1, &wc, NULL) == RPMA_E_NO_COMPLETION)
			sched_yield();
		MUST(wc.status == IBV_WC_SUCCESS);
	}
	return NULL;
}

static void srq_class(void)
{
	char *memory = pages();
	struct ibv_context *context;
	struct rpma_conn_cfg *cfg;
	struct rpma_conn *conns[SIDES] = {0};

	OK(rpma_utils_get_ibv_context(RIG_ADDRESS, RPMA_UTIL_IBV_CONTEXT_LOCAL, &context));
	OK(rig_listen(&rig));
	OK(rpma_srq_new(rig.peer, NULL, &shared));
	OK(rpma_conn_cfg_new(&cfg));
	OK(rpma_conn_cfg_set_srq(cfg, shared));
	OK(rpma_conn_cfg_set_sq_size(cfg, 16384));
	OK(rig_connect(&rig, cfg, conns));
	rig.ends[CLIENT].conn = conns[CLIENT];
	in_threads(srq_body);
	OK(rig_disconnect(conns));
	rig.ends[CLIENT].conn = NULL;
	OK(rpma_srq_delete(&shared));
	OK(rpma_conn_cfg_delete(&cfg));
	OK(rig_down(&rig));
	free(memory);
}

/* ---- not a class: a race, which the tools have to find ---- */

static unsigned int handed_on;
static atomic_bool is_there;

/* Data that a relaxed store hands on: nothing orders it. */
static void *race_body(void *argument)
{
	pthread_barrier_wait(&barrier);
	if (argument) {
		while (!atomic_load_explicit(&is_there, memory_order_relaxed))
			sched_yield();
		MUST(handed_on <= 1);
	} else {
		handed_on = 1;
		atomic_store_explicit(&is_there, true, memory_order_relaxed);
	}
	return NULL;
}

static void race_class(void)
{
	in_threads(race_body);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} classes[] = {{"log", log_class},	   {"memory", memory_class},
		       {"cfg", cfg_class},	   {"connect", connect_class},
		       {"request", request_class}, {"operate", operate_class},
		       {"srq", srq_class},	   {"race", race_class}};

	if (argc > 2)
		rounds = (unsigned int)strtoul(argv[2], NULL, 10);
	OK(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_FATAL));
	for (size_t i = 0; argc > 1 && i < sizeof(classes) / sizeof(classes[0]); i++)
		if (!strcmp(classes[i].name, argv[1])) {
			classes[i].run();
			return 0;
		}
	fprintf(stderr, "threads log|memory|cfg|connect|request|operate|srq [ROUNDS]\n");
	return 2;
}
