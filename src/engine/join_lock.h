/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One process of the host at a time joins or makes a group of sockets. The lock is the abstract
 * name "@verbatim/join": whoever binds it has it, it ends with its holder, and who waits for it
 * waits for that holder to hang up.
 */
#ifndef ENGINE_JOIN_LOCK_H
#define ENGINE_JOIN_LOCK_H

/* The lock, a descriptor; or the negative errno of the noted reason when its holder keeps it longer
 * than anyone should. */
int join_lock(void);

/* The same without waiting: -EBUSY when somebody has it. */
int join_trylock(void);

void join_unlock(int lock);

#endif
