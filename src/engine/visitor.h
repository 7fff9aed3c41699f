/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an opening and its QP's home say to each other, what an opening is, and how the mail thread
 * gets at both.
 */
#ifndef ENGINE_VISITOR_H
#define ENGINE_VISITOR_H

#include "engine/opening.h"

enum visitor_kind {
	VISITOR_QUERY = 1,
	VISITOR_MODIFY,
	VISITOR_LEAVE,
	VISITOR_ENTER, /* a query; with the ledger and the mailbox of the QP's slot */
};

enum { VISIT_FDS = 2, ENTER_FDS = 2 };

struct visitor_call {
	uint32_t kind;
	int mask;
	struct ibv_qp_attr attr;
};

struct visitor_answer {
	int error; /* a positive errno, its reason and live values; of ENTER: EAGAIN */
	uint32_t reason;
	char live[160];
	struct ibv_qp_attr attr; /* as it is now */
};

enum opening_state {
	OPENING_VISITS, /* the home answers calls */
	OPENING_SEEKS,	/* the home is gone, the next one is still to be found */
	OPENING_HEIR,	/* it is here */
	OPENING_GONE,
};

/* The place of each descriptor among those that a fork closes; -1: none. */
struct opening {
	struct cds_list_head node;
	struct engine *engine;
	struct qp *qp; /* stands for the QP */
	struct ledger *ledger;
	int ledger_place, mailbox_place;

	/* The lock is held for a call at a time; what is below changes under it and, but for
	 * is_broken and has_left, under the openings' call lock. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum opening_state state;
	bool is_broken;	     /* does not answer */
	bool has_left;	     /* the program has no part in it any more */
	unsigned int visits; /* counts the homes */
	int calls, events;
	int calls_place, events_place;
	struct qp *heir;  /* the QP itself */
	uint32_t told;	  /* of its events since, 1 << type; under the lists' lock */
	int mail_place;	  /* of its mailbox, whose name makes us the heir */
	uint64_t seek_at; /* not before */
	unsigned int seeks;
};

/* To whoever is at the address, with two new sockets. 0 or -errno. Nobody forks meanwhile. */
int opening_connect(struct opening *opening, const struct mail_address *to, bool waits);
void opening_disconnect(struct opening *opening);

/* heir.c, with the call lock: the home is gone; what is due of the search for the next one, true
 * if it is not over; the QP that is here ends. */
void heir_seek(struct opening *opening);
bool heirs_tick(struct engine *engine);
void heir_end(struct opening *opening);

/* visitor.c: the answer to who wants to enter while nobody knows where the QP is. */
void visitor_come_again(int calls);

/* opening.c: events of openings, mail of heirs. The lists' lock is held for the first, the call
 * lock for the second, which says whether the descriptor is an opening's. */
unsigned int opening_fds(const struct openings *openings, struct pollfd *fds, unsigned int room);
bool opening_hear(struct engine *engine, int fd);

#endif
