/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests of librdmacm's calls, which return -1 and leave errno when they refuse.
 */
#ifndef TESTS_CM_REFUSED_H
#define TESTS_CM_REFUSED_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* The call was refused, with this errno. */
#define refused(call, error)                                                                       \
	do {                                                                                       \
		errno = 0;                                                                         \
		assert_int_equal(call, -1);                                                        \
		assert_int_equal(errno, error);                                                    \
	} while (0)

#endif
