/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For the few paths on which a small message of this host is made and taken in: there the calls
 * from one small function to the next are a good part of the time. What is `whole` has in itself
 * all that it calls, as far as the compiler sees it, but for what is `apart`, another path, and
 * `aside`: ends that a message without trouble does not come to.
 */
#ifndef BASE_HOT_H
#define BASE_HOT_H

#define WHOLE __attribute__((flatten))
#define APART __attribute__((noinline))
#define ASIDE __attribute__((noinline, cold))

#endif
