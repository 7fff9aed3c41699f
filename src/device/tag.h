/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tag list of a tag matching SRQ: buffers that wait for messages of their tag, oldest first.
 *
 * A message that finds no tag is unexpected, and is the program's to match. As long as the program
 * has not said that it has seen all unexpected ones, tags that it adds may be meant for one of
 * them: so they take part only when both sides are in step again (rdma-core,
 * Documentation/tag_matching.md).
 */
#ifndef DEVICE_TAG_H
#define DEVICE_TAG_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include <urcu/list.h>

struct recv_wqe;
struct srq;

struct tag_list {
	pthread_mutex_t lock; /* guards all below; held while an operation completes, which may wake
				 a program */
	char *entries;	      /* max of them, each with room for the SRQ's max_sge */
	size_t stride;
	uint32_t max;
	struct cds_list_head posted, free; /* posted: oldest first */
	uint32_t unexpected;		   /* messages that found no tag */
	uint32_t handled;		   /* of these, what the program says that it has seen */
};

/* 0 or -ENOMEM. */
int tag_list_init(struct tag_list *list, uint32_t max, uint32_t max_sge);
void tag_list_fini(struct tag_list *list);

/*
 * ibv_post_srq_ops(): each operation is done at once, and completes in the SRQ's CQ if it is
 * signaled or fails. 0, or a positive errno (noted) with *bad set: those before it are done.
 */
int tag_post(struct srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad, uint64_t now);

/* Takes the oldest buffer whose tag matches into `wqe`. False: the message is unexpected, and is
 * counted as such. */
bool tag_match(struct srq *srq, uint64_t tag, struct recv_wqe *wqe);

/* An unexpected message was not delivered after all. */
void tag_unexpected_undo(struct srq *srq);

#endif
