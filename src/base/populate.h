/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What madvise() brings many pages into being with, for C libraries that do not name it yet. A
 * kernel before Linux 5.14 answers EINVAL.
 */
#ifndef BASE_POPULATE_H
#define BASE_POPULATE_H

#include <sys/mman.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#endif
