/* SPDX-License-Identifier: BSD-2-Clause */
/* Which devices there are: a network namespace of the test's own, with loopback and a pair of
 * veths. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "device/av.h"
#include "engine/engine.h"
#include "engine/holder.h"
#include "engine/netdev.h"
#include "explain/reason.h"
#include "own_network.h"

static void run(const char *command)
{
	if (system(command) != 0)
		fail_msg("%s", command);
}

static struct netdev *list;
static int count;

static const struct netdev *find(const char *name)
{
	free(list);
	list = NULL;
	count = netdev_list(&list);
	assert_true(count >= 0);
	for (int i = 0; i < count; i++)
		if (strcmp(list[i].name, name) == 0)
			return &list[i];
	return NULL;
}

static void nothing_is_up_at_first(void **state)
{
	struct device_info *devices;

	assert_int_equal(engine_list_devices(&devices), 0);
	assert_int_equal(reason_last(NULL), REASON_NO_INTERFACE);
	free(devices);
}

static void loopback_alone_is_a_device(void **state)
{
	const struct netdev *lo;
	struct device_info *devices;

	run("ip link set lo up");
	lo = find("lo");
	assert_non_null(lo);
	assert_true(lo->is_loopback && lo->has_carrier);
	assert_int_equal(lo->mtu, 65536);
	assert_int_not_equal(lo->guid, 0);
	assert_true(gid_is_ipv4(&lo->gids[0]));
	assert_memory_equal(lo->gids[0].raw + 12, "\x7f\0\0\1", 4);
	assert_int_equal(engine_list_devices(&devices), 1);
	assert_string_equal(devices[0].name, "rxe0");
	assert_int_equal(devices[0].guid, lo->guid); /* stable */
	free(devices);
}

static void a_link_needs_an_address_and_loopback_stays_last(void **state)
{
	static const uint8_t guid[8] = {0x00, 0x11, 0x22, 0xff, 0xfe, 0x33, 0x44, 0x55};
	const struct netdev *veth;
	char text[64];

	run("ip link add va address 02:11:22:33:44:55 type veth peer name vb");
	run("sysctl -qw net.ipv6.conf.va.disable_ipv6=1 net.ipv6.conf.vb.disable_ipv6=1");
	run("ip link set va up && ip link set vb up");
	assert_null(find("va"));
	run("ip addr add 192.0.2.1/24 dev va");
	veth = find("va");
	assert_non_null(veth);
	assert_ptr_equal(veth, list);
	assert_string_equal(list[count - 1].name, "lo");
	assert_memory_equal(&veth->guid, guid, 8);
	assert_int_equal(veth->gid_count, 1);
	assert_string_equal(gid_text(&veth->gids[0], text), "192.0.2.1");
}

static void a_tentative_address_waits_and_link_local_comes_first(void **state)
{
	char text[64];

	run("sysctl -qw net.ipv6.conf.va.disable_ipv6=0");
	run("ip addr add 2001:db8::1/64 dev va");
	assert_int_equal(find("va")->gid_count, 1); /* duplicate address detection takes a second */
	for (int i = 0; i < 60 && find("va")->gid_count < 3; i++)
		poll(NULL, 0, 100);
	assert_int_equal(find("va")->gid_count, 3);
	assert_string_equal(gid_text(&list->gids[0], text), "fe80::11:22ff:fe33:4455");
	assert_string_equal(gid_text(&list->gids[1], text), "192.0.2.1");
	assert_string_equal(gid_text(&list->gids[2], text), "2001:db8::1");
}

/* The kernel takes up to a second to follow. */
static void wait_for_carrier(bool expected)
{
	for (int i = 0; i < 50 && find("va")->has_carrier != expected; i++)
		poll(NULL, 0, 100);
	assert_int_equal(find("va")->has_carrier, expected);
}

static void carrier_is_the_links_state(void **state)
{
	assert_true(find("va")->has_carrier);
	run("ip link set vb down");
	wait_for_carrier(false);
	run("ip link set vb up");
	wait_for_carrier(true);
}

static void devices_can_be_named(void **state)
{
	struct device_info *devices;

	setenv("VERBATIM_PREFIX", "mlx5_", 1);
	assert_int_equal(engine_list_devices(&devices), 2);
	assert_string_equal(devices[0].name, "mlx5_0");
	assert_string_equal(devices[1].name, "mlx5_1");
	assert_string_equal(devices[1].netdev, "lo");
	free(devices);
	setenv("VERBATIM_DEVICES", "first=lo,second=va", 1);
	assert_int_equal(engine_list_devices(&devices), 2);
	assert_string_equal(devices[0].name, "first");
	assert_string_equal(devices[0].netdev, "lo");
	assert_string_equal(devices[1].name, "second");
	assert_string_equal(devices[1].dev_name, "uverbs1");
	free(devices);
	reason_clear();
	setenv("VERBATIM_DEVICES", "x=nowhere,y=va,rubbish", 1);
	assert_int_equal(engine_list_devices(&devices), 1);
	assert_string_equal(devices[0].name, "y");
	assert_int_equal(reason_last(NULL), REASON_DEVICE_SETTING);
	free(devices);
}

static void changes_are_told(void **state)
{
	int fd = netdev_watch_open();
	struct pollfd readable = {.fd = fd, .events = POLLIN};

	assert_true(fd >= 0);
	netdev_watch_drain(fd);
	assert_int_equal(poll(&readable, 1, 0), 0);
	run("ip addr add 192.0.2.7/24 dev va");
	assert_int_equal(poll(&readable, 1, 2000), 1);
	netdev_watch_drain(fd);
	assert_int_equal(poll(&readable, 1, 0), 0);
	run("ip link set va mtu 1400");
	assert_int_equal(poll(&readable, 1, 2000), 1);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_is_up_at_first),
	    cmocka_unit_test(loopback_alone_is_a_device),
	    cmocka_unit_test(a_link_needs_an_address_and_loopback_stays_last),
	    cmocka_unit_test(a_tentative_address_waits_and_link_local_comes_first),
	    cmocka_unit_test(carrier_is_the_links_state),
	    cmocka_unit_test(devices_can_be_named),
	    cmocka_unit_test(changes_are_told),
	};

	if (!own_network())
		return OWN_NETWORK_NONE;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
