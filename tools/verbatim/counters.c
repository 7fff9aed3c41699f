/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim counters: what the connection managers of this host's processes count. Each is asked at
 * the socket by which others hear of its end (engine/slot.h), and answers with text.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "command.h"
#include "engine/slot.h"

enum { PATIENCE_SECONDS = 2 };

/* -1: nobody has that slot, or not with connections. */
static int ask(uint32_t slot, pid_t *pid)
{
	const struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
	struct mail_address address;
	struct ucred peer = {0};
	socklen_t length = sizeof(peer);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	mail_address_of_life(slot, &address);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (fd < 0 || connect(fd, (struct sockaddr *)&address.name, address.length) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	*pid = peer.pid;
	return fd;
}

static bool show(int fd, uint32_t slot, pid_t pid)
{
	char text[4096];
	ssize_t length;
	size_t all = 0;

	if (send(fd, "?", 1, MSG_NOSIGNAL) == 1)
		while ((length = recv(fd, text, sizeof(text), 0)) > 0) {
			fwrite(text, 1, (size_t)length, stdout);
			all += (size_t)length;
		}
	if (all == 0)
		printf(
		    "process %ld, slot %u\n  does not answer: it is another user's, or stopped\n",
		    (long)pid, slot);
	return all > 0;
}

static bool is_wanted(pid_t pid, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strtol(argv[i], NULL, 10) == pid)
			return true;
	return argc == 1;
}

int command_counters(int argc, char **argv)
{
	int shown = 0, silent = 0;

	for (uint32_t slot = 0; slot < QPN_SLOTS; slot++) {
		pid_t pid;
		int fd = ask(slot, &pid);

		if (fd < 0)
			continue;
		if (is_wanted(pid, argc, argv))
			*(show(fd, slot, pid) ? &shown : &silent) += 1;
		close(fd);
	}
	if (shown || silent)
		return shown ? EXIT_SUCCESS : EXIT_FAILURE;
	fprintf(stderr, argc == 1 ? "verbatim counters: no process of this host uses librdmacm\n"
				  : "verbatim counters: no such process uses librdmacm\n");
	return EXIT_FAILURE;
}
