/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains and address handles.
 */
#include <errno.h>
#include <stdlib.h>

#include "device/adapter.h"
#include "device/pd.h"
#include "explain/reason.h"

void protection_hold(struct protection *protection)
{
	atomic_fetch_add(&protection->handles, 1);
}

void protection_let_go(struct protection *protection)
{
	if (atomic_fetch_sub(&protection->handles, 1) == 1)
		free(protection);
}

int pd_import(struct adapter *adapter, struct protection *protection, uint32_t handle,
	      struct pd **pd)
{
	struct pd *new;

	if (atomic_load(&adapter->pd_count) >= MAX_PD)
		return refuse(REASON_TOO_MANY_PDS, "%s has %u PDs already", adapter->name, MAX_PD);
	new = calloc(1, sizeof(*new));
	if (!new)
		return refuse(REASON_NO_MEMORY, "for a PD");
	new->adapter = adapter;
	new->protection = protection;
	new->ibv.handle = handle;
	atomic_init(&new->users, 0);
	atomic_fetch_add(&adapter->pd_count, 1);
	*pd = new;
	return 0;
}

static uint32_t next_handle(struct adapter *adapter)
{
	return atomic_fetch_add(&adapter->last_handle, 1) + 1;
}

int pd_create(struct adapter *adapter, struct pd **pd)
{
	struct protection *protection = calloc(1, sizeof(*protection));
	int ret;

	if (!protection)
		return refuse(REASON_NO_MEMORY, "for a PD");
	atomic_init(&protection->handles, 1);
	ret = pd_import(adapter, protection, next_handle(adapter), pd);
	if (ret)
		protection_let_go(protection);
	return ret;
}

int pd_create_on(struct pd *base, struct pd **pd)
{
	int ret;

	protection_hold(base->protection);
	ret = pd_import(base->adapter, base->protection, next_handle(base->adapter), pd);
	if (ret) {
		protection_let_go(base->protection);
		return ret;
	}
	(*pd)->base = base;
	atomic_fetch_add(&base->users, 1);
	return 0;
}

int pd_check_idle(const struct pd *pd)
{
	unsigned int users = atomic_load(&pd->users);

	if (users)
		return refuse(REASON_PD_BUSY, "PD %u still has %u MRs, QPs, SRQs, AHs or domains",
			      pd->ibv.handle, users);
	return 0;
}

int pd_destroy(struct pd *pd)
{
	int ret = pd_check_idle(pd);

	if (ret)
		return ret;
	if (pd->base)
		atomic_fetch_sub(&pd->base->users, 1);
	atomic_fetch_sub(&pd->adapter->pd_count, 1);
	protection_let_go(pd->protection);
	free(pd);
	return 0;
}

int ah_create(struct pd *pd, const struct ibv_ah_attr *attr, struct ah **ah)
{
	struct adapter *adapter = pd->adapter;
	struct ah *new;
	int ret;

	if (atomic_load(&adapter->ah_count) >= MAX_AH)
		return refuse(REASON_TOO_MANY_AHS, "%s has %u AHs already", adapter->name, MAX_AH);
	new = calloc(1, sizeof(*new));
	if (!new)
		return refuse(REASON_NO_MEMORY, "for an AH");
	ret = av_resolve(adapter, attr, &new->av);
	if (ret) {
		free(new);
		return ret;
	}
	spin_init(&new->lock);
	new->pd = pd;
	new->ibv.pd = &pd->ibv;
	new->ibv.handle = atomic_fetch_add(&adapter->last_handle, 1) + 1;
	atomic_fetch_add(&pd->users, 1);
	atomic_fetch_add(&adapter->ah_count, 1);
	*ah = new;
	return 0;
}

int ah_destroy(struct ah *ah)
{
	atomic_fetch_sub(&ah->pd->users, 1);
	atomic_fetch_sub(&ah->pd->adapter->ah_count, 1);
	spin_destroy(&ah->lock);
	free(ah);
	return 0;
}

struct av ah_av(struct ah *ah)
{
	struct av av;

	spin_lock(&ah->lock);
	av = ah->av;
	spin_unlock(&ah->lock);
	return av;
}

int ah_modify(struct ah *ah, const struct ibv_ah_attr *attr)
{
	struct av av;
	int ret = av_resolve(ah->pd->adapter, attr, &av);

	if (ret)
		return ret;
	spin_lock(&ah->lock);
	ah->av = av;
	spin_unlock(&ah->lock);
	return 0;
}
