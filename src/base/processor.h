/* SPDX-License-Identifier: BSD-2-Clause */
/* Which processor this is, for the little where what it can does not say what it does well. */
#ifndef BASE_PROCESSOR_H
#define BASE_PROCESSOR_H

#include <stdbool.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

enum { PROCESSOR_FAMILY_ZEN5 = 0x1a };

/* Of AMD's, from Zen 5 on. */
static inline bool processor_is_zen5(void)
{
#ifdef __x86_64__
	unsigned int signature, features, more, vendor[3];

	if (!__get_cpuid(0, &signature, &vendor[0], &vendor[2], &vendor[1]) ||
	    memcmp(vendor, "AuthenticAMD", sizeof(vendor)) != 0 ||
	    !__get_cpuid(1, &signature, &features, &more, &vendor[0]))
		return false;
	/* the base family is 15 in all of these */
	return (signature >> 8 & 0xf) == 0xf &&
	       (signature >> 20 & 0xff) + 0xf >= PROCESSOR_FAMILY_ZEN5;
#else
	return false;
#endif
}

#endif
