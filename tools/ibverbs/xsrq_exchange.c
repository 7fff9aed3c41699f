/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the two sides of ibv_xsrq_pingpong tell each other where they are; the original program talks
 * the same way. An address is a text of fixed length with its NUL,
 * lid%x:recv_qpn%x:send_qpn%x:psn%x:srqn%x:gid, without those names. A client tells first and the
 * server answers; in the end each client sends "END", and the server answers when it has heard that
 * of all.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "xsrq.h"

enum { ADDRESS_SIZE = sizeof("0000:000000:000000:000000:000000:00000000000000000000000000000000") };

static const char end[] = "END";

static void print_address(const char *whose, const struct xsrq_address *address)
{
	char gid[INET6_ADDRSTRLEN];

	inet_ntop(AF_INET6, &address->path.gid, gid, sizeof(gid));
	printf("%8s: LID %04x, QPN RECV %06x SEND %06x, PSN %06x, SRQN %06x, GID %s\n", whose,
	       address->path.lid, address->path.qpn, address->send_qpn, address->path.psn,
	       address->srqn, gid);
}

static int send_address(const struct xsrq_peer *peer)
{
	const struct xsrq_address *local = &peer->local;
	char text[ADDRESS_SIZE];
	int length =
	    snprintf(text, sizeof(text), "%04x:%06x:%06x:%06x:%06x:", local->path.lid & 0xffff,
		     local->path.qpn & 0xffffff, local->send_qpn & 0xffffff,
		     local->path.psn & 0xffffff, local->srqn & 0xffffff);

	for (int i = 0; i < 16; i++)
		length += snprintf(text + length, sizeof(text) - (size_t)length, "%02x",
				   local->path.gid.raw[i]);
	print_address("local", local);
	if (send(peer->fd, text, sizeof(text), MSG_NOSIGNAL) == sizeof(text))
		return 0;
	fprintf(stderr, "Couldn't send local address\n");
	return 1;
}

static bool parse(const char *text, struct xsrq_address *address)
{
	char gid[33];

	if (sscanf(text, "%x:%x:%x:%x:%x:%32s", &address->path.lid, &address->path.qpn,
		   &address->send_qpn, &address->path.psn, &address->srqn, gid) != 6 ||
	    strlen(gid) != 32)
		return false;
	for (int i = 0; i < 16; i++) {
		unsigned int byte;

		if (sscanf(gid + 2 * i, "%2x", &byte) != 1)
			return false;
		address->path.gid.raw[i] = (uint8_t)byte;
	}
	return true;
}

static int receive_address(struct xsrq_peer *peer)
{
	char text[ADDRESS_SIZE];
	ssize_t got = recv(peer->fd, text, sizeof(text), MSG_WAITALL);

	if (got != sizeof(text)) {
		if (got < 0)
			perror("client read");
		fprintf(stderr, "%zd/%zu: Couldn't read remote address\n", got, sizeof(text));
		return 1;
	}
	text[sizeof(text) - 1] = '\0';
	if (!parse(text, &peer->remote)) {
		fprintf(stderr, "Couldn't understand remote address '%s'\n", text);
		return 1;
	}
	print_address("remote", &peer->remote);
	return 0;
}

static int meet_server(struct xsrq *x)
{
	struct xsrq_peer *peer = &x->peers[0];

	peer->fd = pp_call(&x->pp.options);
	return peer->fd < 0 || send_address(peer) || receive_address(peer) || xsrq_connect(x, peer);
}

static int meet_client(struct xsrq *x, struct xsrq_peer *peer, int listener)
{
	peer->fd = accept(listener, NULL, NULL);
	if (peer->fd < 0) {
		perror("accept() failed");
		return 1;
	}
	/* Ready before the client knows of us. */
	return receive_address(peer) || xsrq_connect(x, peer) || send_address(peer);
}

int xsrq_meet(struct xsrq *x)
{
	int listener, rc = 0;

	if (x->pp.options.server)
		return meet_server(x);
	listener = pp_listen(&x->pp.options);
	if (listener < 0)
		return 1;
	for (int i = 0; i < x->count && !rc; i++)
		rc = meet_client(x, &x->peers[i], listener);
	close(listener);
	return rc;
}

static int send_end(const struct xsrq_peer *peer)
{
	if (send(peer->fd, end, sizeof(end), MSG_NOSIGNAL) == sizeof(end))
		return 0;
	perror("Couldn't send the termination ack");
	return 1;
}

static int receive_end(const struct xsrq_peer *peer)
{
	char text[sizeof(end)];
	ssize_t got = recv(peer->fd, text, sizeof(text), MSG_WAITALL);

	if (got != sizeof(text)) {
		fprintf(stderr, "%zd/%zu: Couldn't read remote termination ack\n", got,
			sizeof(text));
		return 1;
	}
	if (memcmp(text, end, sizeof(end))) {
		fprintf(stderr, "Invalid termination ack was accepted\n");
		return 1;
	}
	return 0;
}

int xsrq_part(struct xsrq *x)
{
	if (x->pp.options.server)
		return send_end(&x->peers[0]) || receive_end(&x->peers[0]);
	for (int i = 0; i < x->count; i++)
		if (receive_end(&x->peers[i]))
			return 1;
	for (int i = 0; i < x->count; i++)
		if (send_end(&x->peers[i]))
			return 1;
	return 0;
}
