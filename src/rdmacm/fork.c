/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork(). The child has none of our threads, and what the parent has open is the parent's: so the
 * child lets go of it without a word to anybody, else its exit would disconnect the parent's peers.
 * Ids and rsockets that it inherits are of no use to it; those that it makes itself begin anew.
 *
 * The engine's own handlers are registered before these (devices are open by then), so its locks
 * come after ours, as everywhere.
 */
#include <pthread.h>

#include "rdmacm/face.h"
#include "rdmacm/rs.h"

static void before_fork(void)
{
	rs_listeners_hold();
	rs_datagrams_hold();
	rs_epolls_hold();
	rs_table_hold();
	manager_lock();
}

static void release(void)
{
	manager_unlock();
	rs_table_release();
	rs_epolls_release();
	rs_datagrams_release();
	rs_listeners_release();
}

static void forsake(struct id *id, void *data)
{
	channel_forsake((struct channel *)id->cm.channel);
	id->conn = NULL;
	id->service = NULL;
	id->listener = NULL;
	id->delivered = 0;
	id->state = ID_CLOSED;
}

static void child_of_fork(void)
{
	manager_abandon();
	ids_each(forsake, NULL);
	ports_abandon();
	devices_abandon();
	rs_table_abandon();
	rs_listeners_abandon();
	rs_datagrams_abandon();
	release();
}

static void follow_forks(void)
{
	pthread_atfork(before_fork, release, child_of_fork);
}

void fork_follow(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, follow_forks);
}
