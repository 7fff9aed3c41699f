/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What this version does not implement refuses, with a reason that names the call. New contexts are
 * filled with refusing entry points first, then with the real ones, so that no slot is ever empty.
 */
#ifndef VERBS_UNSUPPORTED_H
#define VERBS_UNSUPPORTED_H

#include <infiniband/verbs.h>
#include "explain/reason.h"

/* Refuses the calling function; gives EOPNOTSUPP. */
#define NOT_IMPLEMENTED() refuse(REASON_NOT_IMPLEMENTED, "%s", __func__)

/* Refuses with a pointer: NULL, and errno set. */
#define NOT_IMPLEMENTED_NULL() (errno = NOT_IMPLEMENTED(), (void *)0)

/*
 * Sets every entry point of `vctx` and its context.ops to one that refuses, and sz and abi_compat
 * to what says that they are all there.
 */
void unsupported_ops(struct verbs_context *vctx);

#endif
