/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who holds port 4791 of an address that we could not bind: found in /proc, and said as a reason.
 */
#ifndef ENGINE_HOLDER_H
#define ENGINE_HOLDER_H

#include <infiniband/verbs.h>

/* Notes the reason and returns its errno, EADDRINUSE. `gid` is the address that was wanted. */
int holder_refuse(const union ibv_gid *gid);

/* An address as people write it: IPv4 dotted, else IPv6. `text` has room for INET6_ADDRSTRLEN. */
const char *gid_text(const union ibv_gid *gid, char *text);

#endif
