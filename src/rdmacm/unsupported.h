/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What stands in for a call that this version does not implement: it refuses, by name.
 */
#ifndef RDMACM_UNSUPPORTED_H
#define RDMACM_UNSUPPORTED_H

#include <errno.h>

#include "explain/reason.h"

/* The calling function refuses: -1 and errno. */
#define CM_NOT_IMPLEMENTED() (errno = refuse(REASON_CM_NOT_IMPLEMENTED, "%s()", __func__), -1)

#endif
