/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a process owes its peer when it ends, the peer gets, also where there is no room for it just
 * then: answers to more READs than the ring to the peer holds, while the peer is stopped.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>

#include "live.h"

enum {
	QPS = 32,
	LENGTH = 64 << 10, /* each one request; their answers are twice what the ring holds */
	WAIT_US = 30000,
};

enum ending { DESTROYS, EXITS };

struct contact {
	uint32_t qpns[QPS];
	uint64_t addr;
	uint32_t rkey;
};

static struct end ends[QPS];
static char memory[QPS * LENGTH];
static struct ibv_mr *mr;
static struct contact peer;

static void meet(int line)
{
	struct ibv_qp_attr patient = rts_attr();
	struct contact own;

	patient.timeout = 16;
	context = open_loopback();
	assert_non_null(context);
	assert_true(find_ipv4());
	pd = ibv_alloc_pd(context);
	mr = ibv_reg_mr(pd, memory, sizeof(memory), live_access);
	assert_non_null(mr);
	for (int i = 0; i < QPS; i++) {
		end_create(&ends[i], IBV_QPT_RC);
		qp_init(ends[i].qp, live_access);
		own.qpns[i] = ends[i].qp->qp_num;
	}
	own.addr = (uintptr_t)memory;
	own.rkey = mr->rkey;
	assert_int_equal(write(line, &own, sizeof(own)), sizeof(own));
	assert_int_equal(recv(line, &peer, sizeof(peer), MSG_WAITALL), sizeof(peer));
	for (int i = 0; i < QPS; i++)
		qp_connect_as(ends[i].qp, peer.qpns[i], patient);
	/* both are connected */
	assert_int_equal(write(line, &own, 1), 1);
	assert_int_equal(read(line, &own, 1), 1);
}

/* What the program polls for, its verbs have taken in and sent, whatever its lanes' threads had of
 * the processor: of the asker all requests, of the answerer all answers that the ring holds. */
static void take_in(void)
{
	double until = seconds() + WAIT_US * 1e-6;
	struct ibv_wc wc;

	while (seconds() < until)
		for (int i = 0; i < QPS; i++)
			assert_int_equal(ibv_poll_cq(ends[i].cq, 1, &wc), 0);
}

/* Stopped until all READs are posted, so that it finds them at once; then it ends. */
static void answer(int line, int parent, enum ending ending)
{
	char byte = 0;

	memset(memory, 0x5a, sizeof(memory));
	meet(line);
	raise(SIGSTOP);
	take_in();
	assert_int_equal(write(parent, &byte, 1), 1);
	if (ending == DESTROYS)
		for (int i = 0; i < QPS; i++)
			end_destroy(&ends[i]);
	exit(0);
}

static void ask(int line, int parent)
{
	char byte;

	meet(line);
	assert_int_equal(read(parent, &byte, 1), 1);
	for (int i = 0; i < QPS; i++) {
		struct ibv_sge sge = {(uintptr_t)memory + (size_t)i * LENGTH, LENGTH, mr->lkey};
		struct ibv_send_wr wr = make_send(IBV_WR_RDMA_READ, &sge);

		wr.wr.rdma.remote_addr = peer.addr + (size_t)i * LENGTH;
		wr.wr.rdma.rkey = peer.rkey;
		post_send_wr(&ends[i], &wr);
	}
	take_in();
	raise(SIGSTOP);
	for (int i = 0; i < QPS; i++)
		assert_wc(next_wc(ends[i].cq), 0x5e4d, IBV_WC_SUCCESS);
	for (size_t i = 0; i < sizeof(memory); i++)
		assert_int_equal(memory[i], 0x5a);
	_exit(0);
}

static void until_stopped(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	assert_true(WIFSTOPPED(status));
}

static void assert_ended(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void its_peer_gets_all_answers(enum ending ending)
{
	int line[2], parent[2];
	pid_t answerer, asker;
	char byte = 0;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, line), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, parent), 0);
	answerer = fork();
	if (!answerer) {
		alarm(30);
		answer(line[0], parent[1], ending);
	}
	asker = fork();
	if (!asker) {
		alarm(30);
		ask(line[1], parent[1]);
	}
	until_stopped(answerer);
	assert_int_equal(write(parent[0], &byte, 1), 1);
	until_stopped(asker);
	kill(answerer, SIGCONT);
	assert_int_equal(read(parent[0], &byte, 1), 1);
	usleep(WAIT_US); /* it is about to end */
	kill(asker, SIGCONT);
	assert_ended(asker);
	assert_ended(answerer);
	close(line[0]);
	close(line[1]);
	close(parent[0]);
	close(parent[1]);
}

static void who_destroys_its_qps_answers_before(void **state)
{
	its_peer_gets_all_answers(DESTROYS);
}

static void who_exits_answers_before(void **state)
{
	its_peer_gets_all_answers(EXITS);
}

static pid_t parent_of_all;

/* A child whose assertion failed has jumped back into the list of tests: it ends there. */
static int only_the_parent_goes_on(void **state)
{
	if (getpid() != parent_of_all)
		_exit(1);
	return 0;
}

static int network(void **state)
{
	return interface_up("lo");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name)                                                                                 \
	cmocka_unit_test_setup_teardown(name, only_the_parent_goes_on, only_the_parent_goes_on)
	    TEST(who_destroys_its_qps_answers_before),
	    TEST(who_exits_answers_before),
	};

	if (!own_network())
		return OWN_NETWORK_NONE;
	parent_of_all = getpid();
	setenv("VERBATIM_SAMEHOST", "rings", 1);
	setenv("VERBATIM_LANES", "1", 1);
	return cmocka_run_group_tests(tests, network, NULL);
}
