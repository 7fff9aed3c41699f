/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several processes on port 4791 of one address: steering, deaths, adoption, refusals. Each test
 * has a loopback address of its own, so that nothing else on the machine matters but the slots,
 * which all share.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/group.h"
#include "engine/steer.h"
#include "engine/meeting.h"
#include "engine/slot.h"
#include "engine/vault.h"
#include "explain/reason.h"
#include "link/udp.h"
#include "wire/headers.h"

enum { LANES = 2, PATIENCE_MS = 5000, MEMBERS = 16, NAP_S = 6 };

/* What a member tells the test. */
struct report {
	int error; /* of joining */
	enum reason reason;
	uint32_t slot, lane, qpn; /* of a packet that came in */
};

struct member {
	pid_t pid;
	int reports; /* read end */
	uint32_t slot;
};

static union ibv_gid address;
static int sender = -1;

static int each_test_has_its_address(void **state)
{
	static uint8_t number;
	uint8_t ip[4] = {127, 1 + getpid() % 200, 1 + getpid() / 200 % 250, ++number};

	memset(&address, 0, sizeof(address));
	address.raw[10] = address.raw[11] = 0xff;
	memcpy(address.raw + 12, ip, 4);
	sender = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return sender < 0;
}

static int close_sender(void **state)
{
	return close(sender);
}

static struct sockaddr_in port_4791(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(ROCE_PORT)};

	memcpy(&to.sin_addr, address.raw + 12, 4);
	return to;
}

static void send_to_qp(uint32_t qpn)
{
	struct sockaddr_in to = port_4791();
	uint8_t packet[BTH_BYTES + ICRC_BYTES] = {0};

	bth_pack(packet, &(struct bth){.dest_qp = qpn});
	assert_int_equal(
	    sendto(sender, packet, sizeof(packet), 0, (struct sockaddr *)&to, sizeof(to)),
	    sizeof(packet));
}

/* ---- the member processes ---- */

static void tell_packet(int out, struct report report, int fd)
{
	uint8_t packet[64];

	while (recv(fd, packet, sizeof(packet), MSG_DONTWAIT) >= BTH_BYTES) {
		report.qpn = bth_dest_qp(packet);
		if (write(out, &report, sizeof(report)) < 0)
			_exit(1);
	}
}

static void serve(int out, struct slot *slot, struct group_list *list, struct group *group)
{
	struct pollfd fds[1 + LANES] = {{.fd = slot->fd, .events = POLLIN}};
	static struct mail mail;

	for (int i = 0; i < LANES; i++)
		fds[1 + i] = (struct pollfd){.fd = group->fds[i], .events = POLLIN};
	for (;;) {
		if (poll(fds, 1 + LANES, -1) < 0)
			continue; /* it has had a nap */
		if (fds[0].revents && mail_receive(slot->fd, &mail) == 0) {
			group_answer(list, slot->fd, &mail);
			mail_close_fds(&mail);
		}
		for (uint32_t i = 0; i < LANES; i++)
			if (fds[1 + i].revents)
				tell_packet(out, (struct report){.slot = slot->number, .lane = i},
					    group->fds[i]);
	}
}

/* As if it got no core. */
static void nap(int signal)
{
	sleep(NAP_S);
}

static void member_main(int out)
{
	struct report report = {0};
	struct group_list list;
	struct group *group;
	struct slot slot;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGUSR1, nap);
	group_list_init(&list);
	report.error = slot_take(&slot);
	if (report.error == 0)
		report.error = group_join(&list, slot.number, &address, 0, LANES, &group);
	report.reason = reason_last(NULL);
	report.slot = slot.number;
	if (write(out, &report, sizeof(report)) < 0 || report.error)
		_exit(1);
	serve(out, &slot, &list, group);
	_exit(0);
}

static struct member member_start(void)
{
	struct member member = {0};
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	member.pid = fork();
	assert_true(member.pid >= 0);
	if (member.pid == 0) {
		close(ends[0]);
		member_main(ends[1]);
	}
	close(ends[1]);
	member.reports = ends[0];
	return member;
}

/* False when nothing was said in time. */
static bool heard(const struct member *member, struct report *report, int ms)
{
	struct pollfd readable = {.fd = member->reports, .events = POLLIN};

	return poll(&readable, 1, ms) > 0 &&
	       read(member->reports, report, sizeof(*report)) == sizeof(*report);
}

static void wait_for_joining(struct member *member)
{
	struct report report = {0};

	assert_true(heard(member, &report, 4 * PATIENCE_MS));
	assert_int_equal(report.error, 0);
	member->slot = report.slot;
}

static struct member member_joined(void)
{
	struct member member = member_start();

	wait_for_joining(&member);
	return member;
}

static void member_kill(struct member *member)
{
	kill(member->pid, SIGKILL);
	waitpid(member->pid, NULL, 0);
	close(member->reports);
}

/* Packets for both lanes of a member's QPs reach it, on the right sockets. */
static void assert_is_reached(const struct member *member)
{
	for (uint32_t lane = 0; lane < LANES; lane++) {
		uint32_t qpn = member->slot << QPN_SLOT_SHIFT | 0x40 | lane;
		struct report report = {0};

		send_to_qp(qpn);
		assert_true(heard(member, &report, PATIENCE_MS));
		assert_int_equal(report.qpn, qpn);
		assert_int_equal(report.slot, member->slot);
		assert_int_equal(report.lane, lane);
	}
}

/* ---- tests ---- */

static void packets_reach_the_slot_and_lane_of_their_qp(void **state)
{
	struct member members[4];

	for (int i = 0; i < 4; i++)
		members[i] = member_joined();
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < 4; i++)
			assert_is_reached(&members[i]);
	for (int i = 0; i < 4; i++)
		member_kill(&members[i]);
}

static void a_death_moves_nobody_and_a_newcomer_takes_the_place(void **state)
{
	struct member members[4], newcomer;
	struct report report = {0};

	for (int i = 0; i < 4; i++)
		members[i] = member_joined();
	for (int dead = 0; dead < 4; dead += 2) { /* the maker of the group too */
		member_kill(&members[dead]);
		for (int i = 0; i < 4; i++)
			if (i != dead)
				assert_is_reached(&members[i]);
		/* what is still sent to the dead one is not heard by the next in its slot */
		send_to_qp(members[dead].slot << QPN_SLOT_SHIFT | 0x40);
		newcomer = member_joined();
		if (newcomer.slot == members[dead].slot)
			assert_false(heard(&newcomer, &report, 50));
		members[dead] = newcomer;
		for (int i = 0; i < 4; i++)
			assert_is_reached(&members[i]);
	}
	for (int i = 0; i < 4; i++)
		member_kill(&members[i]);
}

static void the_last_one_out_frees_the_port(void **state)
{
	struct member one = member_joined(), two = member_joined();
	struct sockaddr_in to = port_4791();
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	member_kill(&one);
	assert_int_equal(bind(fd, (struct sockaddr *)&to, sizeof(to)), -1);
	assert_int_equal(errno, EADDRINUSE);
	member_kill(&two);
	assert_int_equal(bind(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	close(fd);
}

static void a_stopped_member_holds_up_nobody(void **state)
{
	struct member stopped = member_joined(), lives = member_joined(), newcomer;

	kill(stopped.pid, SIGSTOP);
	newcomer = member_joined();
	assert_is_reached(&newcomer);
	assert_is_reached(&lives);
	kill(stopped.pid, SIGCONT);
	assert_is_reached(&stopped);
	member_kill(&stopped);
	member_kill(&lives);
	member_kill(&newcomer);
}

static void who_is_only_slow_to_answer_is_waited_for(void **state)
{
	struct member before = member_joined(), slow = member_joined(), newcomer;

	member_kill(&before); /* its sockets stay, and no process has them */
	kill(slow.pid, SIGUSR1);
	newcomer = member_joined();
	assert_is_reached(&newcomer);
	assert_is_reached(&slow);
	member_kill(&newcomer);
	member_kill(&slow);
}

static void who_does_not_answer_and_ends_leaves_the_port(void **state)
{
	struct member stopped = member_joined(), newcomer;

	kill(stopped.pid, SIGSTOP);
	newcomer = member_start();
	usleep(4000000); /* within its last try */
	member_kill(&stopped);
	wait_for_joining(&newcomer);
	member_kill(&newcomer);
}

static void a_newcomer_is_told_when_nobody_answers(void **state)
{
	struct member stopped = member_joined(), newcomer;
	struct report report = {0};

	kill(stopped.pid, SIGSTOP);
	newcomer = member_start();
	assert_true(heard(&newcomer, &report, 4 * PATIENCE_MS));
	assert_int_equal(report.error, EADDRINUSE);
	assert_int_equal(report.reason, REASON_MEMBER_SILENT);
	member_kill(&newcomer);
	member_kill(&stopped);
}

/* A program that knows nothing of us and has bound the port. */
static void hold_port(int out)
{
	struct sockaddr_in to = port_4791();
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (bind(fd, (struct sockaddr *)&to, sizeof(to)) == 0 && write(out, "", 1) == 1)
		pause();
}

/* A process that says when it holds the port. */
static pid_t start(void (*hold)(int out))
{
	int ends[2];
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		hold(ends[1]);
		_exit(0);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &(char){0}, 1), 1);
	close(ends[0]);
	return pid;
}

static void a_foreign_program_on_the_port_is_named(void **state)
{
	pid_t foreigner = start(hold_port);
	struct group_list list;
	struct group *group;
	struct slot slot;
	const char *live;
	char pid[32];

	group_list_init(&list);
	assert_int_equal(slot_take(&slot), 0);
	assert_int_equal(group_join(&list, slot.number, &address, 0, LANES, &group), EADDRINUSE);
	assert_int_equal(reason_last(&live), REASON_PORT_HELD);
	snprintf(pid, sizeof(pid), "process %d ", foreigner);
	assert_non_null(strstr(live, pid));
	kill(foreigner, SIGKILL);
	waitpid(foreigner, NULL, 0);
	assert_int_equal(group_join(&list, slot.number, &address, 0, LANES, &group), 0);
	group_leave(&list, group);
	slot_release(&slot);
}

/* As of a process that dies and gets no core for it: in flight a socket is in nobody's table. */
static void hold_unseen(int out)
{
	int fd = udp_socket_bind(&address, 0, true);
	struct vault vault;

	if (fd < 0 || vault_create(&vault) < 0 || vault_put(&vault, 0, &fd, 1) < 0 || close(fd) < 0)
		return;
	if (write(out, "", 1) == 1)
		sleep(2);
}

static void a_port_that_nobody_is_seen_to_hold_is_waited_for(void **state)
{
	pid_t holder = start(hold_unseen);
	struct member newcomer = member_joined();

	assert_is_reached(&newcomer);
	waitpid(holder, NULL, 0);
	member_kill(&newcomer);
}

static void many_join_at_once(void **state)
{
	struct member members[MEMBERS];

	for (int i = 0; i < MEMBERS; i++)
		members[i] = member_start();
	for (int i = 0; i < MEMBERS; i++)
		wait_for_joining(&members[i]);
	for (int i = 0; i < MEMBERS; i++)
		for (int j = 0; j < i; j++)
			assert_int_not_equal(members[i].slot, members[j].slot);
	for (int i = 0; i < MEMBERS; i += 3)
		member_kill(&members[i]);
	for (int i = 0; i < MEMBERS; i++)
		if (i % 3)
			assert_is_reached(&members[i]);
	for (int i = 0; i < MEMBERS; i++)
		if (i % 3)
			member_kill(&members[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, each_test_has_its_address, close_sender)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(the_last_one_out_frees_the_port),
	    TEST(who_is_only_slow_to_answer_is_waited_for),
	    TEST(who_does_not_answer_and_ends_leaves_the_port),
	    TEST(a_newcomer_is_told_when_nobody_answers),
	    TEST(a_port_that_nobody_is_seen_to_hold_is_waited_for),
	    TEST(a_foreign_program_on_the_port_is_named),
	};
	const struct CMUnitTest steered[] = {
	    TEST(packets_reach_the_slot_and_lane_of_their_qp),
	    TEST(a_death_moves_nobody_and_a_newcomer_takes_the_place),
	    TEST(a_stopped_member_holds_up_nobody),
	    TEST(many_join_at_once),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	if (steer_is_wanted())
		failed += cmocka_run_group_tests(steered, NULL, NULL);
	else
		print_message("4 tests of the steering program are left out, as it is itself: "
			      "VERBATIM_STEERING=hash\n");
	return failed;
}
