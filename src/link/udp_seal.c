/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows of packets that are offered under a seal. The middle of a long message is copied to where it
 * belongs as soon as its ICRC is found right; where nobody looks there before the message is over,
 * the copy may as well find that: it reads each line once instead of twice. What is not sound, or
 * is not taken, stays as it came, for the way that all packets go.
 */
#define _GNU_SOURCE
#include <urcu/compiler.h>

#include "device/memory.h"
#include "link/udp_link.h"
#include "wire/filled.h"

struct row {
	struct seal seal;
	struct udp_receiver *receiver;
	const struct icrc_run *run;
	uint8_t *first;
	uint32_t segment, count;
	uint16_t id;	     /* of the first */
	uint8_t wire_opcode; /* of all, as they came */
	uint32_t fill_sum;   /* of what they are filled up with; 0: they are not */
};

static bool open_packet(struct seal *seal, const uint8_t *payload, char *to, uint32_t length)
{
	struct row *row = caa_container_of(seal, struct row, seal);
	const uint8_t *packet = payload - BTH_BYTES;
	uint16_t id = (uint16_t)(row->id + (uint32_t)(packet - row->first) / row->segment);
	uint8_t bth[BTH_BYTES];
	uint32_t sum = 0;

	if (memory_load_sum(to, (const char *)payload, length, &sum))
		return false;
	if (row->fill_sum)
		sum = icrc_shift(&row->receiver->emptying, sum) ^ row->fill_sum;
	memcpy(bth, packet, sizeof(bth));
	bth[0] = row->wire_opcode;
	return icrc_summed_compute(&row->receiver->opening, row->run, bth, id, sum) ==
	       get_le32(packet + row->run->length);
}

/* All is as in the packet before but PSN, which is the next, and payload. */
static bool goes_on(const uint8_t *last, const uint8_t *next, const struct icrc_run *run)
{
	uint32_t kind = run->length - 2; /* where one that is filled says how */

	return udp_follows(last, next) &&
	       (next[0] != OPCODE_FILLED || !memcmp(next + kind, last + kind, 2));
}

static uint32_t count_row(const struct row *row, uint32_t total)
{
	const uint8_t *last = row->first;
	uint32_t count = 1;

	for (; (count + 1) * row->segment <= total; count++, last += row->segment)
		if (!goes_on(last, last + row->segment, row->run))
			break;
	return count;
}

bool udp_may_offer(const struct icrc_run *run, const uint8_t *packet)
{
	return opcode_may_be_sealed(packet[0] == OPCODE_FILLED ? packet[run->length - 2]
							       : packet[0]);
}

/* How long it was before it was filled. */
static bool begin(struct row *row, uint32_t *length)
{
	uint8_t *packet = row->first, fill[FILL_MAX];
	uint32_t filled = row->run->length;

	row->wire_opcode = packet[0];
	*length = filled;
	if (packet[0] != OPCODE_FILLED)
		return true;
	if (!packet_empty(packet, length))
		return false;
	packet[0] = OPCODE_FILLED;
	icrc_shift_begin(&row->receiver->emptying, filled - *length);
	fill_make(fill, packet[filled - 2], filled - *length);
	row->fill_sum = icrc_sum(0, fill, filled - *length);
	return true;
}

static void put_opcodes(const struct row *row, uint32_t from, uint8_t opcode)
{
	for (uint32_t i = from; i < row->count; i++)
		row->first[i * row->segment] = opcode;
}

uint32_t udp_offer(struct udp_receiver *receiver, const struct udp_offer *offer,
		   const struct packet *like, udp_deliver deliver, void *data)
{
	struct row row = {
	    .seal = {.open = open_packet},
	    .receiver = receiver,
	    .run = offer->run,
	    .first = offer->bytes,
	    .segment = offer->segment,
	    .id = offer->id,
	};
	struct packet packet = *like;
	uint32_t length;

	if (!begin(&row, &length))
		return 0;
	row.count = count_row(&row, offer->total);
	if (row.fill_sum)
		put_opcodes(&row, 0, row.first[row.run->length - 2]);
	packet.bth = row.first;
	packet.length = length;
	packet.stride = row.segment;
	packet.more = row.count - 1;
	packet.seal = &row.seal;
	deliver(&packet, data);
	put_opcodes(&row, row.seal.opened, row.wire_opcode);
	return row.seal.opened;
}
