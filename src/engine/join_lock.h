/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One process of the host at a time joins or makes the group of sockets of an address. The lock is
 * the abstract name
 * "@verbatim/join/<address>": whoever binds it has it, it ends with its holder, and who waits for
 * it waits for that holder to hang up.
 */
#ifndef ENGINE_JOIN_LOCK_H
#define ENGINE_JOIN_LOCK_H

#include <stdint.h>

#include <infiniband/verbs.h>

/* The lock, a descriptor; or the negative errno of the noted reason when its holder keeps it longer
 * than anyone should. */
int join_lock(const union ibv_gid *gid, uint32_t scope);

/* The same at once, or -1. */
int join_trylock(const union ibv_gid *gid, uint32_t scope);
void join_unlock(int lock);

#endif
