/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets to headers and back, by the opcode table: which extension is there and at which offset is
 * read from the table alone.
 */
#include "wire/parse.h"

/* One by one: for the whole at once the compiler takes a string instruction, which takes ten times
 * as long to start. */
static void clear_extensions(struct wire_packet *packet)
{
	packet->deth = (struct deth){0};
	packet->reth = (struct reth){0};
	packet->atomic = (struct atomiceth){0};
	packet->aeth = (struct aeth){0};
	packet->feth = (struct feth){0};
	packet->atomic_ack = 0;
	packet->imm = packet->ieth = packet->xrceth = 0;
}

static void unpack_extensions(struct wire_packet *packet, const uint8_t *bytes)
{
	const struct opcode *op = packet->op;

	if (op->header_bytes == BTH_BYTES)
		return;
	if (op->deth_at)
		deth_unpack(&packet->deth, bytes + op->deth_at);
	if (op->xrceth_at)
		packet->xrceth = xrceth_unpack(bytes + op->xrceth_at);
	if (op->feth_at)
		feth_unpack(&packet->feth, bytes + op->feth_at);
	if (op->reth_at)
		reth_unpack(&packet->reth, bytes + op->reth_at);
	if (op->atomiceth_at)
		atomiceth_unpack(&packet->atomic, bytes + op->atomiceth_at);
	if (op->aeth_at)
		aeth_unpack(&packet->aeth, bytes + op->aeth_at);
	if (op->atomicacketh_at)
		packet->atomic_ack = atomicacketh_unpack(bytes + op->atomicacketh_at);
	if (op->immdt_at)
		packet->imm = immdt_unpack(bytes + op->immdt_at);
	if (op->ieth_at)
		packet->ieth = ieth_unpack(bytes + op->ieth_at);
}

/* The one payload length that an opcode allows, -1 where there are many. */
static int fixed_payload(const struct opcode *op)
{
	if (op->flags & OPF_ATOMIC_WRITE)
		return ATOMIC_WRITE_BYTES;
	if (op->flags & OPF_CNP)
		return CNP_PAYLOAD_BYTES;
	return -1;
}

static int check_payload(const struct wire_packet *packet, size_t behind_headers)
{
	const struct opcode *op = packet->op;
	int fixed = fixed_payload(op);

	if (behind_headers && !(op->flags & OPF_PAYLOAD))
		return PARSE_UNEXPECTED_PAYLOAD;
	if (behind_headers % 4)
		return PARSE_UNALIGNED;
	if (packet->bth.pad_count > behind_headers)
		return PARSE_BAD_PAD;
	if (fixed >= 0 && behind_headers - packet->bth.pad_count != (size_t)fixed)
		return PARSE_BAD_PAYLOAD_LENGTH;
	return PARSE_OK;
}

int wire_parse(struct wire_packet *packet, const uint8_t *bytes, size_t length)
{
	size_t behind_headers;
	int error;

	packet->op = NULL;
	packet->payload = NULL;
	packet->payload_length = 0;
	packet->bth = (struct bth){0};
	clear_extensions(packet);
	if (length < BTH_BYTES)
		return PARSE_TOO_SHORT;
	bth_unpack(&packet->bth, bytes);
	packet->op = opcode_get(packet->bth.opcode);
	if (packet->bth.tver != 0)
		return PARSE_BAD_VERSION;
	if (!packet->op->name)
		return PARSE_UNKNOWN_OPCODE;
	if (length < packet->op->header_bytes)
		return PARSE_TOO_SHORT;
	behind_headers = length - packet->op->header_bytes;
	error = check_payload(packet, behind_headers);
	if (error)
		return error;
	unpack_extensions(packet, bytes);
	packet->payload = bytes + packet->op->header_bytes;
	packet->payload_length = behind_headers - packet->bth.pad_count;
	return PARSE_OK;
}

size_t wire_pack(uint8_t *bytes, const struct wire_packet *packet)
{
	const struct opcode *op = opcode_get(packet->bth.opcode);

	bth_pack(bytes, &packet->bth);
	bytes[1] = (bytes[1] & ~BTH_PAD) | wire_pad(packet->payload_length) << BTH_PAD_SHIFT;
	if (op->header_bytes == BTH_BYTES)
		return BTH_BYTES;
	if (op->deth_at)
		deth_pack(bytes + op->deth_at, &packet->deth);
	if (op->xrceth_at)
		xrceth_pack(bytes + op->xrceth_at, packet->xrceth);
	if (op->feth_at)
		feth_pack(bytes + op->feth_at, &packet->feth);
	if (op->reth_at)
		reth_pack(bytes + op->reth_at, &packet->reth);
	if (op->atomiceth_at)
		atomiceth_pack(bytes + op->atomiceth_at, &packet->atomic);
	if (op->aeth_at)
		aeth_pack(bytes + op->aeth_at, &packet->aeth);
	if (op->atomicacketh_at)
		atomicacketh_pack(bytes + op->atomicacketh_at, packet->atomic_ack);
	if (op->immdt_at)
		immdt_pack(bytes + op->immdt_at, packet->imm);
	if (op->ieth_at)
		ieth_pack(bytes + op->ieth_at, packet->ieth);
	return op->header_bytes;
}

const char *parse_error_name(int error)
{
	switch (error) {
	case PARSE_OK:
		return "well formed";
	case PARSE_TOO_SHORT:
		return "shorter than its headers";
	case PARSE_BAD_VERSION:
		return "transport header version is not 0";
	case PARSE_UNKNOWN_OPCODE:
		return "unknown opcode";
	case PARSE_UNALIGNED:
		return "payload and pad are no multiple of four bytes";
	case PARSE_BAD_PAD:
		return "pad longer than the payload";
	case PARSE_UNEXPECTED_PAYLOAD:
		return "payload in a packet that has none";
	case PARSE_BAD_PAYLOAD_LENGTH:
		return "payload length that the opcode doesn't allow";
	}
	return "unknown error";
}
