/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains that processes share: each that has the domain of a file open says so by a name that
 * it has bound, "@verbatim/<slot>/xrcd/...", as long as it lives. Who shares are processes of one
 * user and network; the file is its device and inode.
 */
#ifndef ENGINE_DOMAIN_H
#define ENGINE_DOMAIN_H

#include <stdbool.h>
#include <stdint.h>

struct adapter;
struct xrcd_file;

/* The adapters' host's. */
int domain_lock(struct adapter *adapter, const struct xrcd_file *file, int *lock);
void domain_unlock(struct adapter *adapter, int lock);
bool domain_is_shared(struct adapter *adapter, const struct xrcd_file *file);
/* Says so; a number for who takes it back, or -errno. */
int domain_share(struct adapter *adapter, const struct xrcd_file *file);
void domain_unshare(struct adapter *adapter, int share);

/* Whether that slot's process has it open. It is not asked, and may be stopped, or not care. */
bool domain_is_of(const struct adapter *adapter, uint32_t slot, const struct xrcd_file *file);

#endif
