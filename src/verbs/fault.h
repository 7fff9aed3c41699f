/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The handler that keeps a registered range which the program has unmapped from crashing it, see
 * device/memory.h.
 */
#ifndef VERBS_FAULT_H
#define VERBS_FAULT_H

/* Puts our handlers in front of what is installed for SIGSEGV and SIGBUS, if they are not there.
 * Any thread. */
void fault_guard(void);

/* Around a fork(): no other thread is within. */
void fault_hold(void);
void fault_release(void);

#endif
