/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a tool watches each block of memory (AddressSanitizer, valgrind's build): then pools have
 * malloc() for each of theirs, so that what is used too late or too far is found.
 */
#ifndef BASE_WATCHED_H
#define BASE_WATCHED_H

#if defined(__SANITIZE_ADDRESS__) || defined(LATCH_IS_MUTEX)
#define IS_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_WATCHED 1
#endif
#endif
#ifndef IS_WATCHED
#define IS_WATCHED 0
#endif

#endif
