/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A manager that more requests come to than there are numbers: rejections are not remembered then,
 * so that who comes last is still heard, and what is counted is what was done.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "cm/cm.h"

enum { REQUESTS = CM_MAX_IDS + 5000 };

static struct cm cm;
static unsigned int told, sent;
static enum { REJECT, REFUSE, FORGET } choice;

static void send_mad(struct cm *manager, const struct cm_path *path, const uint8_t *mad)
{
	sent++;
}

static void event(struct cm *manager, struct cm_id *id, const struct cm_event *what)
{
	assert_int_equal(what->type, CM_EVENT_REQ);
	told++;
	if (choice == REFUSE) {
		cm_refuse(manager, id, CM_REJ_INVALID_SERVICE_ID);
	} else if (choice == FORGET) {
		cm_forget(manager, id);
	} else {
		assert_int_equal(cm_reject(manager, id, CM_REJ_CONSUMER, NULL, 0, 0), 0);
		cm_release(manager, id, 0);
	}
}

static uint32_t random_bits(struct cm *manager)
{
	return 4; /* by a fair dice */
}

static int begin(void **state)
{
	static const struct cm_host host = {
	    .send = send_mad, .event = event, .random = random_bits};

	told = sent = 0;
	cm_init(&cm, 3, &host, NULL);
	return 0;
}

static int end(void **state)
{
	cm_fini(&cm);
	return 0;
}

static void request(uint32_t number)
{
	struct cm_mad mad = {
	    .attribute = CM_REQ, .local_id = number, .transaction = number, .req = {.qpn = number}};
	struct cm_path path = {.hop_limit = 64};
	uint8_t bytes[MAD_BYTES];

	cm_mad_pack(bytes, &mad);
	cm_receive(&cm, &path, bytes, sizeof(bytes), 0);
}

static void who_comes_after_a_crowd_of_rejected_ones_is_heard(void **state)
{
	choice = REJECT;
	for (uint32_t i = 1; i <= REQUESTS; i++)
		request(i);
	assert_int_equal(told, REQUESTS);
	assert_int_equal(sent, REQUESTS);
	assert_int_equal(cm.count, CM_CROWDED);
	request(1); /* it is remembered: answered, and not told again */
	assert_int_equal(told, REQUESTS);
	assert_int_equal(sent, REQUESTS + 1);
	request(REQUESTS);
	assert_int_equal(told, REQUESTS + 1);
}

static void what_becomes_of_requests_is_counted(void **state)
{
	uint8_t noise[MAD_BYTES] = {1};
	struct cm_path path = {.hop_limit = 64};

	choice = REFUSE;
	request(1);
	request(2);
	choice = FORGET;
	request(3);
	cm_receive(&cm, &path, noise, sizeof(noise), 0);
	cm_receive(&cm, &path, noise, 7, 0);
	assert_int_equal(cm.counters.received, 5);
	assert_int_equal(cm.counters.refused, 2);
	assert_int_equal(cm.counters.forgotten, 1);
	assert_int_equal(cm.counters.malformed, 2);
	assert_int_equal(cm.counters.sent, 2);
	assert_int_equal(cm.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(who_comes_after_a_crowd_of_rejected_ones_is_heard,
					    begin, end),
	    cmocka_unit_test_setup_teardown(what_becomes_of_requests_is_counted, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
