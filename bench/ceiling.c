/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ceiling memcpy|hop|udp-bw|udp-icrc-bw|udp-lat|udp-rate [PAYLOAD [ADDRESS ADDRESS NETNS]]: what
 * this machine can do at best, measured in the same run as the library, which is then judged by the
 * ratio. One number on stdout: bytes a second for memcpy and the bandwidths, nanoseconds one way
 * for hop and udp-lat, packets a second for udp-rate. UDP goes over loopback, or from the first
 * IPv4 address to the second, whose socket is made in the named network namespace; the sender is
 * then to be run in the namespace of the first.
 *
 * hop is a word bounced between two cores through shared memory: on a virtual machine the cores
 * move, and results are only comparable while this stays the same. udp-bw sends what a RoCE sender
 * must (a header of 12 bytes, the payload, 4 bytes of check sum, as many segments in a call as fit)
 * and receives as a RoCE receiver must (merged segments, each payload copied to its place), without
 * the check sum and with an acknowledgement that costs nothing, a counter in shared memory.
 * udp-icrc-bw has the check sum as well, computed at both ends: of the masked headers, 48 bytes,
 * and of what follows. udp-rate sends packets one by one, each by a call of its own.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <isa-l/crc.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#define UDP_GRO	    104
#endif

enum {
	RUN_NS = 300 * 1000 * 1000, /* how long a measurement lasts */
	STALL_NS = 2 * 1000 * 1000, /* after which packets on the way count as lost */
	HEADER_BYTES = 12,
	TRAILER_BYTES = 4,
	DATAGRAM_MAX = 65507,
	SEGMENTS_MAX = 64,
	BUFFER_BYTES = 4 << 20,
	PLACE_BYTES = 1 << 20, /* the memory region that payloads are placed in */
	SAMPLES = 1 << 16,
};

/* What the two processes of a measurement share, each word on a cache line of its own. */
struct shared {
	_Alignas(128) atomic_ulong ping;
	_Alignas(128) atomic_ulong pong;
	_Alignas(128) atomic_ulong received; /* bytes of payload */
};

static struct shared *shared;
static pid_t child;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* Start the other side. Returns in the parent; the child ends with it. */
static void start(void (*side)(const void *), const void *argument)
{
	child = fork();
	if (child < 0)
		fail("fork");
	if (child)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	side(argument);
	_exit(0);
}

static void stop(void)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* The median of round trips, one way. */
static double one_way(uint32_t *samples, size_t count)
{
	qsort(samples, count, sizeof(*samples), compare);
	return samples[count / 2] / 2.0; /* NOLINT: of the middle one */
}

static double measure_memcpy(size_t bytes)
{
	char *from = aligned_alloc(4096, bytes), *to = aligned_alloc(4096, bytes);
	uint64_t begin, elapsed, copied = 0;

	if (!from || !to)
		fail("aligned_alloc");
	memset(from, 1, bytes);
	memset(to, 2, bytes);
	begin = now_ns();
	do {
		for (int i = 0; i < 16; i++) {
			memcpy(to, from, bytes);
			__asm__ volatile("" : : "r"(to) : "memory");
		}
		copied += 16 * bytes;
		elapsed = now_ns() - begin;
	} while (elapsed < RUN_NS);
	return copied * 1e9 / elapsed;
}

static void hop_side(const void *nothing)
{
	unsigned long turn = 0;

	(void)nothing;
	for (;;) {
		while (atomic_load_explicit(&shared->ping, memory_order_acquire) == turn)
			;
		atomic_store_explicit(&shared->pong, ++turn, memory_order_release);
	}
}

static double measure_hop(void)
{
	static uint32_t samples[SAMPLES];
	uint64_t begin = now_ns(), then = begin, now;
	size_t count = 0;

	start(hop_side, NULL);
	/* 100 round trips a sample: the clock costs as much as a hop */
	for (unsigned long turn = 1; count < SAMPLES && then - begin < RUN_NS / 6; turn++) {
		atomic_store_explicit(&shared->ping, turn, memory_order_release);
		while (atomic_load_explicit(&shared->pong, memory_order_acquire) != turn)
			;
		if (turn % 100 == 0) {
			now = now_ns();
			samples[count++] = now - then;
			then = now;
		}
	}
	stop();
	return one_way(samples, count) / 100;
}

struct udp_test {
	const char *addresses[2];
	const char *netns; /* of the second; NULL: this one */
	int sockets[2];
	size_t payload;
	bool has_icrc;
};

static void enter(const char *netns)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", netns);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		fail(path);
	close(fd);
}

/* Two UDP sockets, each connected to the other. */
static void make_sockets(struct udp_test *test)
{
	struct sockaddr_in at[2];
	socklen_t length = sizeof(at[0]);
	int bytes = BUFFER_BYTES, *sockets = test->sockets;

	for (int i = 0; i < 2; i++) {
		if (i && test->netns)
			enter(test->netns);
		at[i] = (struct sockaddr_in){.sin_family = AF_INET};
		if (inet_pton(AF_INET, test->addresses[i], &at[i].sin_addr) != 1)
			fail(test->addresses[i]);
		sockets[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (sockets[i] < 0 || bind(sockets[i], (struct sockaddr *)&at[i], length) ||
		    getsockname(sockets[i], (struct sockaddr *)&at[i], &length))
			fail("socket");
		setsockopt(sockets[i], SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
		setsockopt(sockets[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	}
	for (int i = 0; i < 2; i++)
		if (connect(sockets[i], (struct sockaddr *)&at[1 - i], length))
			fail("connect");
}

static void echo_side(const void *argument)
{
	const struct udp_test *test = argument;
	char packet[DATAGRAM_MAX];

	for (;;) {
		ssize_t n = recv(test->sockets[1], packet, sizeof(packet), MSG_DONTWAIT);

		if (n > 0)
			send(test->sockets[1], packet, n, 0);
	}
}

static double measure_udp_latency(struct udp_test *test)
{
	static uint32_t samples[SAMPLES];
	static char packet[DATAGRAM_MAX];
	size_t bytes = HEADER_BYTES + test->payload + TRAILER_BYTES, count = 0;
	uint64_t begin, then, now;

	make_sockets(test);
	start(echo_side, test);
	begin = now_ns();
	do {
		then = now_ns();
		if (send(test->sockets[0], packet, bytes, 0) < 0)
			fail("send");
		do
			now = now_ns();
		while (recv(test->sockets[0], packet, sizeof(packet), MSG_DONTWAIT) < 0 &&
		       now - then < RUN_NS);
		now = now_ns();
		samples[count++] = now - then;
	} while (count < SAMPLES && now - begin < RUN_NS);
	stop();
	return one_way(samples, count);
}

/* The length of each segment of a merged receive; the whole of one that wasn't merged. */
static size_t segment_bytes(struct msghdr *message, size_t received)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c))
		if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO)
			return *(int *)CMSG_DATA(c);
	return received;
}

static uint32_t icrc(const char *packet, size_t bytes)
{
	static const uint8_t masked[36] = {0xff};
	uint8_t headers[sizeof(masked) + HEADER_BYTES];

	memcpy(headers, masked, sizeof(masked));
	memcpy(headers + sizeof(masked), packet, HEADER_BYTES);
	return crc32_gzip_refl(crc32_gzip_refl(0, headers, sizeof(headers)),
			       (const uint8_t *)packet + HEADER_BYTES, bytes - HEADER_BYTES);
}

static bool is_sound(const char *packet, size_t bytes)
{
	uint32_t sum = icrc(packet, bytes);

	return !memcmp(packet + bytes, &sum, TRAILER_BYTES);
}

static void sink_side(const void *argument)
{
	static char packets[1 << 16], place[PLACE_BYTES];
	const struct udp_test *test = argument;
	size_t overhead = HEADER_BYTES + TRAILER_BYTES, at = 0, payload = 0;
	int one = 1;

	setsockopt(test->sockets[1], IPPROTO_UDP, UDP_GRO, &one, sizeof(one));
	for (;;) {
		char control[CMSG_SPACE(sizeof(int))];
		struct iovec iov = {packets, sizeof(packets)};
		struct msghdr message = {.msg_iov = &iov,
					 .msg_iovlen = 1,
					 .msg_control = control,
					 .msg_controllen = sizeof(control)};
		ssize_t n = recvmsg(test->sockets[1], &message, MSG_DONTWAIT);
		size_t each;

		if (n <= (ssize_t)overhead)
			continue;
		each = segment_bytes(&message, n);
		for (ssize_t i = 0; i < n; i += each) {
			payload = (n - i < (ssize_t)each ? (size_t)(n - i) : each) - overhead;
			if (test->has_icrc && !is_sound(packets + i, HEADER_BYTES + payload))
				_exit(1);
			if (at + payload > sizeof(place))
				at = 0;
			memcpy(place + at, packets + i + HEADER_BYTES, payload);
			at += payload;
			atomic_fetch_add_explicit(&shared->received, payload, memory_order_release);
		}
	}
}

/* Put headers and payloads of one call in a row, as a sender with a fused check sum does. */
static void stage(const struct udp_test *test, char *packets, const char *source, size_t segments)
{
	size_t payload = test->payload;
	uint32_t sum = 0;

	for (size_t i = 0; i < segments; i++) {
		memset(packets, 0, HEADER_BYTES);
		memcpy(packets + HEADER_BYTES, source + i * payload, payload);
		if (test->has_icrc)
			sum = icrc(packets, HEADER_BYTES + payload);
		memcpy(packets + HEADER_BYTES + payload, &sum, TRAILER_BYTES);
		packets += HEADER_BYTES + payload + TRAILER_BYTES;
	}
}

/* Wait until the receiver has caught up to the window; false when packets must have been lost. */
static bool window_opens(uint64_t sent, uint64_t window)
{
	uint64_t begin = 0;

	while (sent - atomic_load_explicit(&shared->received, memory_order_acquire) > window) {
		uint64_t now = now_ns();

		if (!begin)
			begin = now;
		else if (now - begin > STALL_NS)
			return false;
	}
	return true;
}

/* `most` packets a call; bytes of payload a second. */
static double measure_udp_bandwidth(struct udp_test *test, size_t most)
{
	static char packets[DATAGRAM_MAX], source[PLACE_BYTES];
	size_t each = HEADER_BYTES + test->payload + TRAILER_BYTES, segments = DATAGRAM_MAX / each;
	uint64_t sent = 0, begin, elapsed;
	int segment = each, granted = 0, fd;
	socklen_t length = sizeof(granted);

	if (segments > most)
		segments = most;
	make_sockets(test);
	fd = test->sockets[0];
	if (segments > 1 && setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment)))
		fail("UDP_SEGMENT");
	getsockopt(test->sockets[1], SOL_SOCKET, SO_RCVBUF, &granted, &length);
	start(sink_side, test);
	begin = now_ns();
	do {
		stage(test, packets, source, segments);
		if (send(fd, packets, segments * each, 0) < 0)
			fail("send");
		sent += segments * test->payload;
		/* what the receive buffer holds: packets are charged up to twice their length, and
		 * small ones alone nearly a kilobyte */
		if (!window_opens(sent, segments > 1 ? (size_t)granted / 4
						     : granted / 1024 * test->payload))
			sent = atomic_load(&shared->received);
		elapsed = now_ns() - begin;
	} while (elapsed < RUN_NS);
	stop();
	return atomic_load(&shared->received) * 1e9 / elapsed;
}

static double measure_udp(const char *what, struct udp_test *test)
{
	if (!strcmp(what, "udp-lat"))
		return measure_udp_latency(test);
	if (!strcmp(what, "udp-rate"))
		return measure_udp_bandwidth(test, 1) / test->payload;
	test->has_icrc = !strcmp(what, "udp-icrc-bw");
	return measure_udp_bandwidth(test, SEGMENTS_MAX);
}

static bool is_udp(const char *what, size_t size)
{
	return (!strcmp(what, "udp-lat") || !strcmp(what, "udp-rate") || !strcmp(what, "udp-bw") ||
		!strcmp(what, "udp-icrc-bw")) &&
	       size && size <= 32768;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	size_t size = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;
	struct udp_test test = {.addresses = {"127.0.0.1", "127.0.0.1"}, .payload = size};

	if (argc > 5) {
		test.addresses[0] = argv[3];
		test.addresses[1] = argv[4];
		test.netns = argv[5];
	}
	shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		fail("mmap");
	if (!strcmp(what, "memcpy") && size)
		printf("%.0f\n", measure_memcpy(size));
	else if (!strcmp(what, "hop"))
		printf("%.1f\n", measure_hop());
	else if (is_udp(what, size))
		printf("%.0f\n", measure_udp(what, &test));
	else {
		fprintf(stderr, "usage: ceiling memcpy BYTES | hop | "
				"udp-bw|udp-icrc-bw|udp-lat|udp-rate PAYLOAD "
				"[ADDRESS ADDRESS NETNS]\n");
		return 2;
	}
	return 0;
}
