/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * record INTERFACE FILE: write what goes over an interface into a pcap file, until SIGTERM. What
 * tcpdump does, without the socket filter that every capture by libpcap attaches: a kernel whose
 * BPF compiler hangs stops that for good, and tests are to run there too.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <pcap/pcap.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { FRAME_BYTES = 1 << 18, BUFFER_BYTES = 64 << 20, TICK_US = 100000 };

static volatile sig_atomic_t is_over;

static void stop(int number)
{
	is_over = 1;
}

static int open_interface(const char *name)
{
	struct sockaddr_ll address = {.sll_family = AF_PACKET,
				      .sll_protocol = htons(ETH_P_ALL),
				      .sll_ifindex = (int)if_nametoindex(name)};
	struct timeval tick = {.tv_usec = TICK_US};
	int buffer = BUFFER_BYTES, fd = socket(AF_PACKET, SOCK_RAW, 0);

	if (fd < 0 || !address.sll_ifindex ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof(tick)) < 0 ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		fprintf(stderr, "record: %s: %s\n", name, strerror(errno));
		exit(1);
	}
	return fd;
}

int main(int argc, char **argv)
{
	static u_char frame[FRAME_BYTES];
	pcap_dumper_t *file;
	pcap_t *pcap = pcap_open_dead(DLT_EN10MB, FRAME_BYTES);
	struct pcap_pkthdr header;
	int fd;

	if (argc != 3) {
		fprintf(stderr, "usage: record INTERFACE FILE\n");
		return 2;
	}
	fd = open_interface(argv[1]);
	file = pcap_dump_open(pcap, argv[2]);
	if (!file) {
		fprintf(stderr, "record: %s\n", pcap_geterr(pcap));
		return 1;
	}
	signal(SIGTERM, stop);
	signal(SIGINT, stop);
	fprintf(stderr, "listening on %s\n", argv[1]);
	while (!is_over) {
		ssize_t length = recv(fd, frame, sizeof(frame), MSG_TRUNC);

		if (length <= 0)
			continue;
		gettimeofday(&header.ts, NULL);
		header.len = (bpf_u_int32)length;
		header.caplen = length < FRAME_BYTES ? (bpf_u_int32)length : FRAME_BYTES;
		pcap_dump((u_char *)file, &header, frame);
	}
	pcap_dump_close(file);
	pcap_close(pcap);
	close(fd);
	return 0;
}
