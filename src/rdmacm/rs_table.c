/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which descriptors are rsockets: a table of pages, read without a lock.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rdmacm/face.h"
#include "rdmacm/rs.h"

enum { PAGE = 1024, PAGES = 1024 };

static _Atomic(struct rsock *) *_Atomic pages[PAGES];
static pthread_mutex_t growing = PTHREAD_MUTEX_INITIALIZER;

int rs_fail(int error)
{
	errno = error;
	return -1;
}

int rs_insert(struct rsock *rs)
{
	unsigned int page = (unsigned int)rs->fd / PAGE;
	int error = 0;

	if (page >= PAGES)
		return EMFILE;
	pthread_mutex_lock(&growing);
	if (!pages[page])
		pages[page] = calloc(PAGE, sizeof(struct rsock *));
	if (pages[page])
		pages[page][rs->fd % PAGE] = rs;
	else
		error = ENOMEM;
	pthread_mutex_unlock(&growing);
	return error;
}

void rs_remove(struct rsock *rs)
{
	pages[rs->fd / PAGE][rs->fd % PAGE] = NULL;
}

void rs_table_hold(void)
{
	pthread_mutex_lock(&growing);
}

void rs_table_release(void)
{
	pthread_mutex_unlock(&growing);
}

void rs_table_abandon(void)
{
	for (int i = 0; i < PAGES; i++)
		for (int j = 0; pages[i] && j < PAGE; j++)
			pages[i][j] = NULL;
}

static struct rsock *look(int fd)
{
	unsigned int page = (unsigned int)fd / PAGE;

	return fd >= 0 && page < PAGES && pages[page] ? pages[page][fd % PAGE] : NULL;
}

bool rs_is(int fd)
{
	return look(fd) != NULL;
}

struct rsock *rs_find(int fd)
{
	struct rsock *rs = look(fd);

	if (!rs)
		errno = EBADF;
	return rs;
}

struct rsock *rs_create(int domain, int type)
{
	struct rsock *rs = calloc(1, sizeof(*rs));

	if (!rs)
		return NULL;
	rs->domain = domain;
	rs->type = type;
	rs->fd = rs->ready_fd = rs->waiter_fd = -1;
	pthread_mutex_init(&rs->lock, NULL);
	pthread_cond_init(&rs->changed, NULL);
	CDS_INIT_LIST_HEAD(&rs->pollers);
	CDS_INIT_LIST_HEAD(&rs->embryos);
	CDS_INIT_LIST_HEAD(&rs->ready);
	CDS_INIT_LIST_HEAD(&rs->mappings);
	rs->sq_size = rs->rq_size = RS_QUEUE_DEFAULT;
	rs->sbuf_size = rs->rbuf_size = RS_BUFFER_DEFAULT;
	rs->inline_size = RS_INLINE_DEFAULT;
	rs->keep_idle = 7200;
	return rs;
}

static void free_mappings(struct rsock *rs)
{
	struct rs_mapping *mapping, *next;

	cds_list_for_each_entry_safe (mapping, next, &rs->mappings, node) {
		if (mapping->mr)
			ibv_dereg_mr(mapping->mr);
		free(mapping);
	}
}

void rs_free(struct rsock *rs)
{
	if (rs->id && rs->id->qp)
		rdma_destroy_qp(rs->id);
	free_mappings(rs);
	if (rs->smr)
		ibv_dereg_mr(rs->smr);
	if (rs->rmr)
		ibv_dereg_mr(rs->rmr);
	if (rs->target_mr)
		ibv_dereg_mr(rs->target_mr);
	if (rs->cq) {
		ibv_ack_cq_events(rs->cq, rs->unacked_events);
		ibv_destroy_cq(rs->cq);
	}
	if (rs->comp)
		ibv_destroy_comp_channel(rs->comp);
	if (rs->id)
		rdma_destroy_id(rs->id);
	if (rs->channel)
		channel_free((struct channel *)rs->channel);
	if (rs->ready_fd >= 0)
		close(rs->ready_fd);
	if (rs->waiter_fd >= 0)
		close(rs->waiter_fd);
	free(rs->sbuf);
	free(rs->rbuf);
	free(rs->targets);
	free(rs->messages);
	free(rs->route);
	pthread_cond_destroy(&rs->changed);
	pthread_mutex_destroy(&rs->lock);
	free(rs);
}
