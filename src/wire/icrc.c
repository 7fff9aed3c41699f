/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ICRC, on top of ISA-L's CRC-32. The masked headers and the BTH are put together in 48 or 68 bytes
 * and summed in one go, which is as fast as any state kept for them; the rest is summed where it
 * lies, but for what is so short that a call of its own would take longer than a copy.
 */
#include "wire/icrc.h"

enum {
	LRH_ONES = 8,
	IPV4_LENGTH_AT = LRH_ONES + 2,
	IPV4_ID_AT = LRH_ONES + 4,
	IPV4_UDP_AT = LRH_ONES + 20,
	IPV6_LENGTH_AT = LRH_ONES + 4,
	IPV6_UDP_AT = LRH_ONES + 40,
	UDP_BYTES = 8,
	UDP_LENGTH_AT = 4, /* in the UDP header */
	UDP_NUMBER = 17,
	BTH_MASKED_AT = 4, /* FECN, BECN and reserved bits */
	IPV4_BYTES = 20,
	SHORT_BYTES = 64, /* BTH to pad */
	BLOCK_BYTES = ICRC_IPV6_PREFIX + SHORT_BYTES,
};

static void udp_header(uint8_t *p, uint16_t sport, uint16_t dport)
{
	put_be16(p, sport);
	put_be16(p + 2, dport);
	put_be16(p + 4, 0);
	put_be16(p + 6, 0xffff);
}

void icrc_flow_ipv4(struct icrc_flow *flow, const uint8_t saddr[4], const uint8_t daddr[4],
		    uint16_t sport, uint16_t dport)
{
	static const uint8_t ip[12] = {0x45, 0xff, 0,	 0,	     0,	   0,
				       0x40, 0,	   0xff, UDP_NUMBER, 0xff, 0xff};

	memset(flow->prefix, 0xff, LRH_ONES);
	memcpy(flow->prefix + LRH_ONES, ip, sizeof(ip));
	memcpy(flow->prefix + LRH_ONES + 12, saddr, 4);
	memcpy(flow->prefix + LRH_ONES + 16, daddr, 4);
	udp_header(flow->prefix + IPV4_UDP_AT, sport, dport);
	flow->prefix_bytes = ICRC_IPV4_PREFIX;
}

void icrc_flow_ipv6(struct icrc_flow *flow, const uint8_t saddr[16], const uint8_t daddr[16],
		    uint16_t sport, uint16_t dport)
{
	static const uint8_t ip[8] = {0x6f, 0xff, 0xff, 0xff, 0, 0, UDP_NUMBER, 0xff};

	memset(flow->prefix, 0xff, LRH_ONES);
	memcpy(flow->prefix + LRH_ONES, ip, sizeof(ip));
	memcpy(flow->prefix + LRH_ONES + 8, saddr, 16);
	memcpy(flow->prefix + LRH_ONES + 24, daddr, 16);
	udp_header(flow->prefix + IPV6_UDP_AT, sport, dport);
	flow->prefix_bytes = ICRC_IPV6_PREFIX;
}

/* The masked headers of a packet of this length. How many bytes they are. */
static size_t put_headers(uint8_t block[BLOCK_BYTES], const struct icrc_flow *flow, size_t length,
			  uint16_t id)
{
	uint16_t udp_length = UDP_BYTES + length + ICRC_BYTES;
	size_t at = flow->prefix_bytes;

	memcpy(block, flow->prefix, ICRC_IPV6_PREFIX);
	if (icrc_flow_is_ipv4(flow)) {
		put_be16(block + IPV4_LENGTH_AT, IPV4_BYTES + udp_length);
		put_be16(block + IPV4_ID_AT, id);
	} else {
		put_be16(block + IPV6_LENGTH_AT, udp_length);
	}
	put_be16(block + at - UDP_BYTES + UDP_LENGTH_AT, udp_length);
	return at;
}

uint32_t icrc_begin(const struct icrc_flow *flow, const uint8_t bth[BTH_BYTES], size_t length,
		    uint16_t id)
{
	uint8_t block[BLOCK_BYTES];
	size_t at = put_headers(block, flow, length, id);

	memcpy(block + at, bth, BTH_BYTES);
	block[at + BTH_MASKED_AT] = 0xff;
	return crc32_gzip_refl(0, block, at + BTH_BYTES);
}

uint32_t icrc_compute(const struct icrc_flow *flow, const uint8_t *bytes, size_t length,
		      uint16_t id)
{
	uint8_t block[BLOCK_BYTES];
	size_t at;

	if (length > SHORT_BYTES)
		return icrc_add(icrc_begin(flow, bytes, length, id), bytes + BTH_BYTES,
				length - BTH_BYTES);
	at = put_headers(block, flow, length, id);
	memcpy(block + at, bytes, length);
	block[at + BTH_MASKED_AT] = 0xff;
	return icrc_add(0, block, at + length);
}

/* What a sum is `count` zeros further on. */
static uint32_t sum_move(uint32_t sum, size_t count)
{
	static const uint8_t zeros[4096];

	while (count) {
		size_t piece = count < sizeof(zeros) ? count : sizeof(zeros);

		sum = icrc_sum(sum, zeros, piece);
		count -= piece;
	}
	return sum;
}

/* What a byte of ones instead of zeros does to a CRC, `behind` bytes before the end. */
static uint32_t effect_of_ones(size_t behind)
{
	return sum_move(icrc_sum(0, (const uint8_t[]){0xff}, 1), behind);
}

void icrc_run_begin(struct icrc_run *run, const struct icrc_flow *flow, size_t length)
{
	uint8_t block[BLOCK_BYTES];

	if (run->length != length)
		run->masked = effect_of_ones(length - BTH_MASKED_AT - 1);
	run->flow = *flow;
	run->length = length;
	run->prefix = icrc_add(0, block, put_headers(block, flow, length, 0));
}

static bool is_same_flow(const struct icrc_flow *a, const struct icrc_flow *b)
{
	return a->prefix_bytes == b->prefix_bytes && !memcmp(a->prefix, b->prefix, a->prefix_bytes);
}

void icrc_run_resume(struct icrc_run *run, const struct icrc_flow *flow, size_t length)
{
	if (run->length != length || !is_same_flow(&run->flow, flow))
		icrc_run_begin(run, flow, length);
}

const struct icrc_run *icrc_singles_run(struct icrc_singles *singles, const struct icrc_flow *flow,
					size_t length)
{
	bool is_again = singles->length == length;

	singles->length = length;
	if (!is_again)
		return NULL;
	icrc_run_resume(&singles->run, flow, length);
	return &singles->run;
}

/* By the halves of its lower byte, behind which stand 22 bytes, and of the one before that. */
static uint32_t effect_of_id(uint16_t id)
{
	static const uint32_t halves[4][16] = {
	    {0x00000000, 0x9b73ead4, 0xed96d3e9, 0x76e5393d, 0x005ca193, 0x9b2f4b47, 0xedca727a,
	     0x76b998ae, 0x00b94326, 0x9bcaa9f2, 0xed2f90cf, 0x765c7a1b, 0x00e5e2b5, 0x9b960861,
	     0xed73315c, 0x7600db88},
	    {0x00000000, 0x0172864c, 0x02e50c98, 0x03978ad4, 0x05ca1930, 0x04b89f7c, 0x072f15a8,
	     0x065d93e4, 0x0b943260, 0x0ae6b42c, 0x09713ef8, 0x0803b8b4, 0x0e5e2b50, 0x0f2cad1c,
	     0x0cbb27c8, 0x0dc9a184},
	    {0x00000000, 0x81256527, 0xd93bcc0f, 0x581ea928, 0x69069e5f, 0xe823fb78, 0xb03d5250,
	     0x31183777, 0xd20d3cbe, 0x53285999, 0x0b36f0b1, 0x8a139596, 0xbb0ba2e1, 0x3a2ec7c6,
	     0x62306eee, 0xe3150bc9},
	    {0x00000000, 0x7f6b7f3d, 0xfed6fe7a, 0x81bd8147, 0x26dcfab5, 0x59b78588, 0xd80a04cf,
	     0xa7617bf2, 0x4db9f56a, 0x32d28a57, 0xb36f0b10, 0xcc04742d, 0x6b650fdf, 0x140e70e2,
	     0x95b3f1a5, 0xead88e98},
	};

	return halves[0][id & 15] ^ halves[1][id >> 4 & 15] ^ halves[2][id >> 8 & 15] ^
	       halves[3][id >> 12];
}

/* Nothing but the identification is other than in icrc_run_begin(). */
static bool is_plain(const uint8_t *bytes)
{
	return !bytes[BTH_MASKED_AT];
}

static uint32_t plain_compute(const struct icrc_run *run, const uint8_t *bytes, uint16_t id)
{
	uint32_t prefix = run->prefix;

	if (icrc_flow_is_ipv4(&run->flow))
		prefix ^= effect_of_id(id);
	return icrc_add(prefix, bytes, run->length) ^ run->masked;
}

uint32_t icrc_run_compute(const struct icrc_run *run, const uint8_t *bytes, uint16_t id)
{
	return is_plain(bytes) ? plain_compute(run, bytes, id)
			       : icrc_compute(&run->flow, bytes, run->length, id);
}

void icrc_run_seal(const struct icrc_run *run, uint8_t *bytes, uint16_t id)
{
	if (is_plain(bytes))
		put_le32(bytes + run->length, plain_compute(run, bytes, id));
	else
		icrc_seal(&run->flow, bytes, run->length, id);
}

/* From the effect of the lowest power of x in a byte, which is its bit 7, to those of all that its
 * halves can be. The effect of the lowest power in the byte before. */
static uint32_t put_halves(uint32_t low[16], uint32_t high[16], uint32_t effect)
{
	const uint32_t generator = 0xedb88320;

	for (int bit = 7; bit >= 0; bit--) {
		uint32_t *half = bit > 3 ? high : low, of = 1u << (bit & 3);

		half[0] = 0;
		half[of] = effect;
		effect = (effect >> 1) ^ (generator & -(effect & 1));
	}
	for (uint32_t value = 3; value < 16; value++) {
		uint32_t rest = value & (value - 1);

		low[value] = low[rest] ^ low[value ^ rest];
		high[value] = high[rest] ^ high[value ^ rest];
	}
	return effect;
}

void icrc_shift_begin(struct icrc_shift *shift, size_t count)
{
	uint32_t effect;

	if (count && shift->count == count)
		return;
	shift->count = count;
	effect = sum_move(1u << 31, count);
	for (int i = sizeof(effect) - 1; i >= 0; i--)
		effect = put_halves(shift->halves[2 * i], shift->halves[2 * i + 1], effect);
}

static void begin_length(struct icrc_summed *summed, size_t length)
{
	uint32_t effect = sum_move(icrc_sum(0, (const uint8_t[]){0x80}, 1), length - BTH_BYTES);

	summed->length = length;
	icrc_shift_begin(&summed->payload, length - BTH_BYTES);
	for (int i = PSN_BYTES - 1; i >= 0; i--)
		effect = put_halves(summed->psn[2 * i], summed->psn[2 * i + 1], effect);
	effect = sum_move(effect_of_id(0x80), length);
	for (int i = 0; i < ID_BYTES; i++)
		effect = put_halves(summed->id[2 * i], summed->id[2 * i + 1], effect);
}

static uint32_t effect_of_psn_byte(const struct icrc_summed *summed, const uint8_t *psn, int i)
{
	return summed->psn[2 * i][psn[i] & 15] ^ summed->psn[2 * i + 1][psn[i] >> 4];
}

static uint32_t effect_of_id_byte(const struct icrc_summed *summed, uint16_t id, int i)
{
	return summed->id[2 * i][id >> 8 * i & 15] ^ summed->id[2 * i + 1][id >> (8 * i + 4) & 15];
}

static void begin_upper(struct icrc_summed *summed, const uint8_t *psn, uint16_t id,
			uint32_t uppers)
{
	summed->uppers = uppers;
	summed->upper = summed->headers ^ effect_of_psn_byte(summed, psn, 0) ^
			effect_of_psn_byte(summed, psn, 1) ^ effect_of_id_byte(summed, id, 1);
}

static void begin_headers(struct icrc_summed *summed, const struct icrc_run *run,
			  const uint8_t *bytes)
{
	uint8_t bth[BTH_BYTES] = {0};

	memcpy(summed->bth, bytes, BTH_PSN_AT);
	memcpy(bth, bytes, BTH_PSN_AT);
	bth[BTH_MASKED_AT] = 0xff;
	summed->prefix = run->prefix;
	summed->headers = ~icrc_shift(&summed->payload, ~icrc_add(run->prefix, bth, BTH_BYTES));
}

/* From one packet to the next it is mostly the lowest bytes alone that change. */
uint32_t icrc_summed_compute(struct icrc_summed *summed, const struct icrc_run *run,
			     const uint8_t *bth, uint16_t id, uint32_t sum)
{
	const uint8_t *psn = bth + BTH_PSN_AT;
	bool is_begun = summed->length == run->length;
	uint32_t uppers;

	if (!icrc_flow_is_ipv4(&run->flow))
		id = 0; /* adds nothing */
	uppers = psn[0] << 16 | psn[1] << 8 | id >> 8;
	if (!is_begun)
		begin_length(summed, run->length);
	if (!is_begun || summed->prefix != run->prefix ||
	    memcmp(summed->bth, bth, BTH_PSN_AT) != 0) {
		begin_headers(summed, run, bth);
		begin_upper(summed, psn, id, uppers);
	} else if (summed->uppers != uppers) {
		begin_upper(summed, psn, id, uppers);
	}
	return summed->upper ^ sum ^ effect_of_psn_byte(summed, psn, 2) ^
	       effect_of_id_byte(summed, id, 0);
}

void icrc_summed_seal(struct icrc_summed *summed, const struct icrc_run *run, uint8_t *bytes,
		      uint16_t id)
{
	uint8_t *icrc = bytes + run->length;

	put_le32(icrc, icrc_summed_compute(summed, run, bytes, id, get_le32(icrc)));
}

/*
 * A CRC is a polynomial over GF(2) modulo the generator, bit 31 its lowest power. The product of
 * two.
 */
static uint32_t gf_multiply(uint32_t a, uint32_t b)
{
	const uint32_t generator = 0xedb88320;
	uint32_t product = 0;

	for (int i = 0; i < 32; i++) {
		product ^= b & -(a >> 31);
		a <<= 1;
		b = (b >> 1) ^ (generator & -(b & 1));
	}
	return product;
}

/* Undo what `count` zero bytes do to a CRC: multiply by x to the power of -8 * count. count is a
 * multiple of 4. */
static uint32_t crc_rewind(uint32_t crc, uint32_t count)
{
	/* x to the power of -32, and each next one the square of the one before. */
	static const uint32_t inverse[14] = {
	    0x5b358fd3, 0x2e9bb40b, 0x12a59a49, 0x8df9403d, 0x5139de12, 0xba340226, 0x29c45641,
	    0x12fbc105, 0xecd30c55, 0x3755ebd8, 0x24ee460c, 0x23783fcf, 0x479933fc, 0xa39442a5,
	};

	count /= 4;
	for (int i = 0; i < 14 && count; i++, count /= 2)
		if (count & 1)
			crc = gf_multiply(crc, inverse[i]);
	return crc;
}

/*
 * CRCs are linear: packets that differ in the identification alone differ in their CRCs by those
 * two bytes moved through all that follows. Move the difference back; if two bytes can explain it,
 * nothing but they is left.
 */
static bool find_id(uint32_t difference, size_t length, uint16_t *id)
{
	uint32_t bytes = crc_rewind(difference, ICRC_IPV4_PREFIX - IPV4_ID_AT + length);

	if (bytes > 0xffff)
		return false;
	*id ^= __builtin_bswap16(bytes);
	return true;
}

/* A FLUSH as Soft-RoCE seals it. */
static bool is_right_twice(const struct icrc_flow *flow, const uint8_t *bytes, size_t length,
			   uint16_t *id)
{
	uint32_t icrc = icrc_add(icrc_compute(flow, bytes, length, *id), bytes, length);
	uint32_t difference = icrc ^ get_le32(bytes + length);

	return difference == 0 || (icrc_flow_is_ipv4(flow) && find_id(difference, 2 * length, id));
}

bool icrc_is_right(const struct icrc_flow *flow, const uint8_t *bytes, size_t udp_length,
		   uint16_t *id)
{
	size_t length = udp_length - ICRC_BYTES;
	uint32_t difference;

	if (udp_length < BTH_BYTES + ICRC_BYTES || udp_length % 4 ||
	    udp_length > 0xffff - UDP_BYTES - IPV4_BYTES)
		return false;
	if (!icrc_flow_is_ipv4(flow))
		*id = 0;
	difference = icrc_compute(flow, bytes, length, *id) ^ get_le32(bytes + length);
	if (difference == 0)
		return true;
	if (icrc_flow_is_ipv4(flow) && find_id(difference, length, id))
		return true;
	return icrc_is_of_flush(bytes) && is_right_twice(flow, bytes, length, id);
}
