/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains: a file names one for all who open it.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "device/xrcd.h"
#include "verbs/face.h"

static int check(const struct ibv_xrcd_init_attr *attr)
{
	const uint32_t both = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;

	if (attr->comp_mask != both)
		return refuse(REASON_XRCD_MASK, "comp_mask is %#x", attr->comp_mask);
	if (attr->oflags & ~(O_CREAT | O_EXCL))
		return refuse(REASON_XRCD_FLAGS, "oflags is %#o", attr->oflags);
	return 0;
}

static int open_named(struct adapter *adapter, const struct ibv_xrcd_init_attr *attr,
		      struct xrcd **xrcd)
{
	int flags = (attr->oflags & O_CREAT ? XRCD_CREATE : 0) |
		    (attr->oflags & O_EXCL ? XRCD_EXCLUSIVE : 0);
	struct xrcd_file file;
	struct stat status;

	if (attr->fd == -1)
		return xrcd_open(adapter, NULL, flags, xrcd);
	if (fstat(attr->fd, &status))
		return refuse(REASON_XRCD_FD, "fd is %d: %s", attr->fd, strerror(errno));
	file = (struct xrcd_file){.device = status.st_dev, .inode = status.st_ino};
	return xrcd_open(adapter, &file, flags, xrcd);
}

static struct ibv_xrcd *open_xrcd(struct ibv_context *ibv, struct ibv_xrcd_init_attr *attr)
{
	UNCANCELLED;
	struct context *context = context_of(ibv);
	struct xrcd *xrcd = NULL;
	int ret = check(attr);

	if (!ret)
		ret = open_named(context->adapter, attr, &xrcd);
	if (ret || !xrcd) {
		errno = ret;
		return NULL;
	}
	xrcd->ibv.context = ibv;
	atomic_fetch_add(&context->objects, 1);
	return &xrcd->ibv;
}

static int close_xrcd(struct ibv_xrcd *xrcd)
{
	struct context *context = context_of(xrcd->context);
	int ret = xrcd_close(xrcd_of(xrcd));

	if (!ret)
		atomic_fetch_sub(&context->objects, 1);
	return verb_result(ret);
}

void context_set_xrcd_ops(struct verbs_context *verbs)
{
	verbs->open_xrcd = open_xrcd;
	verbs->close_xrcd = close_xrcd;
}
