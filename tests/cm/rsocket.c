/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rsocket calls, one by one: what each does, and each error that <rdma/rsocket.h> tells of and
 * that can be had within one process.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>

#include "own_network.h"
#include "refused.h"

enum { NOWAIT = MSG_DONTWAIT, SOME_MS = 2000 };

static uint16_t next_port = 7300;
static int listener, a, b; /* a stream's ends */

static struct sockaddr_in at(uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

	inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
	return address;
}

static int network(void **state)
{
	return interface_up("lo");
}

static int make_stream(void **state)
{
	struct sockaddr_in address = at(next_port++);

	listener = rsocket(AF_INET, SOCK_STREAM, 0);
	a = rsocket(AF_INET, SOCK_STREAM, 0);
	if (rbind(listener, (struct sockaddr *)&address, sizeof(address)) || rlisten(listener, 4) ||
	    rconnect(a, (struct sockaddr *)&address, sizeof(address)))
		return -1;
	b = raccept(listener, NULL, NULL);
	return b < 0;
}

static int end_stream(void **state)
{
	return rclose(a) | rclose(b) | rclose(listener);
}

static void carries(int from, int to)
{
	char word[] = "a word", got[sizeof(word)] = "";

	assert_int_equal(rsend(from, word, sizeof(word), 0), sizeof(word));
	assert_int_equal(rrecv(to, got, sizeof(got), MSG_WAITALL), sizeof(got));
	assert_string_equal(got, word);
}

/* ---- names ---- */

static void each_end_knows_its_own_address_and_the_peers(void **state)
{
	struct sockaddr_in own, peer;
	socklen_t length = sizeof(own);
	char little[4];

	assert_int_equal(rgetsockname(a, (struct sockaddr *)&own, &length), 0);
	assert_int_equal(length, sizeof(own));
	assert_int_equal(rgetpeername(b, (struct sockaddr *)&peer, &length), 0);
	assert_memory_equal(&own.sin_addr, &peer.sin_addr, sizeof(own.sin_addr));
	assert_int_equal(own.sin_port, peer.sin_port);
	assert_int_equal(rgetpeername(a, (struct sockaddr *)&peer, &length), 0);
	assert_int_equal(ntohs(peer.sin_port), next_port - 1);
	length = sizeof(little);
	assert_int_equal(rgetpeername(a, (struct sockaddr *)little, &length), 0);
	assert_int_equal(length, sizeof(peer));
	assert_memory_equal(little, &peer, sizeof(little));
	refused(rgetpeername(a, NULL, &length), EFAULT);
	refused(rgetsockname(a, (struct sockaddr *)&own, NULL), EFAULT);
	length = sizeof(own);
	refused(rgetpeername(listener, (struct sockaddr *)&peer, &length), ENOTCONN);
}

static void binding_and_listening_refuse_what_makes_no_sense(void **state)
{
	struct sockaddr_in taken = at((uint16_t)(next_port - 1)), nowhere = at(1), other = at(0);
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), datagrams = rsocket(AF_INET, SOCK_DGRAM, 0);

	inet_pton(AF_INET, "203.0.113.7", &nowhere.sin_addr);
	refused(rbind(fd, NULL, 0), EINVAL);
	refused(rbind(fd, (struct sockaddr *)&taken, 3), EINVAL);
	refused(rbind(fd, (struct sockaddr *)&taken, sizeof(taken)), EADDRINUSE);
	refused(rbind(fd, (struct sockaddr *)&nowhere, sizeof(nowhere)), ENODEV);
	assert_int_equal(rbind(fd, (struct sockaddr *)&other, sizeof(other)), 0);
	refused(rbind(fd, (struct sockaddr *)&other, sizeof(other)), EINVAL);
	refused(rlisten(datagrams, 1), EOPNOTSUPP);
	refused(rlisten(a, 1), EINVAL);
	refused(raccept(fd, NULL, NULL), EINVAL);
	refused(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
	refused(rsocket(AF_INET, SOCK_DGRAM, IPPROTO_TCP), EPROTONOSUPPORT);
	assert_int_equal(rclose(fd), 0);
	assert_int_equal(rclose(datagrams), 0);
	refused(rclose(fd), EBADF);
}

static void a_descriptor_that_is_none(void **state)
{
	struct sockaddr_in to = at(7298);
	int fd = rsocket(AF_INET, SOCK_DGRAM, 0);
	struct pollfd polled = {.fd = fd, .events = POLLIN};
	struct iovec piece = {.iov_base = "x", .iov_len = 1};
	struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
	char byte;

	assert_int_equal(rclose(fd), 0);
	refused(rsend(fd, "x", 1, 0), EBADF);
	refused(rsendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)), EBADF);
	refused(rsendmsg(fd, &message, 0), EBADF);
	refused(rrecv(fd, &byte, 1, 0), EBADF);
	refused(rrecvfrom(fd, &byte, 1, 0, NULL, NULL), EBADF);
	assert_int_equal(rpoll(&polled, 1, 0), 1);
	assert_int_equal(polled.revents, POLLNVAL);
}

static void connecting_says_why_it_does_not(void **state)
{
	struct sockaddr_in nobody = at(7299), listening = at((uint16_t)(next_port - 1));
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), error = -1;
	struct pollfd writable = {.events = POLLOUT};
	socklen_t length = sizeof(error);

	refused(rconnect(fd, NULL, 0), EINVAL);
	refused(rconnect(fd, (struct sockaddr *)&nobody, 2), EINVAL);
	refused(rconnect(fd, (struct sockaddr *)&nobody, sizeof(nobody)), ECONNREFUSED);
	assert_int_equal(rclose(fd), 0);
	refused(rconnect(a, (struct sockaddr *)&nobody, sizeof(nobody)), EISCONN);

	fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (rconnect(fd, (struct sockaddr *)&listening, sizeof(listening))) /* it may be quick */
		assert_int_equal(errno, EINPROGRESS);
	writable.fd = fd;
	assert_int_equal(rpoll(&writable, 1, SOME_MS), 1);
	assert_int_equal(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length), 0);
	assert_int_equal(error, 0);
	assert_int_equal(rclose(fd), 0);
	assert_int_equal(rclose(raccept(listener, NULL, NULL)), 0);
}

static void accepting_gives_the_peers_address_or_eagain(void **state)
{
	struct sockaddr_in address = at((uint16_t)(next_port - 1)), own = {0}, peer = {0};
	socklen_t length = sizeof(peer);
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), accepted;

	assert_int_equal(rfcntl(listener, F_SETFL, O_NONBLOCK), 0);
	refused(raccept(listener, NULL, NULL), EAGAIN);
	assert_int_equal(rconnect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(rfcntl(listener, F_SETFL, 0), 0);
	accepted = raccept(listener, (struct sockaddr *)&peer, &length);
	assert_true(accepted >= 0);
	assert_int_equal(length, sizeof(peer));
	assert_int_equal(rgetsockname(fd, (struct sockaddr *)&own, &length), 0);
	assert_int_equal(peer.sin_port, own.sin_port);
	assert_int_equal(rclose(accepted) | rclose(fd), 0);
}

/* ---- data ---- */

static void every_call_that_sends_and_receives_does(void **state)
{
	char one[4] = "one", two[4] = "two", first[4], second[4];
	struct iovec out[2] = {{one, 4}, {two, 4}}, in[2] = {{first, 4}, {second, 4}};
	struct msghdr sent = {.msg_iov = out, .msg_iovlen = 2};
	struct msghdr got = {.msg_iov = in, .msg_iovlen = 2};
	struct sockaddr_in from;
	socklen_t length = sizeof(from);

	assert_int_equal(rwrite(a, one, 4), 4);
	assert_int_equal(rread(b, first, 4), 4);
	assert_string_equal(first, "one");
	assert_int_equal(rwritev(a, out, 2), 8);
	assert_int_equal(rreadv(b, in, 2), 8);
	assert_string_equal(second, "two");
	memset(second, 0, sizeof(second));
	assert_int_equal(rsendmsg(a, &sent, 0), 8);
	assert_int_equal(rrecvmsg(b, &got, MSG_WAITALL), 8);
	assert_string_equal(second, "two");
	assert_int_equal(rsendto(a, two, 4, 0, NULL, 0), 4);
	assert_int_equal(rrecvfrom(b, first, 4, 0, (struct sockaddr *)&from, &length), 4);
	assert_string_equal(first, "two");
	sent.msg_control = first;
	sent.msg_controllen = sizeof(first);
	refused(rsendmsg(a, &sent, 0), EOPNOTSUPP);
}

static void what_is_peeked_at_stays_and_what_is_not_there_is_eagain(void **state)
{
	char word[8] = "";

	refused(rrecv(b, word, sizeof(word), NOWAIT), EAGAIN);
	assert_int_equal(rsend(a, "word", 5, 0), 5);
	assert_int_equal(rrecv(b, word, sizeof(word), MSG_PEEK), 5);
	memset(word, 0, sizeof(word));
	assert_int_equal(rrecv(b, word, sizeof(word), 0), 5);
	assert_string_equal(word, "word");
	refused(rread(rsocket(AF_INET, SOCK_STREAM, 0), word, 1), ENOTCONN);
	refused(rwrite(rsocket(AF_INET, SOCK_STREAM, 0), word, 1), ENOTCONN);
}

/* As with rdma-core: there is one stream, and urgent data stands in it. */
static void urgent_data_is_data(void **state)
{
	char word[8] = "";
	int on = 1;

	assert_int_equal(rsetsockopt(b, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on)), 0);
	assert_int_equal(rsend(a, "ab", 2, 0), 2);
	assert_int_equal(rsend(a, "!", 1, MSG_OOB), 1);
	assert_int_equal(rsend(a, "cd", 3, 0), 3);
	assert_int_equal(rrecv(b, word, 6, MSG_WAITALL), 6);
	assert_string_equal(word, "ab!cd");
}

static void shutting_down_ends_one_direction_or_both(void **state)
{
	struct pollfd ended = {.fd = b, .events = POLLIN};
	char byte;

	refused(rshutdown(a, 17), EINVAL);
	refused(rshutdown(listener, SHUT_RDWR), ENOTCONN);
	assert_int_equal(rsend(a, "x", 1, 0), 1);
	assert_int_equal(rshutdown(a, SHUT_WR), 0);
	refused(rsend(a, "y", 1, 0), EPIPE);
	assert_int_equal(rrecv(b, &byte, 1, 0), 1);
	assert_int_equal(rpoll(&ended, 1, SOME_MS), 1);
	assert_int_equal(rrecv(b, &byte, 1, 0), 0);
	carries(b, a);
	assert_int_equal(rshutdown(b, SHUT_RDWR), 0);
	assert_int_equal(rrecv(a, &byte, 1, 0), 0);
}

static void a_full_pipe_is_eagain_and_empties(void **state)
{
	static char piece[1 << 16];
	struct pollfd writable = {.fd = a, .events = POLLOUT};
	size_t sent = 0, got = 0;
	ssize_t length;

	while ((length = rsend(a, piece, sizeof(piece), NOWAIT)) > 0)
		sent += (size_t)length;
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(rpoll(&writable, 1, 0), 0);
	while (got < sent) {
		length = rrecv(b, piece, sizeof(piece), 0);
		assert_true(length > 0);
		got += (size_t)length;
	}
	assert_int_equal(rpoll(&writable, 1, SOME_MS), 1);
	carries(a, b);
}

/* ---- waiting ---- */

static void select_waits_for_rsockets_and_others(void **state)
{
	struct timeval none = {0}, some = {.tv_sec = 2};
	int top = (a > b ? a : b) + 1, ends[2];
	fd_set readable, writable;

	refused(rselect(-1, NULL, NULL, NULL, &none), EINVAL);
	assert_int_equal(pipe(ends), 0);
	top = ends[0] >= top ? ends[0] + 1 : top;
	FD_ZERO(&readable);
	FD_ZERO(&writable);
	FD_SET(b, &readable);
	FD_SET(ends[0], &readable);
	assert_int_equal(rselect(top, &readable, NULL, NULL, &none), 0);
	FD_SET(b, &readable);
	FD_SET(ends[0], &readable);
	FD_SET(a, &writable);
	assert_int_equal(rsend(a, "x", 1, 0), 1);
	assert_int_equal(write(ends[1], "x", 1), 1);
	while (rselect(top, &readable, NULL, NULL, &some) < 2) {
		FD_SET(b, &readable);
		FD_SET(ends[0], &readable);
	}
	assert_true(FD_ISSET(b, &readable) && FD_ISSET(ends[0], &readable));
	assert_int_equal(rselect(top, NULL, &writable, NULL, &some), 1);
	assert_true(FD_ISSET(a, &writable));
	close(ends[0]);
	close(ends[1]);
}

static void a_set_is_waited_for_as_epoll_does(void **state)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = 77}, got = {0};
	int set = repoll_create(0);

	refused(repoll_create(12345), EINVAL);
	assert_true(set >= 0);
	refused(repoll_ctl(set, EPOLL_CTL_MOD, b, &event), ENOENT);
	refused(repoll_ctl(set, EPOLL_CTL_DEL, b, NULL), ENOENT);
	refused(repoll_ctl(set, EPOLL_CTL_ADD, b, NULL), EFAULT);
	refused(repoll_ctl(set, 99, b, &event), EINVAL);
	assert_int_equal(repoll_ctl(set, EPOLL_CTL_ADD, b, &event), 0);
	refused(repoll_ctl(set, EPOLL_CTL_ADD, b, &event), EEXIST);
	refused(repoll_wait(set, &got, 0, 0), EINVAL);
	refused(repoll_wait(set, NULL, 1, 0), EINVAL);
	assert_int_equal(repoll_wait(set, &got, 1, 0), 0);
	assert_int_equal(rsend(a, "x", 1, 0), 1);
	assert_int_equal(repoll_wait(set, &got, 1, SOME_MS), 1);
	assert_int_equal(got.data.u64, 77);
	assert_true(got.events & EPOLLIN);
	event.events = EPOLLOUT;
	assert_int_equal(repoll_ctl(set, EPOLL_CTL_MOD, b, &event), 0);
	assert_int_equal(repoll_wait(set, &got, 1, SOME_MS), 1);
	assert_int_equal(got.events & (EPOLLIN | EPOLLOUT), EPOLLOUT);
	assert_int_equal(repoll_ctl(set, EPOLL_CTL_DEL, b, NULL), 0);
	assert_int_equal(repoll_wait(set, &got, 1, 0), 0);
	assert_int_equal(rclose(set), 0);
	refused(repoll_wait(set, &got, 1, 0), EBADF);
}

/* ---- options ---- */

static int option(int fd, int level, int name)
{
	socklen_t length = sizeof(int);
	int value = -1;

	assert_int_equal(rgetsockopt(fd, level, name, &value, &length), 0);
	return value;
}

static void options_are_set_and_told(void **state)
{
	static const struct {
		int level, name, value;
	} options[] = {
	    {SOL_SOCKET, SO_REUSEADDR, 1},   {SOL_SOCKET, SO_RCVBUF, 65536},
	    {SOL_SOCKET, SO_SNDBUF, 131072}, {SOL_SOCKET, SO_KEEPALIVE, 1},
	    {SOL_SOCKET, SO_OOBINLINE, 1},   {IPPROTO_TCP, TCP_NODELAY, 1},
	    {IPPROTO_TCP, TCP_KEEPIDLE, 30}, {SOL_RDMA, RDMA_SQSIZE, 64},
	    {SOL_RDMA, RDMA_RQSIZE, 64},     {SOL_RDMA, RDMA_INLINE, 32},
	    {SOL_RDMA, RDMA_IOMAPSIZE, 8},
	};
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), value = -5, on = 1;
	socklen_t length = sizeof(value);

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		assert_int_equal(rsetsockopt(fd, options[i].level, options[i].name,
					     &options[i].value, sizeof(int)),
				 0);
		if (option(fd, options[i].level, options[i].name) != options[i].value)
			fail_msg("option %d of level %d", options[i].name, options[i].level);
	}
	assert_int_equal(option(fd, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
	assert_int_equal(option(fd, SOL_SOCKET, SO_DOMAIN), AF_INET);
	assert_int_equal(option(listener, SOL_SOCKET, SO_ACCEPTCONN), 1);
	refused(rsetsockopt(fd, SOL_SOCKET, 9999, &on, sizeof(on)), ENOPROTOOPT);
	refused(rsetsockopt(fd, 9999, SO_REUSEADDR, &on, sizeof(on)), ENOPROTOOPT);
	refused(rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, NULL, sizeof(on)), EFAULT);
	refused(rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, 1), EINVAL);
	refused(rsetsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, sizeof(value)), EINVAL);
	refused(rsetsockopt(a, SOL_RDMA, RDMA_SQSIZE, &on, sizeof(on)), EINVAL);
	refused(rgetsockopt(fd, SOL_SOCKET, 9999, &value, &length), ENOPROTOOPT);
	refused(rgetsockopt(fd, SOL_SOCKET, SO_TYPE, NULL, &length), EFAULT);
	assert_int_equal(rclose(fd), 0);
}

static void flags_are_set_and_told(void **state)
{
	assert_int_equal(rfcntl(a, F_GETFL) & O_NONBLOCK, 0);
	assert_int_equal(rfcntl(a, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(rfcntl(a, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	assert_int_equal(rfcntl(a, F_SETFD, FD_CLOEXEC), 0);
	assert_int_equal(rfcntl(a, F_GETFD), FD_CLOEXEC);
	refused(rfcntl(a, F_SETOWN, 1), ENOTSUP);
}

/* ---- mapped memory ---- */

static void mapped_memory_is_written_in_place(void **state)
{
	static char memory[4096];
	struct sockaddr_in address = at(next_port++);
	int maps = 2, one = rsocket(AF_INET, SOCK_STREAM, 0), two;
	int waiting = rsocket(AF_INET, SOCK_STREAM, 0);
	off_t offset;

	assert_int_equal(rsetsockopt(one, SOL_RDMA, RDMA_IOMAPSIZE, &maps, sizeof(maps)), 0);
	assert_int_equal(rsetsockopt(waiting, SOL_RDMA, RDMA_IOMAPSIZE, &maps, sizeof(maps)), 0);
	refused(riomap(one, memory, sizeof(memory), PROT_WRITE, 0, -1), EINVAL);
	refused((ssize_t)riowrite(one, "x", 1, 0, 0), ENOTCONN);
	assert_int_equal(rbind(waiting, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(rlisten(waiting, 1), 0);
	assert_int_equal(rconnect(one, (struct sockaddr *)&address, sizeof(address)), 0);
	two = raccept(waiting, NULL, NULL);
	refused(riomap(two, NULL, 10, PROT_WRITE, 0, -1), EINVAL);
	refused(riomap(two, memory, sizeof(memory), 99, 0, -1), EINVAL);
	offset = riomap(two, memory, sizeof(memory), PROT_WRITE, 0, 1234);
	assert_int_equal(offset, 1234);
	carries(two, one); /* the mapping goes in front of it */
	assert_int_equal(riowrite(one, "in place", 9, offset + 100, 0), 9);
	refused((ssize_t)riowrite(one, "x", 1, 99999999, 0), EINVAL);
	carries(one, two);
	assert_string_equal(memory + 100, "in place");
	refused(riounmap(two, memory + 1, 7), EINVAL);
	assert_int_equal(riounmap(two, memory, sizeof(memory)), 0);
	assert_int_equal(rclose(one) | rclose(two) | rclose(waiting), 0);
}

/* ---- datagrams ---- */

static void datagrams_go_to_whom_they_are_sent(void **state)
{
	struct sockaddr_in here = at(next_port++), there = at(next_port++), from = {0};
	int one = rsocket(AF_INET, SOCK_DGRAM, 0), two = rsocket(AF_INET, SOCK_DGRAM, 0);
	struct iovec several[2] = {{"a", 1}, {"b", 1}};
	struct msghdr message = {.msg_iov = several, .msg_iovlen = 2};
	struct pollfd readable = {.fd = two, .events = POLLIN};
	socklen_t length = sizeof(from);
	char got[8] = "";

	assert_int_equal(rbind(one, (struct sockaddr *)&here, sizeof(here)), 0);
	assert_int_equal(rbind(two, (struct sockaddr *)&there, sizeof(there)), 0);
	refused(rsend(one, "x", 1, 0), EDESTADDRREQ);
	refused(rrecv(two, got, sizeof(got), NOWAIT), EAGAIN);
	assert_int_equal(rsendto(one, "far", 4, 0, (struct sockaddr *)&there, sizeof(there)), 4);
	assert_int_equal(rpoll(&readable, 1, SOME_MS), 1);
	assert_int_equal(rrecvfrom(two, got, sizeof(got), 0, (struct sockaddr *)&from, &length), 4);
	assert_string_equal(got, "far");
	assert_int_equal(from.sin_port, here.sin_port);
	assert_int_equal(rconnect(one, (struct sockaddr *)&there, sizeof(there)), 0);
	assert_int_equal(rsend(one, "again", 6, 0), 6);
	assert_int_equal(rrecv(two, got, 2, 0), 2); /* the rest is cut off */
	refused(rsendmsg(one, &message, 0), EMSGSIZE);
	refused(rrecvmsg(two, &message, NOWAIT), ENOSYS);
	assert_int_equal(rclose(one) | rclose(two), 0);
}

#define STREAM(test) cmocka_unit_test_setup_teardown(test, make_stream, end_stream)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    STREAM(each_end_knows_its_own_address_and_the_peers),
	    STREAM(binding_and_listening_refuse_what_makes_no_sense),
	    cmocka_unit_test(a_descriptor_that_is_none),
	    STREAM(connecting_says_why_it_does_not),
	    STREAM(accepting_gives_the_peers_address_or_eagain),
	    STREAM(every_call_that_sends_and_receives_does),
	    STREAM(what_is_peeked_at_stays_and_what_is_not_there_is_eagain),
	    STREAM(urgent_data_is_data),
	    STREAM(shutting_down_ends_one_direction_or_both),
	    STREAM(a_full_pipe_is_eagain_and_empties),
	    STREAM(select_waits_for_rsockets_and_others),
	    STREAM(a_set_is_waited_for_as_epoll_does),
	    STREAM(options_are_set_and_told),
	    STREAM(flags_are_set_and_told),
	    cmocka_unit_test(mapped_memory_is_written_in_place),
	    cmocka_unit_test(datagrams_go_to_whom_they_are_sent),
	};

	if (!own_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, network, NULL);
}
