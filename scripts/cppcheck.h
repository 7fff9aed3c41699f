/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What scripts/lint tells cppcheck of liburcu's loops, which it does not follow by itself.
 */
#define cds_list_for_each_entry(p, h, m)	 for (p = first(h); p; p = next(p))
#define cds_list_for_each_entry_safe(p, n, h, m) for (p = first(h); n = next(p), p; p = n)
