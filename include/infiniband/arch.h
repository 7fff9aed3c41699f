/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Obsolete, and says so: htonll and ntohll for programs of old. Use htobe64 and be64toh of
 * <endian.h>.
 */
#ifndef INFINIBAND_ARCH_H
#define INFINIBAND_ARCH_H

#include <endian.h>
#include <stdint.h>

#warning "<infiniband/arch.h> is obsolete: use htobe64 and be64toh of <endian.h>"

#ifndef ntohll
#undef htonll
#undef ntohll

static inline __attribute__((deprecated)) uint64_t htonll(uint64_t x)
{
	return htobe64(x);
}

static inline __attribute__((deprecated)) uint64_t ntohll(uint64_t x)
{
	return be64toh(x);
}

#define htonll htonll
#define ntohll ntohll
#endif

#endif
