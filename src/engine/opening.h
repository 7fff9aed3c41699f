/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC_RECV QPs that several processes have open. The QP is its home's, the process that created it.
 * Who opens it from another process has an opening: a struct qp that stands for it, and two
 * sockets to the home, one for calls (query, modify) that are answered, one for the QP's events. At
 * home each of them is a visitor, who keeps the QP alive as any other who has it open; visitors are
 * the mail thread's.
 *
 * When the home's process is gone, one of the openings becomes the home (heir.c), and the others
 * are its visitors. A home that closes its device stays as long as it has visitors.
 */
#ifndef ENGINE_OPENING_H
#define ENGINE_OPENING_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>

#include <infiniband/verbs.h>

#include <urcu/list.h>

#include "device/xrcd.h"
#include "engine/meeting.h"

struct adapter;
struct engine;
struct qp;

struct openings {
	pthread_mutex_t call_lock; /* while a visitor's call is carried out, or one goes; outermost,
				    * and recursive: a visitor that leaves may end what it visits */
	pthread_mutex_t lock;	   /* guards the lists; innermost */
	struct cds_list_head visitors, openings;
};

void openings_init(struct openings *openings);
void openings_fini(struct openings *openings);

/* An event of a QP of ours, for its visitors. Any lock may be held. */
void openings_tell(struct engine *engine, const struct qp *qp, enum ibv_event_type type);

/* Other processes have QPs of the adapter open. */
bool openings_have_visitors(struct engine *engine, const struct adapter *adapter);

/* An adapter goes: its QPs' visitors have nothing to visit any more. */
void openings_close(struct engine *engine, const struct adapter *adapter);

/* The mail thread's: somebody wants to open a QP of ours; and what visitors and homes say. */
void opening_visit(struct engine *engine, const struct meeting *meeting, size_t length,
		   struct mail *mail);
unsigned int openings_poll(struct engine *engine, struct pollfd *fds, unsigned int room,
			   int *timeout_ms);
void openings_polled(struct engine *engine, const struct pollfd *fds, unsigned int count);

/* The mail thread looks anew at what it waits for. Any lock may be held. */
void openings_wake(struct engine *engine);

/* Of the QP that stands for another process's. 0 or a positive errno (noted). */
int opening_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask);
int opening_query(struct qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);
void opening_free(struct qp *qp);

#endif
