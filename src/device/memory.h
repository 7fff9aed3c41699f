/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies between packets and the program's memory. The program may have unmapped what it
 * registered: then a copy says -EFAULT and the work request fails with a reason; it does not crash
 * the program. Bytes are stored in ascending order, the last ones last, because programs poll on
 * the last byte of a WRITE. Aligned quantities of 2, 4 and 8 bytes on the program's side are loaded
 * and stored whole.
 *
 * How a fault is survived: on x86-64 every instruction here that touches the program's memory lies
 * in one range of code, or in that of memory_sum.c. A handler of SIGSEGV and SIGBUS (the face
 * installs one, see verbs/fault.c) asks memory_recover() whether the fault is one of them, and goes
 * on at the routine's error exit. Elsewhere, and without a handler, a fault is the process's.
 */
#ifndef DEVICE_MEMORY_H
#define DEVICE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each 0 or -EFAULT; of what was to be copied, some may be then. */
int memory_load(void *to, const char *from, size_t length);
int memory_store(char *to, const void *from, size_t length);

/* As memory_load(), and *sum goes on over what was copied (icrc_sum()): in one pass where
 * memory_sums(). */
int memory_load_sum(void *to, const char *from, size_t length, uint32_t *sum);
bool memory_sums(void);

/* From the program's memory to the program's memory: no order but that the last bytes are stored
 * last. Faster when long. */
int memory_move(char *to, const char *from, size_t length);

/* Atomic with respect to other adapters' threads and the program's own atomics; `place` is 8-byte
 * aligned. */
int memory_fetch_add(char *place, uint64_t add, uint64_t *old);
int memory_compare_swap(char *place, uint64_t compare, uint64_t swap, uint64_t *old);
int memory_store_8(char *place, uint64_t value);

/*
 * Waits until what was stored would survive the loss of power, as far as the memory can: a mapping
 * of a file is written to it; anonymous memory has nothing to wait for. 0, or -EFAULT if it is not
 * mapped or cannot be written.
 */
int memory_persist(char *place, size_t length);

/*
 * For the handler: if the instruction at *pc is one of ours that touches the program's memory, sets
 * *pc to where it fails with -EFAULT, and says true. Async-signal-safe.
 */
bool memory_recover(uintptr_t *pc);

/* Whether the copies ascend, so that a reader may wait for the last byte. */
static inline bool memory_is_ordered(void)
{
#ifdef __x86_64__
	return true;
#else
	return false;
#endif
}

#endif
