/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager on anything: the input says which messages come in, in any order and with
 * ids that exist and that do not, what the program does, and how the time goes. In the end nothing
 * may be left.
 */
#include <stdlib.h>
#include <string.h>

#include "cm/cm.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { IDS = 8 };

struct play {
	const uint8_t *data;
	size_t left;
	uint64_t now;
	struct cm cm;
	struct cm_id *ids[IDS];
	uint32_t seen; /* ids that were in messages of ours */
};

static uint8_t take(struct play *play)
{
	if (!play->left)
		return 0;
	play->left--;
	return *play->data++;
}

static void send_mad(struct cm *cm, const struct cm_path *path, const uint8_t *bytes)
{
	struct play *play = cm->data;
	struct cm_mad mad;

	if (!cm_mad_unpack(&mad, bytes, MAD_BYTES))
		abort();
	play->seen = mad.local_id;
}

static void event(struct cm *cm, struct cm_id *id, const struct cm_event *told)
{
	struct play *play = cm->data;
	uint8_t choice = take(play);

	if (told->type == CM_EVENT_REQ || told->type == CM_EVENT_SIDR_REQ) {
		if (choice < 64) {
			cm_refuse(cm, id, choice);
		} else if (choice < 96) {
			cm_forget(cm, id);
		} else {
			struct cm_id **place = &play->ids[choice % IDS];

			if (*place)
				cm_release(cm, *place, play->now);
			*place = id;
		}
		return;
	}
	for (int i = 0; i < IDS && choice < 80; i++)
		if (play->ids[i] == id) {
			play->ids[i] = NULL;
			cm_release(cm, id, play->now);
		}
}

static uint32_t random_bits(struct cm *cm)
{
	return take(cm->data) * 0x01010101u;
}

static const struct cm_host host = {.send = send_mad, .event = event, .random = random_bits};

static struct cm_path path_of(uint8_t choice)
{
	struct cm_path path = {.hop_limit = 64, .is_here = choice & 2};

	path.dgid.raw[15] = choice & 3;
	return path;
}

static void come_in(struct play *play)
{
	struct cm_path path = path_of(take(play));
	struct cm_mad mad = {.attribute = CM_REQ + take(play) % 11, .transaction = take(play) & 1};
	uint8_t bytes[MAD_BYTES], choice = take(play);
	struct cm_id *id = play->ids[choice % IDS];

	mad.local_id = (choice & 0x40) && id ? id->remote : take(play) & 3;
	mad.remote_id = (choice & 0x80) && id ? id->local : play->seen;
	if (mad.attribute == CM_SIDR_REP)
		mad.local_id = mad.remote_id;
	if (mad.attribute == CM_REJ)
		mad.rej.reason = take(play) % 12;
	if (mad.attribute == CM_REQ)
		mad.req.qpn = take(play) & 3;
	cm_mad_pack(bytes, &mad);
	if (choice & 0x20)
		bytes[take(play)] ^= take(play);
	cm_receive(&play->cm, &path, bytes, choice == 0xff ? 255 : MAD_BYTES, play->now);
}

static void do_something(struct play *play)
{
	uint8_t choice = take(play);
	struct cm_id **place = &play->ids[choice % IDS];
	struct cm_path path = path_of(choice);
	struct cm_mad mad = {0};
	struct cm *cm = &play->cm;

	if (!*place) {
		*place = cm_create(cm, &path, NULL);
		if (*place && choice & 0x40)
			cm_sidr_request(cm, *place, &mad, play->now);
		else if (*place)
			cm_connect(cm, *place, &mad, play->now);
		return;
	}
	switch (choice >> 4 & 7) {
	case 0:
		cm_accept(cm, *place, &mad, play->now);
		break;
	case 1:
		cm_establish(cm, *place, play->now);
		break;
	case 2:
		cm_reject(cm, *place, CM_REJ_CONSUMER, "no", 2, play->now);
		break;
	case 3:
		cm_disconnect(cm, *place, play->now);
		break;
	case 4:
		cm_sidr_reply(cm, *place, &mad, play->now);
		break;
	case 5:
		cm_notify_established(cm, *place, play->now);
		break;
	case 6:
		cm_peer_died(cm, choice & 1, play->now);
		break;
	default:
		cm_release(cm, *place, play->now);
		*place = NULL;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct play play;

	play = (struct play){.data = data, .left = size, .now = 1};
	cm_init(&play.cm, 1, &host, &play);
	while (play.left) {
		uint8_t choice = take(&play);

		if (choice < 150) {
			come_in(&play);
		} else if (choice < 230) {
			do_something(&play);
		} else {
			play.now += (uint64_t)take(&play) << 24;
			cm_run(&play.cm, play.now);
		}
	}
	for (int i = 0; i < IDS; i++)
		if (play.ids[i])
			cm_release(&play.cm, play.ids[i], play.now);
	while (cm_deadline(&play.cm) != UINT64_MAX) {
		play.now = cm_deadline(&play.cm);
		cm_run(&play.cm, play.now);
	}
	if (play.cm.count)
		abort();
	cm_fini(&play.cm);
	return 0;
}
