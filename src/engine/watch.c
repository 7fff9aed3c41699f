/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The watch thread: follows changes of interfaces and addresses while a device is open.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/bias.h"
#include "engine/fence.h"
#include "engine/netdev.h"
#include "engine/reachable.h"
#include "engine/state.h"

enum { SETTLE_MS = 20, BIAS_MS = 100 }; /* changes come in bursts */

static void update_all(struct engine *engine)
{
	struct netdev *list = NULL;
	struct station *station;
	int count = netdev_list(&list);

	if (count < 0)
		return;
	if (engine_lock_running(engine)) {
		cds_list_for_each_entry (station, &engine->stations, node)
			station_update(station, netdev_find(list, count, station->info.ifindex));
		engine_unlock();
	}
	free(list);
}

void *watch_thread(void *data)
{
	struct engine *engine = data;
	struct pollfd fds[2] = {
	    {.fd = engine->stop_fd, .events = POLLIN},
	    {.fd = engine->watch_fd, .events = POLLIN},
	};

	reachable_say_sleeper(&engine->reachable, gettid());
	/* who ends soon does not wait for it */
	if (!bias_is_allowed() && poll(fds, 1, BIAS_MS) == 0)
		fence_prepare();
	while (!fds[0].revents) {
		if (poll(fds, 2, -1) <= 0 || !fds[1].revents)
			continue;
		poll(fds, 1, SETTLE_MS);
		netdev_watch_drain(engine->watch_fd);
		update_all(engine);
	}
	reachable_say_sleeper(&engine->reachable, 0);
	return NULL;
}
