/* SPDX-License-Identifier: BSD-2-Clause */
/* Ethernet frames taken apart, whatever their length, and Toeplitz hashes by Microsoft's vectors.
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <infiniband/verbs.h>

#include "base/bytes.h"
#include "wire/frame.h"

enum { ADDRESSES4 = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 };

static const uint8_t key[TOEPLITZ_KEY] = {
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
    0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
    0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

/* A frame of IPv4 or IPv6 and TCP or UDP; its length. */
static size_t build(uint8_t *to, const char *source, const char *destination, uint16_t from,
		    uint16_t port, uint8_t protocol)
{
	uint8_t *ip = to + FRAME_MIN, *transport;

	memset(to, 0, 200);
	if (strchr(source, ':')) {
		put_be16(to + 12, FRAME_TYPE_IPV6);
		ip[0] = 0x60;
		ip[6] = protocol;
		inet_pton(AF_INET6, source, ip + 8);
		inet_pton(AF_INET6, destination, ip + 24);
		transport = ip + 40;
	} else {
		put_be16(to + 12, FRAME_TYPE_IPV4);
		ip[0] = 0x45;
		ip[9] = protocol;
		inet_pton(AF_INET, source, ip + 12);
		inet_pton(AF_INET, destination, ip + 16);
		transport = ip + 20;
	}
	put_be16(transport, from);
	put_be16(transport + 2, port);
	return (size_t)(transport - to) + 20;
}

static uint32_t hash(const char *source, const char *destination, uint16_t from, uint16_t port,
		     uint64_t fields)
{
	uint8_t bytes[200];
	struct frame frame;

	assert_int_equal(
	    frame_parse(&frame, bytes, build(bytes, source, destination, from, port, FRAME_TCP)),
	    0);
	return frame_hash(&frame, key, fields);
}

static void the_published_vectors_hold(void **state)
{
	const uint64_t ports = IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP;
	const uint64_t addresses6 = IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6;

	assert_int_equal(hash("66.9.149.187", "161.142.100.80", 2794, 1766, ADDRESSES4),
			 0x323e8fc2);
	assert_int_equal(hash("66.9.149.187", "161.142.100.80", 2794, 1766, ADDRESSES4 | ports),
			 0x51ccc178);
	assert_int_equal(hash("199.92.111.2", "65.69.140.83", 14230, 4739, ADDRESSES4), 0xd718262a);
	assert_int_equal(hash("199.92.111.2", "65.69.140.83", 14230, 4739, ADDRESSES4 | ports),
			 0xc626b0ea);
	assert_int_equal(
	    hash("3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1", 2794, 1766, addresses6),
	    0x2cc18cd5);
	assert_int_equal(
	    hash("3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1", 2794, 1766, addresses6 | ports),
	    0x40207d3d);
}

static void what_a_frame_does_not_have_is_not_hashed(void **state)
{
	assert_int_equal(hash("1.2.3.4", "5.6.7.8", 1, 2, IBV_RX_HASH_SRC_PORT_UDP), 0);
	assert_int_equal(hash("1.2.3.4", "5.6.7.8", 1, 2, IBV_RX_HASH_SRC_IPV6), 0);
}

static void headers_are_found(void **state)
{
	uint8_t bytes[200];
	struct frame frame;
	size_t length = build(bytes, "1.2.3.4", "5.6.7.8", 1234, FRAME_PORT_VXLAN, FRAME_UDP);

	assert_int_equal(frame_parse(&frame, bytes, length), 0);
	assert_ptr_equal(frame.ipv4, bytes + 14);
	assert_ptr_equal(frame.udp, bytes + 34);
	assert_ptr_equal(frame.vxlan, bytes + 42);
	assert_null(frame.tcp);
	assert_null(frame.ipv6);
	assert_int_equal(frame.protocol, FRAME_UDP);
}

static void vlan_tags_are_passed_by(void **state)
{
	uint8_t bytes[200], tagged[208];
	struct frame frame;
	size_t length = build(bytes, "1.2.3.4", "5.6.7.8", 1, 2, FRAME_TCP);

	memcpy(tagged, bytes, 12);
	put_be16(tagged + 12, FRAME_TYPE_QINQ);
	put_be16(tagged + 14, 77);
	put_be16(tagged + 16, FRAME_TYPE_VLAN);
	put_be16(tagged + 18, 0xa123);
	memcpy(tagged + 20, bytes + 12, length - 12);
	assert_int_equal(frame_parse(&frame, tagged, length + 8), 0);
	assert_int_equal(frame.vlan_tag, 0xa123);
	assert_int_equal(frame.type, FRAME_TYPE_IPV4);
	assert_ptr_equal(frame.ipv4, tagged + 22);
	assert_non_null(frame.tcp);
}

static void later_fragments_have_no_ports(void **state)
{
	uint8_t bytes[200];
	struct frame frame;
	size_t length = build(bytes, "1.2.3.4", "5.6.7.8", 1, 2, FRAME_UDP);

	put_be16(bytes + 14 + 6, 185);
	assert_int_equal(frame_parse(&frame, bytes, length), 0);
	assert_non_null(frame.ipv4);
	assert_null(frame.udp);
}

/* Under a sanitizer a byte too far shows. */
static void any_length_is_survived(void **state)
{
	static const char *const from[] = {"1.2.3.4", "3ffe::1"}, *const to[] = {"5.6.7.8",
										 "3ffe::2"};
	static const uint8_t protocols[] = {FRAME_TCP, FRAME_UDP, FRAME_GRE, FRAME_ESP};
	uint8_t bytes[200];
	struct frame frame;

	for (int family = 0; family < 2; family++)
		for (int i = 0; i < 4; i++) {
			size_t whole = build(bytes, from[family], to[family], 1, FRAME_PORT_VXLAN,
					     protocols[i]);

			for (size_t length = 0; length <= whole; length++) {
				uint8_t *exact = malloc(length ? length : 1);

				memcpy(exact, bytes, length);
				assert_int_equal(frame_parse(&frame, exact, length),
						 length < FRAME_MIN ? -1 : 0);
				if (length >= FRAME_MIN)
					frame_hash(&frame, key, 0xff);
				free(exact);
			}
		}
}

static void a_header_that_lies_about_its_length_is_none(void **state)
{
	uint8_t bytes[200];
	struct frame frame;
	size_t length = build(bytes, "1.2.3.4", "5.6.7.8", 1, 2, FRAME_TCP);

	bytes[14] = 0x44; /* 16 bytes */
	assert_int_equal(frame_parse(&frame, bytes, length), 0);
	assert_null(frame.ipv4);
	bytes[14] = 0x4f; /* 60, more than there are */
	assert_int_equal(frame_parse(&frame, bytes, length), 0);
	assert_null(frame.ipv4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_published_vectors_hold),
	    cmocka_unit_test(what_a_frame_does_not_have_is_not_hashed),
	    cmocka_unit_test(headers_are_found),
	    cmocka_unit_test(vlan_tags_are_passed_by),
	    cmocka_unit_test(later_fragments_have_no_ports),
	    cmocka_unit_test(any_length_is_survived),
	    cmocka_unit_test(a_header_that_lies_about_its_length_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
