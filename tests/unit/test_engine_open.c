/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine as a whole, below the verbs: devices opened in a network namespace of the test's own,
 * messages between two processes, changes of addresses and links, fork, exit, and that an idle
 * engine sleeps.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/meeting.h"
#include "engine_side.h"
#include "explain/reason.h"
#include "link/udp.h"
#include "wire/headers.h"
#include "wire/opcode.h"

enum { ROUNDS = 300 };

/* Waits until the count is more than it was. */
static bool grows(atomic_uint *count, unsigned int was)
{
	const struct timespec look = {.tv_nsec = 100000};
	uint64_t deadline = now_ms() + PATIENCE_MS;

	while (atomic_load(count) == was && now_ms() < deadline)
		nanosleep(&look, NULL);
	return atomic_load(count) != was;
}

static void run(const char *command)
{
	if (system(command) != 0)
		fail_msg("%s", command);
}

static void post_receive(struct side *side)
{
	struct ibv_sge sge = {(uintptr_t)side->buffer + SIZE, SIZE, side->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(qp_post_recv(side->qp, &wr, &bad), 0);
}

static void post_send(struct side *side, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)side->buffer, length, side->mr->lkey};
	struct ibv_send_wr wr = {
	    .sg_list = &sge,
	    .num_sge = 1,
	    .opcode = IBV_WR_SEND,
	    .send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	assert_int_equal(qp_post_send(side->qp, &wr, &bad), 0);
	engine_doorbell(side->qp);
}

/* One completion, by polling or by sleeping on the event. */
static void complete(struct side *side, enum ibv_wc_opcode *opcode)
{
	uint64_t deadline = now_ms() + PATIENCE_MS;
	struct ibv_wc wc;

	while (cq_poll(side->cq, 1, &wc) == 0) {
		assert_true(now_ms() < deadline);
		if (!side->sleeps) {
			engine_poll(side->cq);
			continue;
		}
		unsigned int before = atomic_load(&cq_events);

		cq_arm(side->cq, false);
		engine_will_sleep(side->cq->adapter, atomic_load(&side->cq->lanes));
		if (cq_poll(side->cq, 1, &wc))
			break;
		assert_true(grows(&cq_events, before));
	}
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	*opcode = wc.opcode;
}

static uint32_t length_of(int round)
{
	return (uint32_t)round * 61 % SIZE + 1;
}

/* What it sent the round before has arrived, or the peer would not have answered. */
static void send_round(struct side *side, int round)
{
	memset(side->buffer, round, length_of(round));
	post_send(side, length_of(round));
}

/*
 * Sends or receives first, by turns; each message is checked. A message may complete before the one
 * sent earlier: its ACK may come behind the peer's next message.
 */
static void ping_pong(struct side *side, bool starts)
{
	int sent = 0, received = 0, posted = 0;

	post_receive(side);
	if (starts)
		send_round(side, posted++);
	while (sent < ROUNDS || received < ROUNDS) {
		enum ibv_wc_opcode opcode;

		complete(side, &opcode);
		if (opcode == IBV_WC_SEND) {
			sent++;
			continue;
		}
		assert_int_equal(side->buffer[SIZE], (char)received);
		assert_int_equal(side->buffer[SIZE + length_of(received) - 1], (char)received);
		received++;
		post_receive(side);
		if (posted < ROUNDS)
			send_round(side, posted++);
	}
	assert_int_equal(sent, ROUNDS);
	assert_int_equal(received, ROUNDS);
}

/* Both are there. */
static void agree(int socket)
{
	char go = 0;

	assert_int_equal(write(socket, &go, 1), 1);
	assert_int_equal(read(socket, &go, 1), 1);
}

static void meet(struct side *side, int socket)
{
	assert_int_equal(write(socket, &side->self, sizeof(side->self)), sizeof(side->self));
	assert_int_equal(read(socket, &side->peer, sizeof(side->peer)), sizeof(side->peer));
	side_connect(side);
	agree(socket);
}

/* Twice: on a busy machine they may find to shared memory only while the first is under way. */
static void ping_pongs(struct side *side, int socket, bool starts, struct udp_counters *before)
{
	ping_pong(side, starts);
	agree(socket);
	engine_link_counters(before);
	agree(socket);
	ping_pong(side, starts);
}

static struct side side;
static uint64_t packets_by_udp; /* of the last ping_pong() of two_processes() */

/* The other process of a test; it ends with exit(), everything still open if `untidy`. */
static pid_t start_other(int socket, bool starts, bool sleeps, bool untidy)
{
	struct udp_counters before;
	pid_t pid = fork();

	if (pid)
		return pid;
	alarm(30);
	side_open(&side, IBV_QPT_RC);
	side.sleeps = sleeps;
	meet(&side, socket);
	ping_pongs(&side, socket, starts, &before);
	assert_int_equal(read(socket, &(char){0}, 1), 1); /* the peer has what it was owed */
	if (!untidy)
		side_close(&side);
	exit(0);
}

static void two_processes(bool sleeps, bool untidy)
{
	struct udp_counters before, after;
	int ends[2], status = -1;
	pid_t other;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	other = start_other(ends[1], true, sleeps, untidy);
	assert_true(other > 0);
	side_open(&side, IBV_QPT_RC);
	side.sleeps = sleeps;
	meet(&side, ends[0]);
	ping_pongs(&side, ends[0], false, &before);
	engine_link_counters(&after);
	packets_by_udp = after.sent_packets - before.sent_packets;
	assert_int_equal(write(ends[0], "", 1), 1);
	assert_int_equal(waitpid(other, &status, 0), other);
	assert_int_equal(status, 0);
	side_close(&side);
	close(ends[0]);
	close(ends[1]);
}

/* ---- tests ---- */

static void a_device_is_opened_once(void **state)
{
	struct adapter *first = open_device("lo"), *second = open_device("lo");
	union ibv_gid gid;

	assert_ptr_equal(first, second);
	assert_int_equal(port_gid(&first->port, 0, &gid), 0);
	assert_true(gid_is_ipv4(&gid));
	assert_int_equal(first->port.state, IBV_PORT_ACTIVE);
	engine_close(second);
	engine_close(first);
}

static void polling_processes_exchange_messages(void **state)
{
	two_processes(false, false);
}

static void sleeping_processes_exchange_messages(void **state)
{
	two_processes(true, false);
}

static void messages_within_the_host_take_shared_memory(void **state)
{
	two_processes(false, false);
	assert_int_equal(packets_by_udp, 0);
	two_processes(true, false);
	assert_int_equal(packets_by_udp, 0);
}

static void or_udp_where_that_is_off(void **state)
{
	setenv("VERBATIM_SAMEHOST", "off", 1);
	two_processes(false, false);
	assert_true(packets_by_udp >= 2 * ROUNDS);
	two_processes(true, false);
	unsetenv("VERBATIM_SAMEHOST");
}

static void a_process_may_exit_with_all_open(void **state)
{
	two_processes(false, true);
}

/* Opens, talks to itself, closes, again and again, beside others that do the same. */
static void *talk_to_oneself(void *data)
{
	struct side *self = calloc(1, sizeof(*self));
	enum ibv_wc_opcode opcode;

	for (int life = 0; life < 5; life++) {
		side_open(self, IBV_QPT_RC);
		self->sleeps = (life + *(int *)data) % 2;
		self->peer = self->self;
		side_connect(self);
		for (int round = 0; round < 40; round++) {
			post_receive(self);
			post_send(self, (uint32_t)round * 331 + 1);
			complete(self, &opcode);
			complete(self, &opcode);
		}
		side_close(self);
	}
	free(self);
	return NULL;
}

static void threads_share_the_lanes(void **state)
{
	enum { THREADS = 5 };
	pthread_t threads[THREADS];
	int numbers[THREADS];

	for (int i = 0; i < THREADS; i++) {
		numbers[i] = i;
		assert_int_equal(pthread_create(&threads[i], NULL, talk_to_oneself, &numbers[i]),
				 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void side_listen(struct side *s, uint32_t qkey)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey};

	assert_int_equal(
	    engine_modify_qp(s->qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
	    0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(engine_modify_qp(s->qp, &attr, IBV_QP_STATE), 0);
}

/* A datagram as another process has read it from a socket of its own, by a mistake of the steering.
 */
static void pass_on(const struct contact *to, uint32_t qkey)
{
	uint8_t bytes[BTH_BYTES + DETH_BYTES + 8] = {0};
	struct packet packet = {
	    .bth = bytes,
	    .length = sizeof(bytes),
	    .sgid = to->gid,
	    .dgid = to->gid,
	    .hop_limit = 64,
	};
	struct mail_address owner;
	int fd = mail_open();

	bth_pack(bytes, &(struct bth){.opcode = TRANSPORT_UD | OP_SEND_ONLY,
				      .pkey = PKEY_DEFAULT,
				      .migreq = true,
				      .dest_qp = to->qpn});
	deth_pack(bytes + BTH_BYTES, &(struct deth){.qkey = qkey, .src_qp = 77});
	memcpy(bytes + BTH_BYTES + DETH_BYTES, "passedon", 8); /* NOLINT: no string */
	mail_address_of_slot(to->qpn >> QPN_SLOT_SHIFT, &owner);
	assert_int_equal(meeting_forward(fd, &owner, &to->gid, 0, &packet, true), 0);
	close(fd);
}

static void a_packet_that_another_process_passes_on_arrives(void **state)
{
	enum { QKEY = 0x1234 };
	enum ibv_wc_opcode opcode;
	int status = -1;
	pid_t other;

	side_open(&side, IBV_QPT_UD);
	side_listen(&side, QKEY);
	side.sleeps = true;
	post_receive(&side);
	other = fork();
	if (other == 0) {
		pass_on(&side.self, QKEY);
		_exit(0);
	}
	complete(&side, &opcode);
	assert_int_equal(opcode, IBV_WC_RECV);
	assert_memory_equal(side.buffer + SIZE + GRH_SIZE, "passedon", 8);
	assert_int_equal(waitpid(other, &status, 0), other);
	side_close(&side);
}

static void changes_of_the_interface_reach_the_port(void **state)
{
	struct adapter *adapter = open_device("va");
	unsigned int changes = atomic_load(&gid_changes);
	union ibv_gid gid;

	run("ip addr add 192.0.2.9/24 dev va");
	assert_true(grows(&gid_changes, changes));
	assert_int_equal(port_gid(&adapter->port, 1, &gid), 0);
	assert_int_equal(gid.raw[15], 9);
	changes = atomic_load(&gid_changes);
	run("ip addr del 192.0.2.9/24 dev va");
	assert_true(grows(&gid_changes, changes));
	assert_int_equal(port_gid(&adapter->port, 1, &gid), -ENOENT);
	assert_int_equal(port_gid(&adapter->port, 0, &gid), 0);

	run("ip link set vb down");
	assert_true(grows(&port_errors, 0));
	run("ip link set vb up");
	assert_true(grows(&port_actives, 0));
	engine_close(adapter);
}

static void a_child_of_fork_starts_anew(void **state)
{
	int status = -1;
	pid_t child;

	side_open(&side, IBV_QPT_RC);
	child = fork();
	if (child == 0) {
		struct ibv_qp_attr attr = {0};
		struct ibv_qp_init_attr init;
		struct adapter *adapter;
		bool fine;

		alarm(20);
		fine = engine_query_qp(side.qp, &attr, &init) == EIO &&
		       reason_last(NULL) == REASON_FORKED;
		engine_doorbell(side.qp);
		fine &= !engine_poll(side.cq);
		engine_will_sleep(side.cq->adapter, atomic_load(&side.cq->lanes));
		fine &= engine_destroy_qp(side.qp) == EIO;
		engine_close(side.adapter);
		adapter = open_device("lo");
		fine &= adapter != side.adapter && adapter->slot != side.adapter->slot;
		engine_close(adapter);
		exit(fine ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	side_close(&side);
}

/* All descriptors beyond the first three. */
static int count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void closing_gives_everything_back(void **state)
{
	int before = count_descriptors();

	side_open(&side, IBV_QPT_UD);
	assert_true(count_descriptors() > before);
	side_close(&side);
	assert_int_equal(count_descriptors(), before);
}

static void an_idle_engine_sleeps(void **state)
{
	unsigned long before;
	int tries = 8;

	side_open(&side, IBV_QPT_RC);
	for (int i = 0; i < 1000; i++) /* a poller that stops polling */
		engine_poll(side.cq);
	do { /* on a busy machine threads may not have got to sleep yet */
		before = wakeups();
		poll(NULL, 0, 1000);
	} while (wakeups() != before && --tries);
	assert_int_not_equal(tries, 0);
	side_close(&side);
}

/* A child whose assertion failed has jumped back into the list of tests: it ends there. */
static int only_the_parent_goes_on(void **state)
{
	static pid_t parent;

	if (!parent)
		parent = getpid();
	if (getpid() != parent)
		_exit(1);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, only_the_parent_goes_on)
	    TEST(a_device_is_opened_once),
	    TEST(polling_processes_exchange_messages),
	    TEST(sleeping_processes_exchange_messages),
	    TEST(messages_within_the_host_take_shared_memory),
	    TEST(or_udp_where_that_is_off),
	    TEST(a_process_may_exit_with_all_open),
	    TEST(threads_share_the_lanes),
	    TEST(a_packet_that_another_process_passes_on_arrives),
	    TEST(changes_of_the_interface_reach_the_port),
	    TEST(a_child_of_fork_starts_anew),
	    TEST(closing_gives_everything_back),
	    TEST(an_idle_engine_sleeps),
	};

	if (!own_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, surroundings, NULL);
}
