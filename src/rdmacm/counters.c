/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The manager's counters as text, one a line: what `verbatim counters` shows of this process.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine.h"
#include "rdmacm/face.h"
#include "verbs/manage.h"

struct text {
	char *bytes;
	size_t room, length;
};

static void add(struct text *text, const char *name, uint64_t value, const char *what)
{
	int length = snprintf(text->bytes + text->length, text->room - text->length,
			      "  %-11s %10" PRIu64 "  %s\n", name, value, what);

	if (length > 0 && (size_t)length < text->room - text->length)
		text->length += (size_t)length;
}

static void add_head(struct text *text, uint32_t slot)
{
	int length = snprintf(text->bytes, text->room, "%s, process %ld, slot %" PRIu32 "\n",
			      program_invocation_short_name, (long)getpid(), slot);

	if (length > 0 && (size_t)length < text->room)
		text->length = (size_t)length;
}

static void add_gsi(struct text *text)
{
	struct ibv_context *context = device_find(NULL, NULL);
	struct gsi_counters gsi = {0};

	if (context)
		verbatim_cm_counters(context, &gsi);
	add(text, "arrived", gsi.received,
	    "messages taken in at QP 1, for any process of the host");
	add(text, "malformed", gsi.malformed, "of them no message of a connection manager");
	add(text, "unclaimed", gsi.unclaimed, "for nobody, and answered so");
	add(text, "dropped", gsi.dropped, "lost: whom they were for had no room");
}

size_t counters_write(const struct cm *cm, unsigned int waiting, uint64_t lost, char *bytes,
		      size_t room)
{
	const struct cm_counters *now = &cm->counters;
	struct text text = {bytes, room, 0};
	struct port_load load = ports_load();

	add_head(&text, cm->slot);
	add_gsi(&text);
	add(&text, "received", now->received, "messages for this process");
	add(&text, "unreadable", now->malformed, "of them malformed");
	add(&text, "duplicate", now->duplicates, "of them come again, or too late");
	add(&text, "unknown", now->unknown, "of them of no connection that there is");
	add(&text, "stale", now->stale, "requests from a QP that was connected");
	add(&text, "refused", now->refused, "requests that nobody listens for");
	add(&text, "put-off", now->forgotten, "requests that found the backlog full");
	add(&text, "sent", now->sent, "messages of this process");
	add(&text, "resent", now->resent, "of them sent again");
	add(&text, "lost", lost, "of them not sent: too many wait for a full mailbox");
	add(&text, "probes", now->probes, "of them to ask whether a peer lives");
	add(&text, "dead", now->dead, "peers found dead");
	add(&text, "ids", cm->count, "now: connections, also those that begin or linger");
	add(&text, "peers", cm->peer_count, "now: processes that they lead to");
	add(&text, "waiting", waiting, "now: messages that a full mailbox keeps");
	add(&text, "listeners", load.listeners, "now");
	add(&text, "pending", load.pending, "now: requests that the program has not taken");
	return text.length;
}
