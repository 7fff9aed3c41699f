/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which of the two a key is, says its highest bit.
 */
#include "device/access.h"
#include "device/mr.h"
#include "device/mw.h"
#include "device/qp.h"

enum reason access_begin(const struct qp *qp, const struct pd *pd, uint32_t rkey, uint64_t addr,
			 uint64_t length, unsigned int need, struct access *access)
{
	enum reason reason;

	*access = (struct access){.length = length};
	if (!length)
		return REASON_NONE;
	if (!(rkey & MW_KEY))
		return mr_resolve_remote(qp->adapter, pd, rkey, addr, length, need, &access->place);
	reason = mw_acquire(qp, pd, rkey, &access->window);
	if (reason)
		return reason;
	reason = mw_locate(access->window, addr, length, need, &access->place);
	if (reason)
		access_end(access);
	return reason;
}

enum reason access_begin_whole(const struct qp *qp, const struct pd *pd, uint32_t rkey,
			       unsigned int need, struct access *access)
{
	enum reason reason;

	*access = (struct access){.place = NULL};
	if (!(rkey & MW_KEY))
		return mr_resolve_whole(qp->adapter, pd, rkey, need, &access->place,
					&access->length);
	reason = mw_acquire(qp, pd, rkey, &access->window);
	if (reason)
		return reason;
	access->length = access->window->length;
	reason =
	    mw_locate(access->window, access->window->iova, access->length, need, &access->place);
	if (reason)
		access_end(access);
	return reason;
}

void access_end(struct access *access)
{
	if (access->window)
		mw_release(access->window);
	access->window = NULL;
}

enum reason access_check(const struct qp *qp, const struct pd *pd, uint32_t rkey, uint64_t addr,
			 uint64_t length, unsigned int need)
{
	struct access access;
	enum reason reason = access_begin(qp, pd, rkey, addr, length, need, &access);

	if (!reason)
		access_end(&access);
	return reason;
}

enum reason access_invalidate(const struct qp *qp, const struct pd *pd, uint32_t rkey)
{
	if (rkey & MW_KEY)
		return mw_invalidate(qp, pd, rkey);
	return mr_invalidate(qp->adapter, pd, rkey);
}
