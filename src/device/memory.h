/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies between packets and the program's memory. The program may have unmapped what it registered: then a copy says
 * -EFAULT and the work request fails with a reason; it never crashes the program. Bytes are stored in ascending order,
 * the last ones last, because programs poll on the last byte of a WRITE. 8-byte aligned quantities are stored whole.
 */
#ifndef DEVICE_MEMORY_H
#define DEVICE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Each 0 or -EFAULT. */
int memory_load(void *to, const char *from, size_t length);
int memory_store(char *to, const void *from, size_t length);

/* Atomic with respect to other adapters' threads and the program's own atomics; `place` is 8-byte aligned. */
int memory_fetch_add(char *place, uint64_t add, uint64_t *old);
int memory_compare_swap(char *place, uint64_t compare, uint64_t swap, uint64_t *old);
int memory_store_8(char *place, uint64_t value);

#endif
