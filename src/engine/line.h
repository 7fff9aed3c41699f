/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lines: what an XRC_RECV QP (its home) and the branches of it that serve the SRQs of other
 * processes say to each other. A line is a pair of connected Unix sockets, one end a source of the
 * lane at either side, and a ledger that both have mapped (transport/ledger.h). What one end says
 * comes in order, and when its process is gone, the other end hangs up behind the last of it.
 *
 * A line is made by the mail thread, which finds the other process by its slot, and which a fork
 * waits for; all else happens under the lock of the QP's lane.
 *
 *	home				branch
 *	MEETING_BRANCH (mail)		READY (1: it has the responder), or NO: no such domain here
 *	SERVE, PACKET, PACKET ...	has the responder, and answers the peer by itself
 *	RECALL				RETURN, once it owes the peer nothing
 *	TERMS: attributes changed	EVENT: an asynchronous one, for whoever has the QP open
 *	END: the QP was reset, ...	FAILED: the QP is in error, the NAK is out
 */
#ifndef ENGINE_LINE_H
#define ENGINE_LINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <urcu/list.h>

#include "engine/lane.h"
#include "engine/meeting.h"
#include "transport/transport.h"

struct engine;
struct ledger;
struct qp;

enum { HELD_MAX = 1024 };

/* Descriptors that the child of a fork has to close: of lines, and the names of XRC domains. */
struct held {
	atomic_int fds[HELD_MAX]; /* and one more, so that 0 is none */
};

/* Its place, or -1 when there is none; then the descriptor is still the caller's. */
int held_add(struct held *held, int fd);
void held_close(struct held *held, int place);
void held_abandon(struct held *held);

enum line_type {
	LINE_READY = 1,
	LINE_NO,
	LINE_SERVE,
	LINE_PACKET,
	LINE_RECALL,
	LINE_RETURN,
	LINE_TERMS,
	LINE_EVENT,
	LINE_FAILED,
	LINE_END,
};

enum line_state {
	LINE_NEW,   /* to be asked for */
	LINE_ASKED, /* the mail thread has been told, or the other process */
	LINE_OPEN,
	LINE_REFUSED, /* by whomever: the slot's SRQs are none of our domain's */
	LINE_CLOSED,  /* freed at the lane's next look around */
};

struct line {
	struct source source;	   /* first; its fd is -1 until there is one */
	struct cds_list_head node; /* of the home's lines, of the lane's branches or of its dead */
	struct lane *lane;
	struct qp *qp; /* at a branch its own */
	bool is_branch;
	enum line_state state;
	uint32_t slot; /* of the other side */
	int place;     /* among `held` */
	struct ledger *ledger;
	uint64_t ledger_id;	      /* which it is, for all who have it */
	bool is_recalled, has_failed; /* at a branch */
	bool has_responder;
	uint64_t orphan_until; /* its home is gone, the next one is waited for; else 0 */
};

struct line_message {
	uint32_t type;	/* enum line_type */
	uint32_t value; /* EVENT: its type; END: the QP's state; READY */
	union {
		struct qp_terms terms; /* SERVE, TERMS */
		struct {
			union ibv_gid sgid, dgid;
			uint32_t flow_label;
			uint16_t source_port;
			uint8_t traffic_class, hop_limit;
		} packet; /* PACKET: its bytes follow */
	};
};

struct line *line_make(struct lane *lane, struct qp *qp, uint32_t slot);
/* The descriptor, the mapped ledger: its own from then on. 0 or -errno, and then they are not. */
int line_attach(struct line *line, int fd, struct ledger *ledger);
/* Says nothing any more and is heard no more. Not used after the lane's next look around. */
void line_close(struct line *line);
void lines_bury(struct lane *lane);
/* A branch's: keeps the QP and the ledger, for the next home's line. */
void line_detach(struct line *line);

/* 0 or -errno; what is -EAGAIN was not said. */
int line_say(const struct line *line, enum line_type type, uint32_t value);
int line_say_terms(const struct line *line, enum line_type type);
int line_pass(const struct line *line, const struct packet *packet);

/* A source's packets: what the other side says. The number of messages. */
unsigned int line_receive(struct line *line, uint64_t now);

/* Memory for a ledger, and its descriptor or -errno; the same from a descriptor, NULL if it is
 * none. */
int ledger_make(struct ledger **ledger);
struct ledger *ledger_take(int fd, uint64_t *id);

/* home.c */
bool home_pass_on(struct qp *qp, const struct packet *packet, uint32_t srqn);
bool home_hears(struct line *line, const struct line_message *message);
void home_lost(struct line *line);
/* The QP had its turn: what waited for it goes on. */
void home_ran(struct qp *qp);
/* The program changed the QP, or is about to destroy it (`state` RESET). */
void home_changed(struct qp *qp);
void home_end(struct qp *qp, enum ibv_qp_state state);
void home_free(struct qp *qp);
/* Where the responder is, its PSN. */
uint32_t home_psn(const struct qp *qp);
/* With the lane's lock, by the mail thread: its ledger (a descriptor for others, or -errno), and
 * that others have it open. */
int home_share(struct qp *qp);
void home_unshare(struct qp *qp);
/* The responder is in another process. */
bool home_is_away(const struct qp *qp);
/* The QP is here from now on: the ledger is its own (`place` of its descriptor among the held). */
bool home_inherit(struct qp *qp, struct ledger *ledger, int place);
/* The mail thread: a line is wanted. */
void home_connect(struct engine *engine, const struct meeting *meeting);

/* branch.c */
void branch_open(struct engine *engine, const struct meeting *meeting, size_t length,
		 struct mail *mail);
bool branch_hears(struct line *line, const struct line_message *message, size_t length,
		  uint64_t now);
void branch_lost(struct line *line);
bool branch_take_seat(struct lane *lane, struct qp *qp);
void branch_ran(struct qp *qp);
void branch_event(struct qp *qp, enum ibv_event_type type);
void branch_close(struct line *line, enum ibv_qp_state state);
/* The branch of this QP, which has heard everything of a home that is gone; NULL: there is none.
 * With the lane's lock. */
struct line *branch_find(struct lane *lane, const struct adapter *adapter, uint32_t number);
/* It becomes the QP itself: no more a branch. */
struct qp *branch_promote(struct line *line);
/* Orphans that no home came for; true if some are left. The mail thread's. */
bool branches_expire(struct engine *engine);
/* Of an adapter that goes. */
void branches_close(struct lane *lane, const struct adapter *adapter);

#endif
