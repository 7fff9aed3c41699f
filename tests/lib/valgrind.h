/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tells helgrind and drd of the order that atomic operations make. They see locks, threads and
 * condition variables, but an atomic operation is a plain access to them. So in a build with
 * VERBATIM_VALGRIND this comes before every file, and around each of the compiler's atomic builtins
 * it says what C11 says: a release happens before whoever acquires the same object later, and the
 * object itself may be accessed by several. What is not ordered by one of these is still found.
 */
#ifndef TESTS_LIB_VALGRIND_H
#define TESTS_LIB_VALGRIND_H

#ifndef __cplusplus
#include <stddef.h>

#include <valgrind/helgrind.h>

static inline __attribute__((unused)) void valgrind_hg_before(const volatile void *object)
{
	ANNOTATE_HAPPENS_BEFORE(object);
}

static inline __attribute__((unused)) void valgrind_hg_after(const volatile void *object)
{
	ANNOTATE_HAPPENS_AFTER(object);
}

static inline __attribute__((unused)) void valgrind_hg_shared(const volatile void *object,
							      size_t size)
{
	VALGRIND_HG_DISABLE_CHECKING(object, size);
}

/* the two tools' headers have macros of the same names: from here on they are drd's */
#undef __HELGRIND_H
#include <valgrind/drd.h>

static inline __attribute__((unused)) void valgrind_shared(const volatile void *object, size_t size)
{
	valgrind_hg_shared(object, size);
	ANNOTATE_BENIGN_RACE_SIZED(object, size, "atomic");
}

static inline __attribute__((unused)) void valgrind_before(const volatile void *object, int order)
{
	if (order != __ATOMIC_RELEASE && order != __ATOMIC_ACQ_REL && order != __ATOMIC_SEQ_CST)
		return;
	valgrind_hg_before(object);
	ANNOTATE_HAPPENS_BEFORE(object);
}

static inline __attribute__((unused)) void valgrind_after(const volatile void *object, int order)
{
	if (order == __ATOMIC_RELAXED || order == __ATOMIC_RELEASE)
		return;
	valgrind_hg_after(object);
	ANNOTATE_HAPPENS_AFTER(object);
}

/* Both know this way of waiting for a thread's end, and not the one with a limit. */
#define pthread_timedjoin_np(thread, result, until) pthread_join(thread, result)

/*
 * Whether memory is mapped is asked by msync(), which valgrind takes for a read of all of it;
 * mincore() says the same, and is taken for what it is. (<sys/mman.h> comes later, as sources have
 * settings of their own for it, and then declares this function once more.)
 */
int mincore(void *address, size_t length, unsigned char *pages);

static inline __attribute__((unused)) int valgrind_msync(void *address, size_t length, int flags)
{
	const size_t step = 256 * 4096;
	unsigned char pages[256];

	for (size_t at = 0; at < length; at += step)
		if (mincore((char *)address + at, length - at < step ? length - at : step, pages))
			return -1;
	return 0;
}
#define msync valgrind_msync

/* What an operation is given is read before it releases. */
#define VALGRIND_VOID(object, order, operation)                                                    \
	({                                                                                         \
		valgrind_shared(object, sizeof(*(object)));                                        \
		valgrind_before(object, order);                                                    \
		operation;                                                                         \
		valgrind_after(object, order);                                                     \
	})
#define VALGRIND_VALUE(object, value, order, operation)                                            \
	({                                                                                         \
		__typeof__(value) valgrind_given __attribute__((unused)) = (value);                \
		valgrind_shared(object, sizeof(*(object)));                                        \
		valgrind_before(object, order);                                                    \
		__auto_type valgrind_result = operation;                                           \
		valgrind_after(object, order);                                                     \
		valgrind_result;                                                                   \
	})
#define VALGRIND_EXCHANGE(object, expected, order, operation)                                      \
	({                                                                                         \
		__typeof__(*(expected)) valgrind_given = *(expected);                              \
		valgrind_shared(object, sizeof(*(object)));                                        \
		valgrind_before(object, order);                                                    \
		_Bool valgrind_result = operation;                                                 \
		valgrind_after(object, order);                                                     \
		if (!valgrind_result)                                                              \
			*(expected) = valgrind_given;                                              \
		valgrind_result;                                                                   \
	})

/* A load releases nothing, and a store acquires nothing, whatever the order says. */
#define VALGRIND_LOADS(order)  ((order) == __ATOMIC_SEQ_CST ? __ATOMIC_ACQUIRE : (order))
#define VALGRIND_STORES(order) ((order) == __ATOMIC_SEQ_CST ? __ATOMIC_RELEASE : (order))

/* (those without _n get their values in variables that <stdatomic.h> makes) */
#define __atomic_load(p, r, o)	      VALGRIND_VOID(p, VALGRIND_LOADS(o), __atomic_load(p, r, o))
#define __atomic_store(p, v, o)	      VALGRIND_VOID(p, VALGRIND_STORES(o), __atomic_store(p, v, o))
#define __atomic_exchange(p, v, r, o) VALGRIND_VOID(p, o, __atomic_exchange(p, v, r, o))
#define __atomic_load_n(p, o)	      VALGRIND_VALUE(p, 0, VALGRIND_LOADS(o), __atomic_load_n(p, o))
#define __atomic_store_n(p, v, o)                                                                  \
	VALGRIND_VALUE(p, v, VALGRIND_STORES(o), (__atomic_store_n(p, valgrind_given, o), 0))
#define __atomic_exchange_n(p, v, o)                                                               \
	VALGRIND_VALUE(p, v, o, __atomic_exchange_n(p, valgrind_given, o))
#define __atomic_compare_exchange(p, e, d, w, s, f)                                                \
	VALGRIND_EXCHANGE(p, e, s, __atomic_compare_exchange(p, &valgrind_given, d, w, s, f))
#define __atomic_compare_exchange_n(p, e, d, w, s, f)                                              \
	VALGRIND_EXCHANGE(p, e, s, __atomic_compare_exchange_n(p, &valgrind_given, d, w, s, f))
#define __atomic_fetch_add(p, v, o)                                                                \
	VALGRIND_VALUE(p, v, o, __atomic_fetch_add(p, valgrind_given, o))
#define __atomic_fetch_sub(p, v, o)                                                                \
	VALGRIND_VALUE(p, v, o, __atomic_fetch_sub(p, valgrind_given, o))
#define __atomic_fetch_or(p, v, o) VALGRIND_VALUE(p, v, o, __atomic_fetch_or(p, valgrind_given, o))
#define __atomic_fetch_and(p, v, o)                                                                \
	VALGRIND_VALUE(p, v, o, __atomic_fetch_and(p, valgrind_given, o))
#define __atomic_sub_fetch(p, v, o)                                                                \
	VALGRIND_VALUE(p, v, o, __atomic_sub_fetch(p, valgrind_given, o))
#define __atomic_add_fetch(p, v, o)                                                                \
	VALGRIND_VALUE(p, v, o, __atomic_add_fetch(p, valgrind_given, o))

#endif
#endif
