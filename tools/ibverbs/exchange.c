/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How two pingpongs tell each other where their QPs are, over TCP; the original programs talk the
 * same way, and either may be the other side. Each address is a text of fixed length with its NUL,
 * LID:QPN:PSN:GID in hexadecimal. The client tells first, the server answers once it is connected,
 * and the client closes with "done".
 */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pingpong.h"

enum { ADDRESS_SIZE = sizeof("0000:000000:000000:00000000000000000000000000000000") };

static const char done[] = "done";

static void format(const struct pp_address *address, char text[ADDRESS_SIZE])
{
	int length = sprintf(text, "%04x:%06x:%06x:", address->lid & 0xffff,
			     address->qpn & 0xffffff, address->psn & 0xffffff);

	for (int i = 0; i < 16; i++)
		length += sprintf(text + length, "%02x", address->gid.raw[i]);
}

static bool parse(const char text[ADDRESS_SIZE], struct pp_address *address)
{
	char gid[33];

	if (sscanf(text, "%x:%x:%x:%32s", &address->lid, &address->qpn, &address->psn, gid) != 4 ||
	    strlen(gid) != 32)
		return false;
	for (int i = 0; i < 16; i++) {
		unsigned int byte;

		if (sscanf(gid + 2 * i, "%2x", &byte) != 1)
			return false;
		address->gid.raw[i] = (uint8_t)byte;
	}
	return true;
}

static bool read_all(int fd, void *buffer, size_t size)
{
	ssize_t got;

	for (size_t have = 0; have < size; have += (size_t)got) {
		got = read(fd, (char *)buffer + have, size - have);
		if (got <= 0)
			return false;
	}
	return true;
}

static bool send_addresses(int fd, const struct pp_address *local, int count)
{
	char text[ADDRESS_SIZE];

	for (int i = 0; i < count; i++) {
		format(&local[i], text);
		if (send(fd, text, sizeof(text), MSG_NOSIGNAL) != sizeof(text)) {
			fprintf(stderr, "Couldn't send local address\n");
			return false;
		}
	}
	return true;
}

static bool receive_addresses(int fd, const char *who, struct pp_address *remote, int count)
{
	char text[ADDRESS_SIZE];

	for (int i = 0; i < count; i++) {
		if (!read_all(fd, text, sizeof(text))) {
			perror(who);
			fprintf(stderr, "%d/%d: Couldn't read remote address\n", i, count);
			return false;
		}
		text[sizeof(text) - 1] = '\0';
		if (!parse(text, &remote[i])) {
			fprintf(stderr, "Couldn't understand remote address '%s'\n", text);
			return false;
		}
	}
	return true;
}

static struct addrinfo *look_up(const struct pp_options *options)
{
	const struct addrinfo hints = {
	    .ai_family = AF_UNSPEC,
	    .ai_socktype = SOCK_STREAM,
	    .ai_flags = options->server ? 0 : AI_PASSIVE,
	};
	struct addrinfo *list;
	char service[8];
	int rc;

	snprintf(service, sizeof(service), "%d", options->tcp_port);
	rc = getaddrinfo(options->server, service, &hints, &list);
	if (!rc)
		return list;
	if (options->server)
		fprintf(stderr, "%s for %s:%d\n", gai_strerror(rc), options->server,
			options->tcp_port);
	else
		fprintf(stderr, "%s for port %d\n", gai_strerror(rc), options->tcp_port);
	return NULL;
}

int pp_call(const struct pp_options *options)
{
	struct addrinfo *list = look_up(options);
	int fd = -1;

	if (!list)
		return -1;
	for (struct addrinfo *at = list; at && fd < 0; at = at->ai_next) {
		fd = socket(at->ai_family, at->ai_socktype, at->ai_protocol);
		if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen)) {
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(list);
	if (fd < 0)
		fprintf(stderr, "Couldn't connect to %s:%d\n", options->server, options->tcp_port);
	return fd;
}

/* IPv6 first, since such a socket takes callers of both families. */
static int open_listener(const struct addrinfo *list)
{
	static const int families[] = {AF_INET6, AF_INET};
	const int one = 1, zero = 0;

	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		for (const struct addrinfo *at = list; at; at = at->ai_next) {
			int fd;

			if (at->ai_family != families[i])
				continue;
			fd = socket(at->ai_family, at->ai_socktype, at->ai_protocol);
			if (fd < 0)
				continue;
			setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
			if (at->ai_family == AF_INET6)
				setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
			if (!bind(fd, at->ai_addr, at->ai_addrlen) && !listen(fd, PP_MAX_QPS))
				return fd;
			close(fd);
		}
	return -1;
}

int pp_listen(const struct pp_options *options)
{
	struct addrinfo *list = look_up(options);
	int listener;

	if (!list)
		return -1;
	listener = open_listener(list);
	freeaddrinfo(list);
	if (listener < 0)
		fprintf(stderr, "Couldn't listen to port %d\n", options->tcp_port);
	return listener;
}

static int await_client(const struct pp_options *options)
{
	int listener = pp_listen(options), fd;

	if (listener < 0)
		return -1;
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		perror("accept() failed");
	close(listener);
	return fd;
}

int pp_exchange_as_client(const struct pp_options *options, const struct pp_address *local,
			  int count, struct pp_address *remote)
{
	int fd = pp_call(options), rc = 1;

	if (fd < 0)
		return 1;
	if (!send_addresses(fd, local, count) ||
	    !receive_addresses(fd, "client read", remote, count))
		goto out;
	if (send(fd, done, sizeof(done), MSG_NOSIGNAL) != sizeof(done)) {
		perror("client write");
		goto out;
	}
	rc = 0;
out:
	close(fd);
	return rc;
}

int pp_exchange_as_server(const struct pp_options *options, const struct pp_address *local,
			  int count, pp_connect connect_all, void *data, struct pp_address *remote)
{
	int fd = await_client(options), rc = 1;
	char end[sizeof(done)];

	if (fd < 0)
		return 1;
	if (!receive_addresses(fd, "server read", remote, count))
		goto out;
	if (connect_all(data, remote)) {
		fprintf(stderr, "Couldn't connect to remote QP\n");
		goto out;
	}
	if (!send_addresses(fd, local, count))
		goto out;
	if (!read_all(fd, end, sizeof(end))) {
		fprintf(stderr, "Couldn't send/recv local address\n");
		goto out;
	}
	rc = 0;
out:
	close(fd);
	return rc;
}
