/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes for tests of what one does to the other's memory: this one, and a server of it that
 * makes a QP for each that it is told of. They talk over a line, and share nothing else.
 */
#ifndef TESTS_VERBS_CONTACT_H
#define TESTS_VERBS_CONTACT_H

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "device/qp.h"
#include "engine/lane.h"
#include "link/samehost.h"
#include "transport/transport.h"
#include "counted.h"
#include "live.h"

enum { REGIONS = 8 };

/* What the two tell each other. Who gets one makes a QP, and tells of its own. */
struct contact {
	uint32_t qpn;
	enum ibv_qp_type type;
	int access; /* of the other side's QP */
	uint32_t rkeys[REGIONS];
	uint64_t addrs[REGIONS];
	uint64_t assists; /* of the side that tells */
};

static int line; /* to the other process */
static pid_t server;

static void tell(const struct contact *contact)
{
	assert_int_equal(write(line, contact, sizeof(*contact)), sizeof(*contact));
}

static bool hear(struct contact *contact)
{
	return recv(line, contact, sizeof(*contact), MSG_WAITALL) == sizeof(*contact);
}

/* In the child, which has these regions: QPs as they are asked for, until the line ends. */
static inline void serve_qps(struct contact *own)
{
	struct contact peer;
	struct end end;

	own->access = live_access;
	while (hear(&peer)) {
		end_create(&end, peer.type);
		own->qpn = end.qp->qp_num;
		qp_init(end.qp, peer.access);
		tell(own);
		qp_connect(end.qp, peer.qpn);
		tell(own);
	}
}

static inline char *pages(size_t length)
{
	char *memory =
	    mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

/* Both in the one network. */
static void open_side(void)
{
	context = open_loopback();
	assert_non_null(context);
	assert_true(find_ipv4());
	pd = ibv_alloc_pd(context);
	assert_non_null(pd);
}

static void start(void (*other)(void))
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	server = fork();
	assert_true(server >= 0);
	line = ends[server ? 0 : 1];
	close(ends[server ? 1 : 0]);
	if (!server)
		alarm(60);
	open_side();
	if (server)
		return;
	other();
	_exit(0);
}

static void stop(void)
{
	int status;

	close(line);
	assert_int_equal(waitpid(server, &status, 0), server);
	assert_int_equal(status, 0);
	assert_int_equal(live_close(NULL), 0);
}

/* A QP of ours and one of the server's, with these rights. */
static inline struct contact meet(struct end *end, enum ibv_qp_type type, int access)
{
	struct contact peer, own = {.type = type, .access = access};

	end_create(end, type);
	own.qpn = end->qp->qp_num;
	qp_init(end->qp, live_access);
	tell(&own);
	assert_true(hear(&peer));
	qp_connect(end->qp, peer.qpn);
	assert_true(hear(&peer));
	return peer;
}

static inline struct ibv_wc transfer(struct end *end, enum ibv_wr_opcode opcode, struct ibv_sge sge,
				     uint64_t addr, uint32_t rkey)
{
	struct ibv_send_wr wr = make_send(opcode, &sge);

	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	post_send_wr(end, &wr);
	return next_wc(end->cq);
}

static inline void stop_server(void)
{
	int status;

	assert_int_equal(kill(server, SIGSTOP), 0);
	assert_int_equal(waitpid(server, &status, WUNTRACED), server);
	assert_true(WIFSTOPPED(status));
}

static inline void fill(char *memory, uint32_t length, uint32_t seed)
{
	for (uint32_t i = 0; i < length; i++)
		memory[i] = (char)(seed * 37 + i * 11 + (i >> 12));
}

/* A child whose assertion failed has jumped back into the list of tests: it ends there. */
static int only_the_parent_goes_on(void **state)
{
	static pid_t parent;

	if (!parent)
		parent = getpid();
	if (getpid() != parent)
		_exit(1);
	unsetenv("VERBATIM_SAMEHOST");
	return 0;
}

static int network(void **state)
{
	return interface_up("lo");
}

/* Shares of copies that this side took for the other. */
static inline uint64_t assists(const struct end *end)
{
	struct lane *lane = qp_of(end->qp)->seat->lane;
	uint64_t count;

	lane_lock(lane);
	count = samehost_assists(lane->samehost);
	lane_unlock(lane);
	return count;
}

#endif
