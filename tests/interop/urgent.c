/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urgent ADDRESS [SERVER]: urgent data (MSG_OOB) of rsockets, each way over one connection, and
 * what a program is told of it meanwhile: it stands in the stream, and nobody is told. Over any
 * librdmacm.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <rdma/rsocket.h>

enum { PORT = 7471, PATIENCE_MS = 20000 };

#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "line %d: not so: %s (%s)\n", __LINE__, #condition,        \
				strerror(errno));                                                  \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static void tell(int fd)
{
	must(rsend(fd, "ab", 2, 0) == 2);
	must(rsend(fd, "!", 1, MSG_OOB) == 1);
	must(rsend(fd, "cd", 3, 0) == 3);
}

static void hear(int fd)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN | POLLPRI};
	char word[8] = "";

	must(rpoll(&readable, 1, PATIENCE_MS) == 1);
	must(!(readable.revents & POLLPRI));
	must(rrecv(fd, word, 6, MSG_WAITALL) == 6);
	printf("heard %s\n", word);
	must(strcmp(word, "ab!cd") == 0);
}

int main(int argc, char *argv[])
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), listener = -1;

	must(argc == 2 || argc == 3);
	must(fd >= 0 && inet_pton(AF_INET, argv[argc - 1], &at.sin_addr) == 1);
	if (argc == 3) {
		must(rconnect(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
		tell(fd);
		hear(fd);
	} else {
		listener = fd;
		must(rbind(listener, (struct sockaddr *)&at, sizeof(at)) == 0);
		must(rlisten(listener, 1) == 0);
		fd = raccept(listener, NULL, NULL);
		must(fd >= 0);
		hear(fd);
		tell(fd);
		rclose(listener);
	}
	must(rshutdown(fd, SHUT_RDWR) == 0);
	must(rclose(fd) == 0);
	return 0;
}
