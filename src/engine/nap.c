/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The timer of nap.h.
 */
#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "engine/nap.h"

int nap_open(struct nap *nap)
{
	nap->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	return nap->fd < 0 ? -errno : 0;
}

void nap_close(struct nap *nap)
{
	if (nap->fd >= 0)
		close(nap->fd);
	nap->fd = -1;
}

static void set(const struct nap *nap, long ns)
{
	const struct itimerspec left = {.it_value.tv_nsec = ns};

	timerfd_settime(nap->fd, 0, &left, NULL);
}

/* Half of the time is left for the poller to put it off before it is over. */
void nap_begin(struct nap *nap, uint64_t now)
{
	atomic_store_explicit(&nap->put_off_at, now - NAP_EVERY_NS / 2, memory_order_relaxed);
	set(nap, NAP_NS);
}

void nap_put_off_now(struct nap *nap, uint64_t now)
{
	atomic_store_explicit(&nap->put_off_at, now, memory_order_relaxed);
	set(nap, NAP_LONGEST_NS);
}
