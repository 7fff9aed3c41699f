/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * refusals [original]: how each function of librpma refuses, one argument at a time, with all
 * others as they should be; by the manual's words. The original librpma is held to the same list,
 * so that it is the list of what programs meet; what only ours does, as the manual has it, is left
 * out there.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

static struct rig rig;
static unsigned int count, failed;
static bool is_original;

static void expect(int code, int wanted, int line, const char *call)
{
	count++;
	if (code == wanted)
		return;
	failed++;
	printf("%d: %s: %d %s, not %d %s\n", line, call, code, rpma_err_2str(code), wanted,
	       rpma_err_2str(wanted));
}

#define IS(call, wanted) expect(call, wanted, __LINE__, #call)
#define OK(call)	 IS(call, 0)
#define INVAL(call)	 IS(call, RPMA_E_INVAL)
/* What the manual says, and the original does not do. */
#define OURS(call, wanted)                                                                         \
	do {                                                                                       \
		if (!is_original)                                                                  \
			IS(call, wanted);                                                          \
	} while (0)

static void utilities(void)
{
	struct ibv_context *context = NULL;
	struct rpma_peer *peer = NULL;
	int odp;

	INVAL(rpma_utils_get_ibv_context(NULL, RPMA_UTIL_IBV_CONTEXT_LOCAL, &context));
	INVAL(rpma_utils_get_ibv_context(RIG_ADDRESS, RPMA_UTIL_IBV_CONTEXT_LOCAL, NULL));
	INVAL(rpma_utils_get_ibv_context(RIG_ADDRESS, 2, &context));
	IS(rpma_utils_get_ibv_context("no.such.host.invalid", RPMA_UTIL_IBV_CONTEXT_REMOTE,
				      &context),
	   RPMA_E_PROVIDER);
	IS(rpma_utils_get_ibv_context("192.0.2.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, &context),
	   RPMA_E_PROVIDER);
	OK(rpma_utils_get_ibv_context(RIG_ADDRESS, RPMA_UTIL_IBV_CONTEXT_REMOTE, &context));
	INVAL(rpma_utils_ibv_context_is_odp_capable(NULL, &odp));
	INVAL(rpma_utils_ibv_context_is_odp_capable(context, NULL));
	OK(rpma_utils_ibv_context_is_odp_capable(context, &odp));
	INVAL(rpma_peer_new(NULL, &peer));
	INVAL(rpma_peer_new(context, NULL));
	INVAL(rpma_peer_delete(NULL));
	OK(rpma_peer_delete(&peer));
}

static void logs(void)
{
	enum rpma_log_level level;

	INVAL(rpma_log_set_threshold(2, RPMA_LOG_LEVEL_ERROR));
	INVAL(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED - 1));
	INVAL(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_DEBUG + 1));
	INVAL(rpma_log_get_threshold(2, &level));
	INVAL(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, NULL));
	OK(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_DEBUG));
	OK(rpma_log_get_threshold(RPMA_LOG_THRESHOLD_AUX, &level));
	IS((int)level, RPMA_LOG_LEVEL_DEBUG);
	OK(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_DISABLED));
	OK(rpma_log_set_function(NULL));
}

static void regions(void)
{
	struct rpma_mr_remote *remote = NULL;
	struct rpma_mr_local *mr = NULL, *given = rig.ends[CLIENT].mr;
	char memory[64], descriptor[64];
	size_t size = 0;
	void *ptr;
	int type;

	INVAL(rpma_mr_reg(NULL, memory, 64, RPMA_MR_USAGE_SEND, &mr));
	INVAL(rpma_mr_reg(rig.peer, NULL, 64, RPMA_MR_USAGE_SEND, &mr));
	INVAL(rpma_mr_reg(rig.peer, memory, 0, RPMA_MR_USAGE_SEND, &mr));
	INVAL(rpma_mr_reg(rig.peer, memory, 64, 0, &mr));
	INVAL(rpma_mr_reg(rig.peer, memory, 64, RPMA_MR_USAGE_SEND, NULL));
	IS(rpma_mr_reg(rig.peer, (void *)4096, 64, RPMA_MR_USAGE_SEND, &mr), RPMA_E_PROVIDER);
	INVAL(rpma_mr_dereg(NULL));
	OK(rpma_mr_dereg(&mr));
	INVAL(rpma_mr_get_descriptor(NULL, descriptor));
	INVAL(rpma_mr_get_descriptor(given, NULL));
	INVAL(rpma_mr_get_descriptor_size(NULL, &size));
	INVAL(rpma_mr_get_descriptor_size(given, NULL));
	INVAL(rpma_mr_get_ptr(NULL, &ptr));
	INVAL(rpma_mr_get_ptr(given, NULL));
	INVAL(rpma_mr_get_size(NULL, &size));
	INVAL(rpma_mr_get_size(given, NULL));

	OK(rpma_mr_get_descriptor_size(given, &size));
	OK(rpma_mr_get_descriptor(given, descriptor));
	INVAL(rpma_mr_remote_from_descriptor(NULL, size, &remote));
	INVAL(rpma_mr_remote_from_descriptor(descriptor, size, NULL));
	INVAL(rpma_mr_remote_from_descriptor(descriptor, size - 1, &remote));
	OK(rpma_mr_remote_from_descriptor(descriptor, size, &remote));
	INVAL(rpma_mr_remote_get_size(NULL, &size));
	INVAL(rpma_mr_remote_get_size(remote, NULL));
	INVAL(rpma_mr_remote_get_flush_type(NULL, &type));
	INVAL(rpma_mr_remote_get_flush_type(remote, NULL));
	INVAL(rpma_mr_remote_delete(NULL));
	OK(rpma_mr_remote_delete(&remote));
	OK(rpma_mr_remote_delete(&remote));
	descriptor[size - 1] = 0; /* a region that is for nothing */
	IS(rpma_mr_remote_from_descriptor(descriptor, size, &remote), RPMA_E_INVAL);
	OURS(rpma_mr_advise(NULL, 0, 8, IBV_ADVISE_MR_ADVICE_PREFETCH, 0), RPMA_E_INVAL);
	INVAL(rpma_mr_advise(given, 0, 8, IBV_ADVISE_MR_ADVICE_PREFETCH, 2));
	IS(rpma_mr_advise(given, 0, 8, 7, 0), RPMA_E_NOSUPP);
}

static void peer_cfgs(void)
{
	struct rpma_peer_cfg *cfg = NULL, *copy = NULL;
	char descriptor[8] = {1};
	bool supported;
	size_t size;

	INVAL(rpma_peer_cfg_new(NULL));
	OK(rpma_peer_cfg_new(&cfg));
	INVAL(rpma_peer_cfg_set_direct_write_to_pmem(NULL, true));
	INVAL(rpma_peer_cfg_get_direct_write_to_pmem(NULL, &supported));
	INVAL(rpma_peer_cfg_get_direct_write_to_pmem(cfg, NULL));
	INVAL(rpma_peer_cfg_get_descriptor(NULL, descriptor));
	INVAL(rpma_peer_cfg_get_descriptor(cfg, NULL));
	INVAL(rpma_peer_cfg_get_descriptor_size(NULL, &size));
	INVAL(rpma_peer_cfg_get_descriptor_size(cfg, NULL));
	INVAL(rpma_peer_cfg_from_descriptor(NULL, 1, &copy));
	INVAL(rpma_peer_cfg_from_descriptor(descriptor, 1, NULL));
	INVAL(rpma_peer_cfg_from_descriptor(descriptor, 0, &copy));
	INVAL(rpma_conn_apply_remote_peer_cfg(NULL, cfg));
	INVAL(rpma_conn_apply_remote_peer_cfg(rig.ends[CLIENT].conn, NULL));
	INVAL(rpma_peer_cfg_delete(NULL));
	OK(rpma_peer_cfg_delete(&cfg));
	OK(rpma_peer_cfg_delete(&cfg));
}

/* A value's two functions. */
#define VALUE(kind, name, cfg, type)                                                               \
	do {                                                                                       \
		type value_;                                                                       \
		INVAL(rpma_##kind##_set_##name(NULL, 0));                                          \
		INVAL(rpma_##kind##_get_##name(NULL, &value_));                                    \
		INVAL(rpma_##kind##_get_##name(cfg, NULL));                                        \
	} while (0)

static void conn_cfgs(void)
{
	struct rpma_srq_cfg *srq_cfg = NULL;
	struct rpma_conn_cfg *cfg = NULL;

	INVAL(rpma_conn_cfg_new(NULL));
	OK(rpma_conn_cfg_new(&cfg));
	VALUE(conn_cfg, timeout, cfg, int);
	VALUE(conn_cfg, cq_size, cfg, uint32_t);
	VALUE(conn_cfg, rcq_size, cfg, uint32_t);
	VALUE(conn_cfg, sq_size, cfg, uint32_t);
	VALUE(conn_cfg, rq_size, cfg, uint32_t);
	VALUE(conn_cfg, compl_channel, cfg, bool);
	VALUE(conn_cfg, srq, cfg, struct rpma_srq *);
	INVAL(rpma_conn_cfg_set_timeout(cfg, -1));
	INVAL(rpma_conn_cfg_delete(NULL));
	OK(rpma_conn_cfg_delete(&cfg));
	OK(rpma_conn_cfg_delete(&cfg));
	INVAL(rpma_srq_cfg_new(NULL));
	OK(rpma_srq_cfg_new(&srq_cfg));
	VALUE(srq_cfg, rq_size, srq_cfg, uint32_t);
	VALUE(srq_cfg, rcq_size, srq_cfg, uint32_t);
	INVAL(rpma_srq_cfg_delete(NULL));
	OK(rpma_srq_cfg_delete(&srq_cfg));
	OK(rpma_srq_cfg_delete(&srq_cfg));
}

static void srqs(void)
{
	struct rpma_srq_cfg *cfg = NULL;
	struct rpma_srq *srq = NULL;
	struct rpma_cq *rcq;

	INVAL(rpma_srq_new(NULL, NULL, &srq));
	INVAL(rpma_srq_new(rig.peer, NULL, NULL));
	OK(rpma_srq_cfg_new(&cfg));
	OK(rpma_srq_cfg_set_rq_size(cfg, 0x7fffffff));
	IS(rpma_srq_new(rig.peer, cfg, &srq), RPMA_E_PROVIDER);
	OK(rpma_srq_cfg_delete(&cfg));
	OK(rpma_srq_new(rig.peer, NULL, &srq));
	INVAL(rpma_srq_recv(NULL, NULL, 0, 0, NULL));
	INVAL(rpma_srq_recv(srq, NULL, 1, 0, NULL));
	INVAL(rpma_srq_recv(srq, NULL, 0, 1, NULL));
	INVAL(rpma_srq_get_rcq(NULL, &rcq));
	INVAL(rpma_srq_get_rcq(srq, NULL));
	INVAL(rpma_srq_delete(NULL));
	OK(rpma_srq_delete(&srq));
	OK(rpma_srq_delete(&srq));
}

static void endpoints(void)
{
	struct rpma_conn_req *request = NULL;
	struct rpma_ep *ep = NULL;
	int fd = -1;

	INVAL(rpma_ep_listen(NULL, RIG_ADDRESS, "7204", &ep));
	INVAL(rpma_ep_listen(rig.peer, NULL, "7204", &ep));
	INVAL(rpma_ep_listen(rig.peer, RIG_ADDRESS, NULL, &ep));
	INVAL(rpma_ep_listen(rig.peer, RIG_ADDRESS, "7204", NULL));
	IS(rpma_ep_listen(rig.peer, RIG_ADDRESS, rig.port, &ep), RPMA_E_PROVIDER); /* it is taken */
	INVAL(rpma_ep_get_fd(NULL, &fd));
	INVAL(rpma_ep_get_fd(rig.ep, NULL));
	INVAL(rpma_ep_next_conn_req(NULL, NULL, &request));
	INVAL(rpma_ep_next_conn_req(rig.ep, NULL, NULL));
	OK(rpma_ep_get_fd(rig.ep, &fd));
	OK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK));
	OURS(rpma_ep_next_conn_req(rig.ep, NULL, &request), RPMA_E_NO_EVENT);
	OK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK));
	INVAL(rpma_ep_shutdown(NULL));
	OK(rpma_ep_shutdown(&ep));
}

static struct rpma_conn_req *request_new(const struct rpma_conn_cfg *cfg)
{
	struct rpma_conn_req *request = NULL;

	OK(rpma_conn_req_new(rig.peer, RIG_ADDRESS, rig.port, cfg, &request));
	return request;
}

static void requests(void)
{
	struct rpma_conn_private_data data = {(void *)"x", 0}, nothing = {NULL, 8}, said;
	struct rpma_conn_req *request = NULL;
	struct rpma_conn_cfg *cfg = NULL;
	struct rpma_conn *conn = NULL;

	INVAL(rpma_conn_req_new(NULL, RIG_ADDRESS, rig.port, NULL, &request));
	INVAL(rpma_conn_req_new(rig.peer, NULL, rig.port, NULL, &request));
	INVAL(rpma_conn_req_new(rig.peer, RIG_ADDRESS, NULL, NULL, &request));
	INVAL(rpma_conn_req_new(rig.peer, RIG_ADDRESS, rig.port, NULL, NULL));
	OK(rpma_conn_cfg_new(&cfg));
	OK(rpma_conn_cfg_set_sq_size(cfg, 0x7fffffff));
	IS(rpma_conn_req_new(rig.peer, RIG_ADDRESS, rig.port, cfg, &request), RPMA_E_PROVIDER);
	OK(rpma_conn_cfg_delete(&cfg));
	request = request_new(NULL);
	INVAL(rpma_conn_req_recv(NULL, rig.ends[CLIENT].mr, 0, 8, NULL));
	INVAL(rpma_conn_req_recv(request, NULL, 0, 8, NULL));
	INVAL(rpma_conn_req_get_private_data(NULL, &said));
	INVAL(rpma_conn_req_get_private_data(request, NULL));
	INVAL(rpma_conn_req_connect(NULL, NULL, &conn));
	INVAL(rpma_conn_req_connect(&(struct rpma_conn_req *){NULL}, NULL, &conn));
	OK(rpma_conn_req_delete(&request));
	INVAL(rpma_conn_req_delete(NULL));
	OK(rpma_conn_req_delete(&request));
	/* whatever it refuses for, the request is gone */
	request = request_new(NULL);
	INVAL(rpma_conn_req_connect(&request, &data, &conn));
	OURS(request != NULL, 0);
	if (request)
		OK(rpma_conn_req_delete(&request));
	request = request_new(NULL);
	INVAL(rpma_conn_req_connect(&request, NULL, NULL));
	if (request)
		OK(rpma_conn_req_delete(&request));
	request = request_new(NULL);
	INVAL(rpma_conn_req_connect(&request, &nothing, &conn));
	if (request)
		OK(rpma_conn_req_delete(&request));
}

static void connections(void)
{
	struct rpma_conn *conn = rig.ends[CLIENT].conn;
	struct rpma_conn_private_data data;
	enum rpma_conn_event event;
	uint32_t number;
	struct rpma_cq *cq;
	int fd = -1;

	INVAL(rpma_conn_next_event(NULL, &event));
	INVAL(rpma_conn_next_event(conn, NULL));
	INVAL(rpma_conn_get_event_fd(NULL, &fd));
	INVAL(rpma_conn_get_event_fd(conn, NULL));
	OK(rpma_conn_get_event_fd(conn, &fd));
	OK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK));
	OURS(rpma_conn_next_event(conn, &event), RPMA_E_NO_EVENT);
	INVAL(rpma_conn_get_private_data(NULL, &data));
	INVAL(rpma_conn_get_private_data(conn, NULL));
	INVAL(rpma_conn_get_qp_num(NULL, &number));
	INVAL(rpma_conn_get_qp_num(conn, NULL));
	INVAL(rpma_conn_get_cq(NULL, &cq));
	INVAL(rpma_conn_get_cq(conn, NULL));
	INVAL(rpma_conn_get_rcq(NULL, &cq));
	INVAL(rpma_conn_get_rcq(conn, NULL));
	INVAL(rpma_conn_get_compl_fd(NULL, &fd));
	INVAL(rpma_conn_get_compl_fd(conn, NULL));
	IS(rpma_conn_get_compl_fd(conn, &fd), RPMA_E_NOT_SHARED_CHNL);
	INVAL(rpma_conn_wait(NULL, 0, &cq, NULL));
	INVAL(rpma_conn_wait(conn, 0, NULL, NULL));
	IS(rpma_conn_wait(conn, 0, &cq, NULL), RPMA_E_NOT_SHARED_CHNL);
	INVAL(rpma_conn_disconnect(NULL));
	INVAL(rpma_conn_delete(NULL));
	OK(rpma_conn_delete(&(struct rpma_conn *){NULL}));
}

static void completions(void)
{
	struct rpma_conn *conns[SIDES] = {NULL};
	struct rpma_conn_cfg *cfg = NULL;
	struct rpma_cq *cq = NULL;
	struct ibv_wc wc[2];
	int fd;

	OK(rpma_conn_get_cq(rig.ends[CLIENT].conn, &cq));
	INVAL(rpma_cq_get_wc(NULL, 1, wc, NULL));
	INVAL(rpma_cq_get_wc(cq, 0, wc, NULL));
	INVAL(rpma_cq_get_wc(cq, 1, NULL, NULL));
	INVAL(rpma_cq_get_wc(cq, 2, wc, NULL));
	IS(rpma_cq_get_wc(cq, 1, wc, NULL), RPMA_E_NO_COMPLETION);
	INVAL(rpma_cq_get_fd(NULL, &fd));
	INVAL(rpma_cq_get_fd(cq, NULL));
	OK(rpma_cq_get_fd(cq, &fd));
	OK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK));
	INVAL(rpma_cq_wait(NULL));
	IS(rpma_cq_wait(cq), RPMA_E_NO_COMPLETION);
	OK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK));

	OK(rpma_conn_cfg_new(&cfg));
	OK(rpma_conn_cfg_set_compl_channel(cfg, true));
	OK(rig_connect(&rig, cfg, conns));
	OK(rpma_conn_get_cq(conns[CLIENT], &cq));
	IS(rpma_cq_wait(cq), RPMA_E_SHARED_CHANNEL);
	OK(rig_disconnect(conns));
	OK(rpma_conn_cfg_delete(&cfg));
}

/* Reads and writes want both regions, or nothing at all. */
static void transfers(void)
{
	const int always = RPMA_F_COMPLETION_ALWAYS;
	struct end *end = &rig.ends[CLIENT];
	struct rpma_conn *conn = end->conn;

	INVAL(rpma_read(NULL, end->mr, 0, end->remote, 0, 8, always, NULL));
	INVAL(rpma_read(conn, end->mr, 0, end->remote, 0, 8, 0, NULL));
	INVAL(rpma_read(conn, NULL, 0, end->remote, 0, 8, always, NULL));
	INVAL(rpma_read(conn, end->mr, 0, NULL, 0, 8, always, NULL));
	INVAL(rpma_read(conn, NULL, 1, NULL, 0, 0, always, NULL));
	INVAL(rpma_read(conn, NULL, 0, NULL, 1, 0, always, NULL));
	INVAL(rpma_read(conn, NULL, 0, NULL, 0, 1, always, NULL));
	INVAL(rpma_write(NULL, end->remote, 0, end->mr, 0, 8, always, NULL));
	INVAL(rpma_write(conn, end->remote, 0, end->mr, 0, 8, 0, NULL));
	INVAL(rpma_write(conn, NULL, 0, end->mr, 0, 8, always, NULL));
	INVAL(rpma_write(conn, end->remote, 0, NULL, 0, 8, always, NULL));
	INVAL(rpma_write(conn, NULL, 1, NULL, 0, 0, always, NULL));
	INVAL(rpma_write(conn, NULL, 0, NULL, 1, 0, always, NULL));
	INVAL(rpma_write(conn, NULL, 0, NULL, 0, 1, always, NULL));
	INVAL(rpma_write_with_imm(NULL, end->remote, 0, end->mr, 0, 8, always, 1, NULL));
	INVAL(rpma_write_with_imm(conn, end->remote, 0, end->mr, 0, 8, 0, 1, NULL));
	INVAL(rpma_write_with_imm(conn, NULL, 0, end->mr, 0, 8, always, 1, NULL));
	INVAL(rpma_write_with_imm(conn, end->remote, 0, NULL, 0, 8, always, 1, NULL));
	INVAL(rpma_write_with_imm(conn, NULL, 0, NULL, 0, 1, always, 1, NULL));
	OURS(rpma_read(conn, end->mr, 0, end->remote, 0, 1ull << 32, always, NULL), RPMA_E_INVAL);
	OURS(rpma_write(conn, end->remote, 0, end->mr, 0, 1ull << 32, always, NULL), RPMA_E_INVAL);
}

static void others(void)
{
	const int always = RPMA_F_COMPLETION_ALWAYS;
	struct end *end = &rig.ends[CLIENT];
	struct rpma_conn *conn = end->conn;
	struct rpma_peer_cfg *cfg = NULL;
	const char word[8] = {0};
	int code = 0;

	INVAL(rpma_send(NULL, end->mr, 0, 8, always, NULL));
	INVAL(rpma_send(conn, end->mr, 0, 8, 0, NULL));
	INVAL(rpma_send(conn, NULL, 1, 0, always, NULL));
	INVAL(rpma_send(conn, NULL, 0, 1, always, NULL));
	INVAL(rpma_send_with_imm(NULL, end->mr, 0, 8, always, 1, NULL));
	INVAL(rpma_send_with_imm(conn, end->mr, 0, 8, 0, 1, NULL));
	INVAL(rpma_send_with_imm(conn, NULL, 1, 0, always, 1, NULL));
	INVAL(rpma_send_with_imm(conn, NULL, 0, 1, always, 1, NULL));
	INVAL(rpma_recv(NULL, end->mr, 0, 8, NULL));
	INVAL(rpma_recv(conn, NULL, 1, 0, NULL));
	INVAL(rpma_recv(conn, NULL, 0, 1, NULL));
	for (int i = 0; i < 64 && code == 0; i++)
		code = rpma_recv(conn, NULL, 0, 0, NULL);
	IS(code, RPMA_E_PROVIDER); /* the queue is full */
	INVAL(rpma_atomic_write(NULL, end->remote, 0, word, always, NULL));
	INVAL(rpma_atomic_write(conn, NULL, 0, word, always, NULL));
	INVAL(rpma_atomic_write(conn, end->remote, 0, NULL, always, NULL));
	INVAL(rpma_atomic_write(conn, end->remote, 4, word, always, NULL));
	INVAL(rpma_atomic_write(conn, end->remote, 0, word, 0, NULL));
	INVAL(rpma_flush(NULL, end->remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, always, NULL));
	INVAL(rpma_flush(conn, NULL, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, always, NULL));
	OURS(rpma_flush(conn, end->remote, 0, 8, 2, always, NULL), RPMA_E_INVAL);
	INVAL(rpma_flush(conn, end->remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, 0, NULL));
	/* until the other side says that it can */
	OK(rpma_peer_cfg_new(&cfg));
	OK(rpma_conn_apply_remote_peer_cfg(conn, cfg));
	OK(rpma_peer_cfg_delete(&cfg));
	IS(rpma_flush(conn, end->remote, 0, 8, RPMA_FLUSH_TYPE_PERSISTENT, always, NULL),
	   RPMA_E_NOSUPP);
}

/* A region that was not registered for flushes. */
static void flush_of_another_region(void)
{
	static char memory[64];
	struct rpma_mr_remote *remote = NULL;
	struct rpma_mr_local *mr = NULL;
	char descriptor[64];
	size_t size = 0;

	OK(rpma_mr_reg(rig.peer, memory, 64, RPMA_MR_USAGE_WRITE_DST, &mr));
	OK(rpma_mr_get_descriptor_size(mr, &size));
	OK(rpma_mr_get_descriptor(mr, descriptor));
	OK(rpma_mr_remote_from_descriptor(descriptor, size, &remote));
	IS(rpma_flush(rig.ends[CLIENT].conn, remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY,
		      RPMA_F_COMPLETION_ALWAYS, NULL),
	   RPMA_E_NOSUPP);
	OK(rpma_mr_remote_delete(&remote));
	OK(rpma_mr_dereg(&mr));
}

int main(int argc, char **argv)
{
	is_original = argc > 1 && !strcmp(argv[1], "original");
	rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED);
	OK(rig_up(&rig, NULL, NULL));
	if (failed)
		return 1;
	utilities();
	logs();
	regions();
	peer_cfgs();
	conn_cfgs();
	srqs();
	endpoints();
	requests();
	connections();
	completions();
	transfers();
	others();
	flush_of_another_region();
	free(rig.ends[SERVER].memory);
	OK(rig_down(&rig));
	printf("%u calls, %u not as they should be\n", count, failed);
	return failed != 0;
}
