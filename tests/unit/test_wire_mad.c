/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection management datagrams against those of two kernels: each unpacks to what it says, and
 * packs to the same bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "recorded.h"
#include "wire/mad.h"
#include "wire/parse.h"

struct seen {
	int count[16];
	int with_address;
};

/* Whether it is for the GSI; its MAD. */
static bool find_mad(const struct recorded *r, struct cm_mad *mad, const uint8_t **bytes)
{
	struct wire_packet packet;

	if (wire_parse(&packet, r->bth, r->length - ICRC_BYTES) != PARSE_OK ||
	    packet.bth.dest_qp != 1)
		return false;
	assert_int_equal(packet.deth.qkey, GSI_QKEY);
	assert_int_equal(packet.deth.src_qp, 1);
	*bytes = packet.payload;
	assert_true(cm_mad_unpack(mad, packet.payload, packet.payload_length));
	return true;
}

static void packs_to_the_same(const struct recorded *r, void *context)
{
	struct seen *seen = context;
	uint8_t again[MAD_BYTES];
	const uint8_t *bytes;
	struct cm_mad mad;

	if (!find_mad(r, &mad, &bytes))
		return;
	seen->count[mad.attribute - CM_REQ]++;
	cm_mad_pack(again, &mad);
	assert_memory_equal(again, bytes, MAD_BYTES);
}

static void test_recorded_mads_pack_to_the_same_bytes(void **state)
{
	struct seen seen = {0};

	recorded_each(packs_to_the_same, &seen);
	assert_true(seen.count[CM_REQ - CM_REQ] > 5);
	assert_true(seen.count[CM_REP - CM_REQ] > 5);
	assert_true(seen.count[CM_RTU - CM_REQ] > 5);
	assert_true(seen.count[CM_DREQ - CM_REQ] > 5);
	assert_true(seen.count[CM_DREP - CM_REQ] > 5);
	assert_true(seen.count[CM_SIDR_REQ - CM_REQ] > 0);
	assert_true(seen.count[CM_SIDR_REP - CM_REQ] > 0);
}

static void request_names_its_addresses(const struct recorded *r, void *context)
{
	struct seen *seen = context;
	const uint8_t *bytes;
	uint8_t ip_bytes[IP_CM_BYTES];
	struct cm_mad mad;
	struct ip_cm ip;

	if (!find_mad(r, &mad, &bytes) || (mad.attribute != CM_REQ && mad.attribute != CM_SIDR_REQ))
		return;
	assert_true(ip_cm_unpack(&ip, mad.private_data));
	assert_int_equal(ip.ip_version, r->is_ipv4 ? 4 : 6);
	assert_memory_equal(ip.source + (r->is_ipv4 ? 12 : 0), r->ip + (r->is_ipv4 ? 12 : 8),
			    r->is_ipv4 ? 4 : 16);
	assert_memory_equal(ip.destination + (r->is_ipv4 ? 12 : 0), r->ip + (r->is_ipv4 ? 16 : 24),
			    r->is_ipv4 ? 4 : 16);
	ip_cm_pack(ip_bytes, &ip);
	assert_memory_equal(ip_bytes, mad.private_data, IP_CM_BYTES);
	if (mad.attribute == CM_REQ) {
		assert_int_equal(mad.req.service_id >> 16, 0x106);
		assert_int_equal(mad.req.pkey, 0xffff);
		assert_in_range(mad.req.mtu, 1, 5);
		assert_in_range(mad.req.retry_count, 1, 7);
		assert_int_equal(mad.req.primary.local_lid, 0xffff);
		assert_int_equal(mad.req.primary.hop_limit, 64);
	} else {
		assert_int_equal(mad.sidr_req.service_id >> 16, 0x111);
	}
	seen->with_address++;
}

static void test_recorded_requests_name_their_addresses(void **state)
{
	struct seen seen = {0};

	recorded_each(request_names_its_addresses, &seen);
	assert_true(seen.with_address > 8);
}

/* What no kernel sent: the bits where the specification has them. */
static void test_rej_mra_and_apr_pack_and_unpack(void **state)
{
	uint8_t bytes[MAD_BYTES], word[] = "no";
	struct cm_mad mad = {.attribute = CM_REJ, .local_id = 1, .remote_id = 2}, back;

	mad.rej.message = CM_REJECTED_REP;
	mad.rej.reason = CM_REJ_CONSUMER;
	mad.rej.additional_length = 4;
	mad.rej.additional[3] = 9;
	mad.private_data = word;
	mad.private_length = sizeof(word);
	cm_mad_pack(bytes, &mad);
	assert_int_equal(bytes[24 + 8], 0x40);
	assert_int_equal(bytes[24 + 11], 28);
	assert_true(cm_mad_unpack(&back, bytes, sizeof(bytes)));
	assert_int_equal(back.rej.message, CM_REJECTED_REP);
	assert_int_equal(back.rej.reason, CM_REJ_CONSUMER);
	assert_int_equal(back.rej.additional_length, 4);
	assert_int_equal(back.rej.additional[3], 9);
	assert_memory_equal(back.private_data, word, sizeof(word));
	assert_int_equal(back.private_length, REJ_ROOM);

	mad = (struct cm_mad){.attribute = CM_MRA, .mra = {CM_REJECTED_REQ, 24}};
	cm_mad_pack(bytes, &mad);
	assert_true(cm_mad_unpack(&back, bytes, sizeof(bytes)));
	assert_int_equal(back.mra.service_timeout, 24);
	mad = (struct cm_mad){.attribute = CM_APR, .apr = {CM_APR_UNSUPPORTED}};
	cm_mad_pack(bytes, &mad);
	assert_true(cm_mad_unpack(&back, bytes, sizeof(bytes)));
	assert_int_equal(back.apr.status, CM_APR_UNSUPPORTED);
}

static void test_what_is_no_cm_mad_is_refused(void **state)
{
	uint8_t bytes[MAD_BYTES];
	struct cm_mad mad = {.attribute = CM_RTU}, back;

	cm_mad_pack(bytes, &mad);
	assert_true(cm_mad_unpack(&back, bytes, MAD_BYTES));
	assert_false(cm_mad_unpack(&back, bytes, MAD_BYTES - 1));
	for (int i = 0; i < 4; i++) {
		bytes[i] ^= 0x40;
		assert_false(cm_mad_unpack(&back, bytes, MAD_BYTES));
		bytes[i] ^= 0x40;
	}
	bytes[17] = CM_APR + 1;
	assert_false(cm_mad_unpack(&back, bytes, MAD_BYTES));
	bytes[17] = CM_REQ - 1;
	assert_false(cm_mad_unpack(&back, bytes, MAD_BYTES));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_recorded_mads_pack_to_the_same_bytes),
	    cmocka_unit_test(test_recorded_requests_name_their_addresses),
	    cmocka_unit_test(test_rej_mra_and_apr_pack_and_unpack),
	    cmocka_unit_test(test_what_is_no_cm_mad_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
