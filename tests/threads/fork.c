// SPDX-License-Identifier: BSD-2-Clause
/*
 * Forks in the middle of traffic on two pairs of queue pairs, while other threads list, open and
 * close devices and register memory, so that every lock is held at some fork: children that leave
 * at once, by exit() or by exec, that try what they inherited, and that open the device for
 * themselves and send to the parent. The parent's traffic goes on undisturbed.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

enum { PAIRS = 2, ROUNDS = 12, EXITS = 8, CHILD_MS = 100, POLLS = 1000 };

static struct rig rig;
static atomic_bool stop;
static struct traffic ends[2 * PAIRS];

static void *opener(void *unused)
{
	while (!atomic_load(&stop)) {
		struct rig another;

		rig_open(&another);
		rig_close(&another);
	}
	return NULL;
}

/* Most of its time is netlink's, whose library has locks of its own. */
static void *lister(void *unused)
{
	while (!atomic_load(&stop)) {
		struct ibv_device **list = ibv_get_device_list(NULL);

		CHECK(list);
		ibv_free_device_list(list);
	}
	return NULL;
}

static void *registrar(void *data)
{
	const struct traffic *traffic = data;

	while (!atomic_load(&stop)) {
		struct ibv_mr *mr = ibv_reg_mr(rig.pd, traffic->mr->addr, traffic->mr->length,
					       IBV_ACCESS_LOCAL_WRITE);

		CHECK(mr);
		CHECK(!ibv_dereg_mr(mr));
	}
	return NULL;
}

/* A child that is stuck, on a lock that nobody of its process holds, fails. */
static pid_t begin(void)
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0)
		rig_watchdog(20);
	return child;
}

static void end(pid_t child)
{
	int status;

	CHECK(waitpid(child, &status, 0) == child);
	if (WIFEXITED(status) && WEXITSTATUS(status))
		fprintf(stderr, "a child exited with %d\n", WEXITSTATUS(status));
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void child_that_exits(void)
{
	pid_t child = begin();

	if (child == 0)
		exit(0);
	end(child);
}

static void child_that_runs_another_program(void)
{
	pid_t child = begin();

	if (child == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	end(child);
}

/* What was open before the fork answers, with an error where it can. */
static void child_that_tries_what_it_inherited(struct ibv_qp *qp, struct ibv_cq *cq)
{
	pid_t child = begin();
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr init;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
	struct ibv_wc wc;

	if (child == 0) {
		CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
		CHECK(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
		ibv_post_send(qp, &wr, &bad);
		for (int i = 0; i < POLLS; i++) /* so often that it yields the core */
			CHECK(ibv_poll_cq(cq, 1, &wc) == 0);
		CHECK(ibv_destroy_qp(qp));
		exit(0);
	}
	end(child);
}

static _Noreturn void send_to_parent(int line)
{
	static atomic_bool child_stop;
	struct traffic traffic;
	struct rig own;
	pthread_t thread;

	rig_open(&own);
	traffic_open(&traffic, &own, line, &child_stop);
	CHECK(!pthread_create(&thread, NULL, traffic_run, &traffic));
	usleep(CHILD_MS * 1000);
	atomic_store(&child_stop, true);
	CHECK(!pthread_join(thread, NULL));
	CHECK(traffic.sent);
	traffic_close(&traffic);
	rig_close(&own);
	exit(0);
}

static void child_that_sends_to_the_parent(void)
{
	static atomic_bool parent_stop;
	struct traffic traffic;
	int line[2];
	pid_t child;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, line));
	child = begin();
	if (child == 0) {
		close(line[0]);
		send_to_parent(line[1]);
	}
	close(line[1]);
	traffic_open(&traffic, &rig, line[0], &parent_stop);
	atomic_store(&parent_stop, true); /* it mostly serves */
	traffic_run(&traffic);
	end(child);
	CHECK(traffic.received);
	traffic_close(&traffic);
	close(line[0]);
}

int main(void)
{
	pthread_t threads[2 * PAIRS + 3];
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	rig_watchdog(110);
	CHECK(!ibv_fork_init());
	rig_open(&rig);
	cq = ibv_create_cq(rig.context, 4, NULL, NULL, 0);
	CHECK(cq);
	qp = rig_qp(&rig, cq, cq, 4);
	rig_init(qp);
	rig_connect(&rig, qp, qp->qp_num);
	for (int i = 0; i < 2 * PAIRS; i += 2) {
		int line[2];

		CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, line));
		traffic_open(&ends[i], &rig, line[0], &stop);
		traffic_open(&ends[i + 1], &rig, line[1], &stop);
	}
	for (int i = 0; i < 2 * PAIRS; i++)
		CHECK(!pthread_create(&threads[i], NULL, traffic_run, &ends[i]));
	CHECK(!pthread_create(&threads[2 * PAIRS], NULL, opener, NULL));
	CHECK(!pthread_create(&threads[2 * PAIRS + 1], NULL, registrar, &ends[0]));
	CHECK(!pthread_create(&threads[2 * PAIRS + 2], NULL, lister, NULL));
	for (int i = 0; i < ROUNDS; i++) {
		for (int j = 0; j < EXITS; j++)
			child_that_exits();
		child_that_runs_another_program();
		child_that_tries_what_it_inherited(qp, cq);
		child_that_sends_to_the_parent();
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 2 * PAIRS + 3; i++)
		CHECK(!pthread_join(threads[i], NULL));
	for (int i = 0; i < 2 * PAIRS; i++)
		traffic_close(&ends[i]);
	CHECK(!ibv_destroy_qp(qp));
	CHECK(!ibv_destroy_cq(cq));
	rig_close(&rig);
	return 0;
}
