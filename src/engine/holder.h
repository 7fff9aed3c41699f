/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who holds port 4791 of an address that we could not bind: found in /proc, and said as a reason.
 */
#ifndef ENGINE_HOLDER_H
#define ENGINE_HOLDER_H

#include <stdbool.h>

#include <infiniband/verbs.h>

struct holder {
	unsigned int uid;
	long pid;	  /* 0: not found, being the kernel or a process we may not look into */
	char command[32]; /* "" if not found */
};

/* Who has the port of this address, as far as /proc tells; false: no socket is bound there. */
bool holder_find(const union ibv_gid *gid, struct holder *holder);

/* Whether a process has that port that is not stopped, and so may answer yet; false if unknown. */
bool holder_goes_on(const union ibv_gid *gid);

/* Whether the port is held by a socket of our user's that no process is seen to have: of one that
 * is about to be gone, or hides. */
bool holder_is_unseen(const union ibv_gid *gid);

/*
 * Notes the reason and returns its errno, EADDRINUSE. `gid` is the address that was wanted;
 * `is_silent`: some slot's process didn't answer, so that the holder may be one of ours, stopped.
 */
int holder_refuse(const union ibv_gid *gid, bool is_silent);

/* An address as people write it: IPv4 dotted, else IPv6. `text` has room for INET6_ADDRSTRLEN. */
const char *gid_text(const union ibv_gid *gid, char *text);

#endif
