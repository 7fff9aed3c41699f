/* SPDX-License-Identifier: BSD-2-Clause */
/* The port and address vectors: what changes and what stays when addresses come and go, and each
 * refusal of an address. */
#include "fixture.h"

static void the_table_has_the_addresses_in_their_order(void **state)
{
	union ibv_gid gid;

	for (unsigned int i = 0; i < GIDS; i++) {
		assert_int_equal(port_gid(&adapter.port, i, &gid), 0);
		assert_memory_equal(&gid, &fixture_gids[i], sizeof(gid));
	}
	assert_int_equal(port_gid(&adapter.port, GIDS, &gid), -ENOENT);
	assert_int_equal(port_gid(&adapter.port, MAX_GIDS, &gid), -EINVAL);
	assert_int_equal(fixture_event_count, 0);
}

static void an_address_keeps_its_index_and_a_new_one_takes_the_free_one(void **state)
{
	const union ibv_gid fewer[] = {fixture_gids[GID_LINK_LOCAL], fixture_gids[GID_IPV6]};
	const union ibv_gid other[] = {fixture_gids[GID_IPV6], peer_ipv4,
				       fixture_gids[GID_LINK_LOCAL]};
	union ibv_gid gid;

	port_set_gids(&adapter, fewer, 2);
	assert_int_equal(port_gid(&adapter.port, GID_IPV4, &gid), -ENOENT);
	assert_int_equal(port_gid(&adapter.port, GID_IPV6, &gid), 0);
	assert_memory_equal(&gid, &fixture_gids[GID_IPV6], sizeof(gid));
	port_set_gids(&adapter, other, 3);
	assert_int_equal(port_gid(&adapter.port, GID_IPV4, &gid), 0);
	assert_memory_equal(&gid, &peer_ipv4, sizeof(gid));
	assert_int_equal(fixture_event_count, 2);
	assert_int_equal(fixture_events[0].event_type, IBV_EVENT_GID_CHANGE);
	assert_int_equal(fixture_events[0].element.port_num, 1);
	port_set_gids(&adapter, other, 3);
	assert_int_equal(fixture_event_count, 2);
}

static void link_changes_raise_their_events(void **state)
{
	struct ibv_port_attr attr;

	port_set_link(&adapter, IBV_PORT_DOWN, 1500, 10000);
	assert_int_equal(fixture_events[0].event_type, IBV_EVENT_PORT_ERR);
	port_describe(&adapter, &attr);
	assert_int_equal(attr.state, IBV_PORT_DOWN);
	port_set_link(&adapter, IBV_PORT_ACTIVE, 9000, 10000);
	assert_int_equal(fixture_events[1].event_type, IBV_EVENT_PORT_ACTIVE);
	port_describe(&adapter, &attr);
	assert_int_equal(attr.state, IBV_PORT_ACTIVE);
	assert_int_equal(attr.active_mtu, IBV_MTU_4096);
	port_set_link(&adapter, IBV_PORT_ACTIVE, 1500, 10000);
	assert_int_equal(fixture_event_count, 2);
}

static void the_default_partition_is_at_index_0(void **state)
{
	uint16_t pkey;

	assert_int_equal(port_pkey(&adapter.port, 0, &pkey), 0);
	assert_int_equal(pkey, 0xffff);
	assert_int_equal(port_pkey(&adapter.port, 1, &pkey), -ENOENT);
	assert_int_equal(port_pkey(&adapter.port, MAX_PKEYS, &pkey), -EINVAL);
}

static void an_address_is_resolved(void **state)
{
	struct ibv_ah_attr attr = fixture_address(), back;
	struct av av;

	attr.grh.traffic_class = 0x28;
	attr.grh.flow_label = 0xabcde;
	assert_int_equal(av_resolve(&adapter, &attr, &av), 0);
	assert_memory_equal(&av.dgid, &peer_ipv4, sizeof(av.dgid));
	assert_memory_equal(&av.sgid, &fixture_gids[GID_IPV4], sizeof(av.sgid));
	av_describe(&av, &back);
	assert_int_equal(back.is_global, 1);
	assert_int_equal(back.port_num, 1);
	assert_int_equal(back.grh.sgid_index, GID_IPV4);
	assert_int_equal(back.grh.traffic_class, 0x28);
	assert_int_equal(back.grh.flow_label, 0xabcde);
}

static void the_hop_limit_of_unicast_is_the_routes_and_of_multicast_the_programs(void **state)
{
	struct ibv_ah_attr attr = fixture_address();
	struct av av;

	assert_int_equal(av_resolve(&adapter, &attr, &av), 0);
	assert_int_equal(av.hop_limit, 64);
	attr.grh.dgid = group_ipv4;
	assert_int_equal(av_resolve(&adapter, &attr, &av), 0);
	assert_int_equal(av.hop_limit, 1);
	attr.grh.hop_limit = 0;
	assert_int_equal(av_resolve(&adapter, &attr, &av), 0);
	assert_int_equal(av.hop_limit, 64);
}

/* ---- refusals ---- */

static void an_address_without_grh_is_refused(void **state)
{
	struct ibv_ah_attr attr = fixture_address();
	struct av av;

	attr.is_global = 0;
	assert_refused(av_resolve(&adapter, &attr, &av), EINVAL, REASON_AV_NO_GRH, "is_global");
}

static void an_address_on_another_port_is_refused(void **state)
{
	struct ibv_ah_attr attr = fixture_address();
	struct av av;

	attr.port_num = 2;
	assert_refused(av_resolve(&adapter, &attr, &av), EINVAL, REASON_AV_PORT, "port_num is 2");
}

static void an_address_from_an_empty_gid_index_is_refused(void **state)
{
	struct ibv_ah_attr attr = fixture_address();
	struct av av;

	attr.grh.sgid_index = 200;
	assert_refused(av_resolve(&adapter, &attr, &av), EINVAL, REASON_AV_SGID_INDEX, "200");
}

static void an_address_of_the_other_ip_version_is_refused(void **state)
{
	struct ibv_ah_attr attr = fixture_address();
	struct av av;

	attr.grh.sgid_index = GID_IPV6;
	assert_refused(av_resolve(&adapter, &attr, &av), EINVAL, REASON_AV_FAMILY,
		       "::ffff:192.0.2.9");
}

static void an_address_to_nobody_is_refused(void **state)
{
	struct ibv_ah_attr attr = fixture_address();
	struct av av;

	memset(&attr.grh.dgid, 0, sizeof(attr.grh.dgid));
	assert_refused(av_resolve(&adapter, &attr, &av), EINVAL, REASON_AV_NO_DGID, "dgid");
}

static void a_service_level_of_16_is_refused(void **state)
{
	struct ibv_ah_attr attr = fixture_address();
	struct av av;

	attr.sl = 16;
	assert_refused(av_resolve(&adapter, &attr, &av), EINVAL, REASON_AV_SL, "16");
}

static void an_ah_keeps_its_pd(void **state)
{
	struct ibv_ah_attr attr = fixture_address();
	struct pd *pd;
	struct ah *ah;

	assert_int_equal(pd_create(&adapter, &pd), 0);
	assert_int_equal(ah_create(pd, &attr, &ah), 0);
	assert_refused(pd_destroy(pd), EBUSY, REASON_PD_BUSY, "1 MR");
	assert_int_equal(ah_destroy(ah), 0);
	attr.is_global = 0;
	assert_int_equal(ah_create(pd, &attr, &ah), EINVAL);
	assert_int_equal(pd_destroy(pd), 0);
}

static void mtu_codes_follow_the_interface(void **state)
{
	assert_int_equal(port_mtu_of_netdev(1500), IBV_MTU_1024);
	assert_int_equal(port_mtu_of_netdev(9000), IBV_MTU_4096);
	assert_int_equal(port_mtu_of_netdev(65536), IBV_MTU_4096);
	assert_int_equal(port_mtu_of_netdev(68), IBV_MTU_256);
}

static void the_pkey_table_is_set_whole(void **state)
{
	const uint16_t keys[] = {0x8001, 0x0002}, bad[] = {0x8001, 0x8000};
	uint16_t key;

	assert_int_equal(port_set_pkeys(&adapter, keys, 2), 0);
	assert_int_equal(fixture_event_count, 1);
	assert_int_equal(fixture_events[0].event_type, IBV_EVENT_PKEY_CHANGE);
	assert_int_equal(port_pkey(&adapter.port, 1, &key), 0);
	assert_int_equal(key, 2);
	assert_int_equal(port_pkey(&adapter.port, 2, &key), -ENOENT);
	assert_int_equal(port_set_pkeys(&adapter, keys, 2), 0); /* no change, no event */
	assert_int_equal(fixture_event_count, 1);
	assert_int_equal(port_set_pkeys(&adapter, bad, 2), -EINVAL);
	assert_int_equal(port_set_pkeys(&adapter, keys, 0), -EINVAL);
	assert_int_equal(port_set_pkeys(&adapter, keys, MAX_PKEYS + 1), -EINVAL);
	assert_int_equal(port_pkey(&adapter.port, 0, &key), 0);
	assert_int_equal(key, 0x8001);
}

static void a_change_of_speed_is_told(void **state)
{
	port_set_link(&adapter, IBV_PORT_ACTIVE, 1500, 10000);
	assert_int_equal(fixture_event_count, 0);
	port_set_link(&adapter, IBV_PORT_ACTIVE, 1500, 25000);
	assert_int_equal(fixture_event_count, 1);
	assert_int_equal(fixture_events[0].event_type, IBV_EVENT_DEVICE_SPEED_CHANGE);
	assert_int_equal(fixture_events[0].element.port_num, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(the_pkey_table_is_set_whole),
	    TEST(a_change_of_speed_is_told),
	    TEST(the_table_has_the_addresses_in_their_order),
	    TEST(an_address_keeps_its_index_and_a_new_one_takes_the_free_one),
	    TEST(link_changes_raise_their_events),
	    TEST(the_default_partition_is_at_index_0),
	    TEST(an_address_is_resolved),
	    TEST(the_hop_limit_of_unicast_is_the_routes_and_of_multicast_the_programs),
	    TEST(an_address_without_grh_is_refused),
	    TEST(an_address_on_another_port_is_refused),
	    TEST(an_address_from_an_empty_gid_index_is_refused),
	    TEST(an_address_of_the_other_ip_version_is_refused),
	    TEST(an_address_to_nobody_is_refused),
	    TEST(a_service_level_of_16_is_refused),
	    TEST(an_ah_keeps_its_pd),
	    TEST(mtu_codes_follow_the_interface),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
