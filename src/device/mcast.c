/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups. They are few and change seldom: two lists under a reader-writer lock.
 */
#include <errno.h>
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "device/adapter.h"
#include "device/mcast.h"
#include "device/qp.h"
#include "explain/reason.h"

struct mcast_group {
	struct cds_list_head node; /* in mcast.groups */
	union ibv_gid gid;
	struct cds_list_head members;
};

struct member {
	struct cds_list_head node;
	struct qp *qp;
};

void mcast_init(struct mcast *mcast)
{
	pthread_rwlock_init(&mcast->lock, NULL);
	CDS_INIT_LIST_HEAD(&mcast->groups);
}

void mcast_fini(struct mcast *mcast)
{
	pthread_rwlock_destroy(&mcast->lock);
}

static struct mcast_group *find_group(const struct mcast *mcast, const union ibv_gid *gid)
{
	struct mcast_group *group;

	cds_list_for_each_entry (group, &mcast->groups, node) {
		if (!memcmp(&group->gid, gid, sizeof(*gid)))
			return group;
	}
	return NULL;
}

static struct member *find_member(const struct mcast_group *group, const struct qp *qp)
{
	struct member *member;

	cds_list_for_each_entry (member, &group->members, node) {
		if (member->qp == qp)
			return member;
	}
	return NULL;
}

static int check(const struct qp *qp, const union ibv_gid *group)
{
	char text[INET6_ADDRSTRLEN];

	if (qp->type != IBV_QPT_UD)
		return refuse(REASON_MCAST_NOT_UD, "QP %#x is not of type UD", qp->number);
	if (!gid_is_multicast(group))
		return refuse(REASON_MCAST_GID, "%s is no multicast address",
			      inet_ntop(AF_INET6, group, text, sizeof(text)));
	return 0;
}

static int attach_locked(struct adapter *adapter, struct qp *qp, const union ibv_gid *gid,
			 bool *is_first)
{
	struct mcast_group *group = find_group(&adapter->mcast, gid);
	struct member *member;

	if (group && find_member(group, qp))
		return 0;
	if (!group && atomic_load(&adapter->mcast_count) >= MAX_MCAST_GRP)
		return refuse(REASON_TOO_MANY_GROUPS, "%s is in %u groups", adapter->name,
			      MAX_MCAST_GRP);
	member = calloc(1, sizeof(*member));
	if (!member)
		return refuse(REASON_NO_MEMORY, "for a multicast member");
	if (!group) {
		group = calloc(1, sizeof(*group));
		if (!group) {
			free(member);
			return refuse(REASON_NO_MEMORY, "for a multicast group");
		}
		group->gid = *gid;
		CDS_INIT_LIST_HEAD(&group->members);
		cds_list_add(&group->node, &adapter->mcast.groups);
		atomic_fetch_add(&adapter->mcast_count, 1);
		*is_first = true;
	}
	member->qp = qp;
	cds_list_add_tail(&member->node, &group->members);
	atomic_fetch_add(&qp->groups, 1);
	return 0;
}

int mcast_attach(struct adapter *adapter, struct qp *qp, const union ibv_gid *group, bool *is_first)
{
	int ret = check(qp, group);

	*is_first = false;
	if (ret)
		return ret;
	pthread_rwlock_wrlock(&adapter->mcast.lock);
	ret = attach_locked(adapter, qp, group, is_first);
	pthread_rwlock_unlock(&adapter->mcast.lock);
	return ret;
}

static int detach_locked(struct adapter *adapter, struct qp *qp, const union ibv_gid *gid,
			 bool *was_last)
{
	struct mcast_group *group = find_group(&adapter->mcast, gid);
	struct member *member = group ? find_member(group, qp) : NULL;
	char text[INET6_ADDRSTRLEN];

	if (!member)
		return refuse(REASON_MCAST_NOT_ATTACHED, "QP %#x is not attached to %s", qp->number,
			      inet_ntop(AF_INET6, gid, text, sizeof(text)));
	cds_list_del(&member->node);
	free(member);
	atomic_fetch_sub(&qp->groups, 1);
	if (cds_list_empty(&group->members)) {
		cds_list_del(&group->node);
		free(group);
		atomic_fetch_sub(&adapter->mcast_count, 1);
		*was_last = true;
	}
	return 0;
}

int mcast_detach(struct adapter *adapter, struct qp *qp, const union ibv_gid *group, bool *was_last)
{
	int ret = check(qp, group);

	*was_last = false;
	if (ret)
		return ret;
	pthread_rwlock_wrlock(&adapter->mcast.lock);
	ret = detach_locked(adapter, qp, group, was_last);
	pthread_rwlock_unlock(&adapter->mcast.lock);
	return ret;
}

void mcast_for_each(struct mcast *mcast, const union ibv_gid *gid,
		    void (*each)(struct qp *qp, void *data), void *data)
{
	struct mcast_group *group;
	struct member *member;

	pthread_rwlock_rdlock(&mcast->lock);
	group = find_group(mcast, gid);
	if (group) {
		cds_list_for_each_entry (member, &group->members, node)
			each(member->qp, data);
	}
	pthread_rwlock_unlock(&mcast->lock);
}
