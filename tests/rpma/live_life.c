/* SPDX-License-Identifier: BSD-2-Clause */
/* A connection's life: it comes, every operation does what it is for, it goes. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

#define ok(call) assert_int_equal(call, 0)

static struct rig rig;
static struct end *const client = &rig.ends[CLIENT], *const server = &rig.ends[SERVER];

static int up(void **state)
{
	int code = rig_up(&rig, NULL, NULL);

	return code;
}

static int down(void **state)
{
	char *memory = server->memory;
	int code = rig_down(&rig);

	free(memory);
	return code;
}

static void expect(struct end *end, uintptr_t id, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;

	ok(rig_completion(end->conn, NULL, &wc));
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, id);
	assert_int_equal(wc.opcode, opcode);
}

static void write_and_read(void **state)
{
	memset(client->memory, 'w', 5000);
	ok(rpma_write(client->conn, client->remote, 100, client->mr, 0, 5000,
		      RPMA_F_COMPLETION_ALWAYS, (void *)1));
	expect(client, 1, IBV_WC_RDMA_WRITE);
	assert_memory_equal(server->memory + 100, client->memory, 5000);
	assert_int_equal(server->memory[99], 0);
	assert_int_equal(server->memory[5100], 0);
	ok(rpma_read(client->conn, client->mr, 30000, client->remote, 100, 5000,
		     RPMA_F_COMPLETION_ALWAYS, (void *)2));
	expect(client, 2, IBV_WC_RDMA_READ);
	assert_memory_equal(client->memory + 30000, client->memory, 5000);
}

static void nothing_is_written_and_read(void **state)
{
	ok(rpma_write(client->conn, NULL, 0, NULL, 0, 0, RPMA_F_COMPLETION_ALWAYS, (void *)3));
	expect(client, 3, IBV_WC_RDMA_WRITE);
	ok(rpma_read(client->conn, NULL, 0, NULL, 0, 0, RPMA_F_COMPLETION_ALWAYS, (void *)4));
	expect(client, 4, IBV_WC_RDMA_READ);
}

static void on_error_is_silent_on_success(void **state)
{
	struct rpma_cq *cq;
	struct ibv_wc wc;

	ok(rpma_write(client->conn, client->remote, 0, client->mr, 0, 8, RPMA_F_COMPLETION_ON_ERROR,
		      (void *)5));
	ok(rpma_write(client->conn, client->remote, 0, client->mr, 0, 8, RPMA_F_COMPLETION_ALWAYS,
		      (void *)6));
	expect(client, 6, IBV_WC_RDMA_WRITE);
	ok(rpma_conn_get_cq(client->conn, &cq));
	assert_int_equal(rpma_cq_get_wc(cq, 1, &wc, NULL), RPMA_E_NO_COMPLETION);
}

static void immediates(void **state)
{
	struct ibv_wc wc;

	ok(rpma_recv(server->conn, server->mr, 0, 100, (void *)7));
	ok(rpma_recv(server->conn, NULL, 0, 0, (void *)8));
	ok(rpma_send_with_imm(client->conn, client->mr, 0, 10, RPMA_F_COMPLETION_ALWAYS, 0x12345678,
			      (void *)9));
	expect(client, 9, IBV_WC_SEND);
	ok(rig_completion(server->conn, NULL, &wc));
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.byte_len, 10);
	assert_true(wc.wc_flags & IBV_WC_WITH_IMM);
	assert_int_equal(ntohl(wc.imm_data), 0x12345678);
	ok(rpma_write_with_imm(client->conn, client->remote, 64, client->mr, 0, 20,
			       RPMA_F_COMPLETION_ALWAYS, 42, (void *)10));
	expect(client, 10, IBV_WC_RDMA_WRITE);
	ok(rig_completion(server->conn, NULL, &wc));
	assert_int_equal(wc.wr_id, 8);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(ntohl(wc.imm_data), 42);
}

static void messages_both_ways(void **state)
{
	strcpy(client->memory, "to the server");
	ok(rpma_recv(server->conn, server->mr, 1000, 100, (void *)11));
	ok(rpma_send(client->conn, client->mr, 0, 14, RPMA_F_COMPLETION_ALWAYS, (void *)12));
	expect(client, 12, IBV_WC_SEND);
	expect(server, 11, IBV_WC_RECV);
	assert_string_equal(server->memory + 1000, "to the server");
	ok(rpma_recv(client->conn, NULL, 0, 0, (void *)13));
	ok(rpma_send(server->conn, NULL, 0, 0, RPMA_F_COMPLETION_ALWAYS, (void *)14));
	expect(server, 14, IBV_WC_SEND);
	expect(client, 13, IBV_WC_RECV);
}

static void atomic_write(void **state)
{
	const char word[8] = "8 bytes";
	struct ibv_wc wc;

	ok(rpma_atomic_write(client->conn, client->remote, 2048, word, RPMA_F_COMPLETION_ALWAYS,
			     (void *)15));
	ok(rig_completion(client->conn, NULL, &wc));
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, 15);
	assert_memory_equal(server->memory + 2048, word, 8);
	assert_int_equal(rpma_atomic_write(client->conn, client->remote, 2049, word,
					   RPMA_F_COMPLETION_ALWAYS, NULL),
			 RPMA_E_INVAL);
}

static void flushes(void **state)
{
	struct ibv_wc wc;

	for (int type = RPMA_FLUSH_TYPE_PERSISTENT; type <= RPMA_FLUSH_TYPE_VISIBILITY; type++) {
		ok(rpma_write(client->conn, client->remote, 0, client->mr, 0, 4096,
			      RPMA_F_COMPLETION_ON_ERROR, NULL));
		ok(rpma_flush(client->conn, client->remote, 0, 4096, type, RPMA_F_COMPLETION_ALWAYS,
			      (void *)16));
		ok(rig_completion(client->conn, NULL, &wc));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, 16);
		/* both ends are ours: nobody reads instead */
		assert_int_not_equal(wc.opcode, IBV_WC_RDMA_READ);
	}
	assert_int_equal(
	    rpma_flush(client->conn, client->remote, 0, 8, 2, RPMA_F_COMPLETION_ALWAYS, NULL),
	    RPMA_E_INVAL);
}

static void a_range_outside_breaks_the_connection_with_a_reason(void **state)
{
	struct ibv_wc wc;

	ok(rpma_write(client->conn, client->remote, RIG_SIZE - 4, client->mr, 0, 8,
		      RPMA_F_COMPLETION_ON_ERROR, (void *)17));
	ok(rig_completion(client->conn, NULL, &wc));
	assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(wc.wr_id, 17);
	assert_int_not_equal(wc.vendor_err, 0);
}

static void numbers_and_regions(void **state)
{
	struct rpma_cq *rcq = (void *)1;
	uint32_t numbers[SIDES];
	int flush_type = 0;
	size_t size = 0;
	void *ptr = NULL;

	ok(rpma_conn_get_qp_num(client->conn, &numbers[CLIENT]));
	ok(rpma_conn_get_qp_num(server->conn, &numbers[SERVER]));
	assert_int_not_equal(numbers[CLIENT], numbers[SERVER]);
	ok(rpma_conn_get_rcq(client->conn, &rcq));
	assert_null(rcq);
	ok(rpma_mr_get_ptr(client->mr, &ptr));
	assert_ptr_equal(ptr, client->memory);
	ok(rpma_mr_get_size(client->mr, &size));
	assert_int_equal(size, RIG_SIZE);
	ok(rpma_mr_remote_get_size(client->remote, &size));
	assert_int_equal(size, RIG_SIZE);
	ok(rpma_mr_remote_get_flush_type(client->remote, &flush_type));
	assert_int_equal(flush_type,
			 RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(write_and_read, up, down),
	    cmocka_unit_test_setup_teardown(nothing_is_written_and_read, up, down),
	    cmocka_unit_test_setup_teardown(on_error_is_silent_on_success, up, down),
	    cmocka_unit_test_setup_teardown(immediates, up, down),
	    cmocka_unit_test_setup_teardown(messages_both_ways, up, down),
	    cmocka_unit_test_setup_teardown(atomic_write, up, down),
	    cmocka_unit_test_setup_teardown(flushes, up, down),
	    cmocka_unit_test_setup_teardown(a_range_outside_breaks_the_connection_with_a_reason, up,
					    down),
	    cmocka_unit_test_setup_teardown(numbers_and_regions, up, down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
