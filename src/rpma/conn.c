/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections: how they come to be, what happens to them, and their end.
 */
#include <sys/mman.h>

#include "rpma/face.h"

enum { RAW_SIZE = 4096 };

/*
 * What flushes without the native operation read into: nobody looks at it. A mapping of its own, so
 * that the heap need not be registered.
 */
static int raw_new(struct rpma_peer *peer, struct rpma_mr_local **raw)
{
	void *page =
	    mmap(NULL, RAW_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int code;

	if (page == MAP_FAILED)
		return REFUSE(RPMA_MEMORY, "a page");
	code = rpma_mr_reg(peer, page, RAW_SIZE, RPMA_MR_USAGE_READ_DST, raw);
	if (code)
		munmap(page, RAW_SIZE);
	return code;
}

static int raw_delete(struct rpma_mr_local **raw)
{
	void *page = (*raw)->mr->addr;
	int code = rpma_mr_dereg(raw);

	munmap(page, RAW_SIZE);
	return code;
}

int conn_new(struct rpma_conn_req *req, struct rpma_conn **conn_ptr)
{
	struct rpma_conn *conn = FAULT_NULL(calloc(1, sizeof(*conn)));
	int code;

	if (!conn)
		return REFUSE(RPMA_MEMORY, "a connection");
	code = raw_new(req->peer, &conn->raw);
	if (code)
		goto free_conn;
	conn->events = FAULT_NULL(rdma_create_event_channel());
	if (!conn->events) {
		code = REFUSE(RPMA_PROVIDER, "rdma_create_event_channel()");
		goto delete_raw;
	}
	if (FAULT_MINUS(rdma_migrate_id(req->queues.id, conn->events))) {
		code = REFUSE(RPMA_PROVIDER, "rdma_migrate_id()");
		goto destroy_channel;
	}
	conn->queues = req->queues;
	conn->is_passive = req->is_passive;
	conn->data = req->data;
	pthread_mutex_init(&conn->data_lock, NULL);
	atomic_init(&conn->peer_has_flush, req->peer_has_flush);
	atomic_init(&conn->peer_direct_write_to_pmem, false);
	*conn_ptr = conn;
	return 0;
destroy_channel:
	rdma_destroy_event_channel(conn->events);
delete_raw:
	raw_delete(&conn->raw);
free_conn:
	free(conn);
	return code;
}

int rpma_conn_delete(struct rpma_conn **conn_ptr)
{
	struct rpma_conn *conn;
	int code;

	if (!conn_ptr)
		return REFUSE_NULL();
	conn = __atomic_exchange_n(conn_ptr, NULL, __ATOMIC_ACQ_REL);
	if (!conn)
		return 0;
	/* the QP goes first: until then a flush may be reading into what is deregistered */
	code = queues_delete(&conn->queues);
	code = raw_delete(&conn->raw) ?: code;
	rdma_destroy_event_channel(conn->events);
	pthread_mutex_destroy(&conn->data_lock);
	free(conn->data.ptr);
	free(conn);
	return code;
}
