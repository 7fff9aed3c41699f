/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exported, but in no public header; programs that use them declare them themselves.
 */
#ifndef VERBS_SYSFS_H
#define VERBS_SYSFS_H

#include <stddef.h>

/* Where sysfs is: $SYSFS_PATH without slashes at its end, or "/sys". */
const char *ibv_get_sysfs_path(void);

/*
 * Reads the first line of dir/file, at most size - 1 bytes and a final 0: its length, or -1 with
 * errno. A file that does not fit is a failure; an empty one gives 0 and leaves buf alone.
 */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

#endif
