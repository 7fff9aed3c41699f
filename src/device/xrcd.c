/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains and the handles on them.
 */
#include <stdlib.h>

#include "device/adapter.h"
#include "device/xrcd.h"
#include "explain/reason.h"

static struct xrc_domain *find(struct adapter *adapter, const struct xrcd_file *file)
{
	struct xrc_domain *domain;

	cds_list_for_each_entry (domain, &adapter->domains, node)
		if (!domain->is_private && domain->file.device == file->device &&
		    domain->file.inode == file->inode)
			return domain;
	return NULL;
}

struct xrc_domain *xrc_domain_find(struct adapter *adapter, const struct xrcd_file *file)
{
	struct xrc_domain *domain;

	pthread_mutex_lock(&adapter->lock);
	domain = find(adapter, file);
	if (domain)
		domain->references++;
	pthread_mutex_unlock(&adapter->lock);
	return domain;
}

/* 0 or -errno. */
static int share(struct adapter *adapter, struct xrc_domain *domain)
{
	domain->share = -1;
	if (domain->is_private || !adapter->host->share_domain)
		return 0;
	domain->share = adapter->host->share_domain(adapter, &domain->file);
	return domain->share < 0 ? domain->share : 0;
}

static int create(struct adapter *adapter, const struct xrcd_file *file, struct xrc_domain **new)
{
	struct xrc_domain *domain = calloc(1, sizeof(*domain));
	int error;

	if (!domain)
		return refuse(REASON_NO_MEMORY, "for an XRC domain");
	domain->is_private = !file;
	if (file)
		domain->file = *file;
	error = share(adapter, domain);
	if (error) {
		free(domain);
		return refuse(REASON_XRCD_NAME, "error %d", -error);
	}
	cds_list_add_tail(&domain->node, &adapter->domains);
	*new = domain;
	return 0;
}

/* With the adapter's lock held, and that of the domain. A process of its own that has it open is as
 * good as one of ours. */
static int open_domain(struct adapter *adapter, const struct xrcd_file *file, int flags,
		       struct xrc_domain **domain)
{
	const struct adapter_host *host = adapter->host;
	bool exists;

	*domain = file ? find(adapter, file) : NULL;
	exists =
	    *domain || (file && host->is_domain_shared && host->is_domain_shared(adapter, file));
	if (!exists && !(flags & XRCD_CREATE))
		return refuse(REASON_XRCD_NONE, "inode %llu on %s",
			      (unsigned long long)(file ? file->inode : 0), adapter->name);
	if (exists && flags & XRCD_EXCLUSIVE)
		return refuse(REASON_XRCD_EXISTS, "inode %llu on %s",
			      (unsigned long long)file->inode, adapter->name);
	return *domain ? 0 : create(adapter, file, domain);
}

static int open_alone(struct adapter *adapter, const struct xrcd_file *file, int flags,
		      struct xrc_domain **domain)
{
	int ret;

	pthread_mutex_lock(&adapter->lock);
	ret = open_domain(adapter, file, flags, domain);
	if (!ret)
		(*domain)->references++;
	pthread_mutex_unlock(&adapter->lock);
	return ret;
}

/* Whether a domain is there, and that it is there from now on, is one step for the whole host. */
static int open_shared(struct adapter *adapter, const struct xrcd_file *file, int flags,
		       struct xrc_domain **domain)
{
	int lock, ret = adapter->host->lock_domain(adapter, file, &lock);

	if (ret)
		return ret;
	ret = open_alone(adapter, file, flags, domain);
	adapter->host->unlock_domain(adapter, lock);
	return ret;
}

int xrcd_open(struct adapter *adapter, const struct xrcd_file *file, int flags, struct xrcd **xrcd)
{
	struct xrcd *new = calloc(1, sizeof(*new));
	int ret;

	if (!new)
		return refuse(REASON_NO_MEMORY, "for an XRCD");
	if (file && adapter->host->lock_domain)
		ret = open_shared(adapter, file, flags, &new->domain);
	else
		ret = open_alone(adapter, file, flags, &new->domain);
	if (ret) {
		free(new);
		return ret;
	}
	new->adapter = adapter;
	*xrcd = new;
	return 0;
}

int xrcd_close(struct xrcd *xrcd)
{
	unsigned int users = atomic_load(&xrcd->users);

	if (users)
		return refuse(REASON_XRCD_BUSY, "%u QPs and SRQs of it are left", users);
	xrc_domain_put(xrcd->adapter, xrcd->domain);
	free(xrcd);
	return 0;
}

void xrc_domain_get(struct adapter *adapter, struct xrc_domain *domain)
{
	pthread_mutex_lock(&adapter->lock);
	domain->references++;
	pthread_mutex_unlock(&adapter->lock);
}

void xrc_domain_put(struct adapter *adapter, struct xrc_domain *domain)
{
	bool is_last;

	pthread_mutex_lock(&adapter->lock);
	is_last = --domain->references == 0;
	if (is_last)
		cds_list_del(&domain->node);
	if (is_last && domain->share >= 0)
		adapter->host->unshare_domain(adapter, domain->share);
	pthread_mutex_unlock(&adapter->lock);
	if (is_last)
		free(domain);
}
