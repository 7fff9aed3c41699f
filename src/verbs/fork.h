/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exported for providers: keep a range from the child of a fork, and let it go. Nothing to do here.
 */
#ifndef VERBS_FORK_H
#define VERBS_FORK_H

#include <stddef.h>

int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

#endif
