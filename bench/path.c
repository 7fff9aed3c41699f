/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * path [NAMESPACE]:DEVICE [NAMESPACE]:DEVICE: a long and lossy way between two network namespaces,
 * where the kernel has no netem. It makes a tap device in each, the first in its own if none is
 * named, and is what lies between them. A packet waits for its turn on a line of so many Mb/s, one
 * a direction; is dropped where the queue is full, and marked (ECN) where it is long; is lost at
 * random; and arrives some time after it left the line.
 *
 * A line of input sets that: DELAY_US MBIT QUEUE_KIB MARK_KIB LOSS_PPM SEED (MARK_KIB 0: no marks).
 * It is answered by what came to pass since the line before, for each direction: packets, lost,
 * dropped, marked, and the longest queue in KiB. It ends with its input. Needs root.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <net/ethernet.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "clock.h"

enum {
	FRAME_MAX = 9216,
	FRAMING_BYTES = 24, /* of a frame on a real line: preamble, check sum and gap */
	BATCH = 64,
	ECN_CE = 3,
	ECN_SHIFT_IPV6 = 4,
};

static const uint64_t SPIN_NS = 20000; /* to sleep takes as long */

struct frame {
	struct frame *next;
	uint64_t due;
	uint32_t length;
	uint8_t bytes[];
};

struct way {
	int from, to;
	struct frame *first, **last;
	uint64_t line_free; /* when all that waits has left */
	uint64_t packets, lost, dropped, marked, longest;
};

static struct settings {
	uint64_t delay, queue, mark; /* ns, bytes */
	double ns_per_byte;
	uint32_t loss_ppm;
	uint64_t seed;
} settings;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* splitmix64 */
static uint64_t random_bits(void)
{
	uint64_t z = settings.seed += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Where there is no name: this program's own, as it was when it began. */
static void enter_namespace(const char *name, int length)
{
	char file[256] = "/proc/self/ns/net";
	int ns;

	if (length)
		snprintf(file, sizeof(file), "/run/netns/%.*s", length, name);
	ns = open(file, O_RDONLY | O_CLOEXEC);
	if (ns < 0 || setns(ns, CLONE_NEWNET))
		die(file);
	close(ns);
}

static int open_tap(const char *end)
{
	struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
	const char *device = strchr(end, ':');
	int tap;

	if (!device || strlen(device + 1) >= IFNAMSIZ) {
		fprintf(stderr, "path: %s: not [NAMESPACE]:DEVICE\n", end);
		exit(2);
	}
	enter_namespace(end, (int)(device - end));
	strcpy(request.ifr_name, device + 1);
	tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
	if (tap < 0 || ioctl(tap, TUNSETIFF, &request))
		die("/dev/net/tun");
	return tap;
}

static uint16_t ether_type(const uint8_t *frame)
{
	return frame[12] << 8 | frame[13];
}

static void set_checksum(uint8_t *ip)
{
	uint32_t sum = 0;

	ip[10] = ip[11] = 0;
	for (int i = 0; i < (ip[0] & 15) * 4; i += 2)
		sum += ip[i] << 8 | ip[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~(sum + (sum >> 16));
	ip[10] = sum >> 8;
	ip[11] = sum;
}

/* False: the packet does not want to be marked. */
static bool mark(uint8_t *frame)
{
	uint8_t *ip = frame + ETH_HLEN;

	if (ether_type(frame) == ETHERTYPE_IP && ip[1] & ECN_CE) {
		ip[1] |= ECN_CE;
		set_checksum(ip);
		return true;
	}
	if (ether_type(frame) == ETHERTYPE_IPV6 && ip[1] & ECN_CE << ECN_SHIFT_IPV6) {
		ip[1] |= ECN_CE << ECN_SHIFT_IPV6;
		return true;
	}
	return false;
}

/* False: it is lost. Who has which address is no part of what is looked at. */
static bool enter(struct way *way, struct frame *frame, uint64_t now)
{
	uint64_t waiting;

	if (way->line_free < now)
		way->line_free = now;
	way->packets++;
	waiting = (way->line_free - now) / settings.ns_per_byte + frame->length;
	if (waiting > settings.queue) {
		way->dropped++;
		return false;
	}
	if (waiting > way->longest)
		way->longest = waiting;
	if (settings.mark && waiting > settings.mark)
		way->marked += mark(frame->bytes);
	way->line_free += (frame->length + FRAMING_BYTES) * settings.ns_per_byte;
	frame->due = way->line_free + settings.delay;
	if (ether_type(frame->bytes) != ETHERTYPE_ARP &&
	    random_bits() % 1000000 < settings.loss_ppm) {
		way->lost++;
		return false;
	}
	return true;
}

static void take(struct way *way)
{
	static uint8_t bytes[FRAME_MAX];

	for (int i = 0; i < BATCH; i++) {
		ssize_t length = read(way->from, bytes, sizeof(bytes));
		struct frame *frame;

		if (length < ETH_HLEN + 20)
			return;
		frame = malloc(sizeof(*frame) + length);
		if (!frame)
			die("malloc");
		frame->next = NULL;
		frame->length = length;
		memcpy(frame->bytes, bytes, length);
		if (!enter(way, frame, now_ns())) {
			free(frame);
			continue;
		}
		*way->last = frame;
		way->last = &frame->next;
	}
}

static void deliver(struct way *way)
{
	uint64_t now = now_ns();

	for (int i = 0; i < BATCH && way->first && way->first->due <= now; i++) {
		struct frame *frame = way->first;

		way->first = frame->next;
		if (!way->first)
			way->last = &way->first;
		if (write(way->to, frame->bytes, frame->length) < 0 && errno != EIO)
			die("write");
		free(frame);
	}
}

/* Until a packet comes or is due, or there is input. */
static void wait_for(const struct way ways[2], struct pollfd fds[3])
{
	uint64_t due = UINT64_MAX, now = now_ns(), left;
	struct timespec ts;

	for (int i = 0; i < 2; i++)
		if (ways[i].first && ways[i].first->due < due)
			due = ways[i].first->due;
	left = due > now ? due - now : 0;
	left = left > SPIN_NS ? left - SPIN_NS : 0;
	ts = (struct timespec){left / 1000000000, left % 1000000000};
	if (ppoll(fds, 3, due == UINT64_MAX ? NULL : &ts, NULL) < 0 && errno != EINTR)
		die("ppoll");
}

static void obey(const char *line, struct way ways[2])
{
	unsigned int delay, rate, queue, marks, loss, seed;

	if (sscanf(line, "%u %u %u %u %u %u", &delay, &rate, &queue, &marks, &loss, &seed) != 6 ||
	    !rate) {
		fprintf(stderr, "path: not understood: %s", line);
		exit(2);
	}
	settings = (struct settings){.delay = delay * 1000ull,
				     .ns_per_byte = 8000.0 / rate,
				     .queue = queue * 1024ull,
				     .mark = marks * 1024ull,
				     .loss_ppm = loss,
				     .seed = seed};
	for (int i = 0; i < 2; i++) {
		struct way *way = &ways[i];

		printf("%llu %llu %llu %llu %llu%c", (unsigned long long)way->packets,
		       (unsigned long long)way->lost, (unsigned long long)way->dropped,
		       (unsigned long long)way->marked, (unsigned long long)way->longest / 1024,
		       i ? '\n' : ' ');
		way->packets = way->lost = way->dropped = way->marked = way->longest = 0;
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct way ways[2];
	struct pollfd fds[3];
	char line[256];

	if (argc != 3) {
		fputs("usage: path NAMESPACE NAMESPACE\n", stderr);
		return 2;
	}
	prctl(PR_SET_TIMERSLACK, 1);
	for (int i = 0; i < 2; i++) {
		ways[i] = (struct way){.from = open_tap(argv[1 + i])};
		fds[i] = (struct pollfd){.fd = ways[i].from, .events = POLLIN};
	}
	for (int i = 0; i < 2; i++) {
		ways[i].to = ways[!i].from;
		ways[i].last = &ways[i].first;
	}
	fds[2] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
	settings = (struct settings){.ns_per_byte = 8, .queue = 1 << 20};
	for (;;) {
		wait_for(ways, fds);
		for (int i = 0; i < 2; i++) {
			if (fds[i].revents & POLLIN)
				take(&ways[i]);
			deliver(&ways[i]);
		}
		if (!fds[2].revents)
			continue;
		if (!fgets(line, sizeof(line), stdin))
			return 0;
		obey(line, ways);
	}
}
