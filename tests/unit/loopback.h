/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A network of the test's own that has nothing but loopback, and addresses there.
 */
#ifndef TESTS_LOOPBACK_H
#define TESTS_LOOPBACK_H

#include <arpa/inet.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

#include "own_network.h"

static union ibv_gid ipv4_a, ipv4_b, ipv6;
static uint32_t loopback;

static inline union ibv_gid gid_of(const char *text)
{
	union ibv_gid gid = {0};

	if (inet_pton(AF_INET6, text, gid.raw) != 1)
		abort();
	return gid;
}

/* False if there is no network to be had. */
static inline bool loopback_network(void)
{
	if (!own_network())
		return false;
	if (interface_up("lo") < 0)
		perror("loopback up");
	loopback = if_nametoindex("lo");
	ipv4_a = gid_of("::ffff:127.0.0.1");
	ipv4_b = gid_of("::ffff:127.0.0.2");
	ipv6 = gid_of("::1");
	return true;
}

#endif
