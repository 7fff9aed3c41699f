/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A deterministic world: adapters, a bad link between them, programs that use them, and a model
 * that knows what must come of it. Time is virtual, all chance comes from one seed, so every
 * failure replays.
 *
 *	world.c    time and events; the host that an adapter asks for turns
 *	net.c      the link and its faults; what it learns by watching
 *	near.c     nodes that reach each other's memory, for what is offered
 *	arena.c    a node's memory, its shadow, and which bytes are in flux
 *	model.c    what each completion must be, and what memory must hold
 *	spans.c    local buffers
 *	post.c     work requests by chance
 *	pair.c     the life of a connection: connect, trouble, flush, again
 *	program.c  what a seed means: how many of what, in which weather
 *
 * The model shares nothing with the transport but the headers of the device's objects and the
 * wire's names.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "device/adapter.h"
#include "device/cq.h"
#include "device/mr.h"
#include "device/mw.h"
#include "device/pd.h"
#include "device/qp.h"
#include "device/srq.h"
#include "rng.h"
#include "transport/express.h"
#include "transport/packet.h"
#include "transport/transport.h"
#include "wire/parse.h"

enum {
	MAX_NODES = 4,
	MAX_ENDPOINTS = 24,
	MAX_PAIRS = 12,
	NODE_CQS = 3,
	GUARD = 512,
	MAX_SRQ_DEPTH = 24,
	MAX_LIST = 6, /* work requests in one call */
	MAX_OUTSTANDING_READS = 512,
	SEEN_ANSWERS = 1 << 13, /* PSNs */
	SHOWN_MAX = 512,
	OFFERED_FROM = 64 << 10,
};

#define US  1000ull
#define MS  1000000ull
#define SEC 1000000000ull

struct world;
struct node;
struct endpoint;
struct pair;

/* ---- memory (arena.c) ---- */

struct arena {
	struct world *world;
	uint8_t *memory; /* what the adapter writes */
	uint8_t *shadow; /* what must be there where nothing is in flux */
	uint16_t *flux;	 /* for each byte: work requests under way that may write it */
	uint16_t *readers;
	uint32_t size;
};

/* A piece of an arena. */
struct span {
	uint32_t at, length;
	struct mr *mr;
};

void arena_make(struct arena *arena, struct world *world, int index, uint32_t size);
void arena_free(struct arena *arena);
void arena_mark(uint16_t *counts, uint32_t at, uint32_t length, int change);
bool arena_is_free(const struct arena *arena, uint32_t at, uint32_t length, bool to_write);
/* The lowest free place at or after `from`; false if there is none before `end`. */
bool arena_first_fit(const struct arena *arena, uint32_t from, uint32_t end, uint32_t length,
		     bool to_write, uint32_t *at);
/* The program writes fresh random bytes. */
void arena_scribble(struct arena *arena, uint32_t at, uint32_t length);
/* These bytes must hold `data` from now on; fails unless other work is still changing them. */
void arena_expect(struct arena *arena, uint32_t at, uint32_t length, const uint8_t *data,
		  const char *what);
/* Nobody knows what is there: take it as it is. */
void arena_adopt(struct arena *arena, uint32_t at, uint32_t length);
void arena_check(struct arena *arena, const char *when);

/* ---- the model's records ---- */

struct send {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	bool is_signaled, is_counter, is_inline;
	bool is_limbo; /* failed or flushed: its effect may still come */
	bool is_lent;  /* it lies in a region that may go */
	uint32_t length;
	uint8_t *data; /* the payload; of READ and atomics what the sink gets */
	uint32_t span_count;
	struct span *spans;
	uint32_t remote_at, remote_length;
	uint8_t *effect;	   /* what it leaves at remote_at, NULL: nothing */
	enum ibv_wc_status expect; /* SUCCESS, or how it must fail */
	uint64_t add;
};

struct recv {
	uint64_t wr_id;
	uint32_t capacity, span_count;
	struct span *spans;
	enum ibv_wc_status expect;
	bool is_done;
};

/* What takes a receive work request at the other side. */
struct message {
	struct endpoint *to;
	uint32_t send_index;
	uint32_t length;
	const uint8_t *data;
	bool is_write; /* with immediate */
	bool has_imm, has_inv, is_solicited, must_fail;
	uint32_t inv_rkey;
	__be32 imm;
	uint32_t delivered;
};

struct list {
	void **items;
	uint32_t count, room;
};

struct simcq {
	struct node *node;
	struct cq *cq;
	bool by_event; /* polled only after an event */
	bool is_told, is_armed;
	uint32_t room; /* completions that may be there at once */
};

struct simsrq {
	struct node *node;
	struct srq *srq;
	struct list recvs; /* all ever posted */
	uint32_t outstanding, depth, recv_size;
	uint64_t next_id;
};

/* A READ or an atomic, as the link saw it go: its PSNs from the next that is missing. */
struct seen_read {
	uint32_t next, last;
	bool is_counted; /* against max_rd_atomic */
};

struct endpoint {
	struct world *world;
	struct node *node;
	int index;
	enum ibv_qp_type type;
	struct pair *pair;
	struct endpoint *peer;
	struct qp *qp; /* NULL between lives */
	struct simcq *send_cq, *recv_cq;
	struct simsrq *srq;
	struct ah *ahs[MAX_NODES];

	/* attributes */
	uint32_t mtu; /* bytes */
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer, max_rd, max_dest_rd;
	uint32_t sq_psn;
	uint32_t max_send_wr, max_recv_wr, max_sge, max_inline;
	bool sq_sig_all;
	uint32_t qkey;

	/* the program */
	uint32_t to_send; /* work requests still to post */
	uint32_t posted;
	uint32_t max_message, recv_size;
	uint32_t think;	    /* ns between its steps */
	uint32_t slow_recv; /* ten thousandths: chance to post receives in a step */
	uint32_t unsignaled_run;
	uint32_t window_at, window_length;
	struct mr *window, *read_only;
	struct mr *lent; /* that its long SENDs lie in, until it goes; NULL: they don't */
	struct mw *mw;	 /* NULL, or bound to the whole region `window`: then peers come in by it */
	uint32_t window_rkey;
	uint64_t window_va;
	uint8_t *frozen; /* the window as it was when its region went; NULL while it stands */
	uint8_t *final;	 /* the window once all that is posted is done */
	uint64_t next_id;

	/* a window that nobody uses, bound and invalidated over and over again between other work
	 */
	struct mw *spare;
	uint32_t spare_rkey;
	bool is_spare_bound; /* once all that is posted is done */
	/* a window that the peer may invalidate by a SEND; then it is bound again */
	struct mw *guest;
	uint32_t guest_rkey;
	bool is_guest_offered;

	/* the model */
	struct list sends, recvs, messages, limbo;
	uint32_t send_head, recv_head, message_head;
	bool is_flushing;  /* its send queue fails */
	bool is_recv_dead; /* so does its receive queue */
	bool may_flush;	   /* there is a reason to: a failure, an event, a move to ERR */
	bool has_flushed;  /* before that: the reason must be in another CQ */
	bool peer_gone;
	bool is_drain_awaited, is_drained, is_reset;
	uint32_t idle;	 /* steps in a row without anything done */
	uint32_t events; /* bit mask of enum ibv_event_type */

	/* what the link saw */
	uint32_t inbound;		  /* packets under way to it */
	uint32_t disturbances;		  /* since the last progress of its requests */
	uint32_t rnr_naks, most_rnr_naks; /* the most in a row in this life */
	uint32_t rnr_tries;		  /* NAKs in a row with a request between each two */
	bool has_tried;			  /* a request has left since the last of them */
	uint32_t acked;
	bool is_selective;		    /* it was told so: it keeps answers before their turn */
	uint8_t answered[SEEN_ANSWERS / 8]; /* those, by PSN */
	struct seen_read reads[MAX_OUTSTANDING_READS];
	uint32_t read_count;
};

enum trouble {
	TROUBLE_NONE,
	TROUBLE_BAD_RKEY,
	TROUBLE_LKEY_AS_RKEY,
	TROUBLE_PAST_END,
	TROUBLE_NO_ACCESS,
	TROUBLE_BAD_LKEY,
	TROUBLE_SINK_READ_ONLY,
	TROUBLE_LONG_SEND,
	TROUBLE_RECV_LKEY,
	TROUBLE_UNALIGNED_ATOMIC,
	TROUBLE_INVALIDATE,	  /* of an ordinary region, by the peer */
	TROUBLE_LOCAL_INVALIDATE, /* the same by itself */
	TROUBLE_DEREG,
	TROUBLE_TO_ERR,
	TROUBLE_TO_RESET,
	TROUBLE_DESTROY,
	TROUBLE_COUNT,
	TROUBLE_DEREG_SOURCE, /* of what is offered; by a throw of its own */
};

enum pair_state { PAIR_RUNNING, PAIR_DYING, PAIR_RESETTING, PAIR_DONE };

struct pair {
	struct world *world;
	struct endpoint *ends[2]; /* the same twice: connected to itself */
	enum pair_state state;
	enum trouble trouble;
	struct endpoint *trouble_of;
	uint32_t trouble_at; /* when it has posted so many */
	bool is_troubled;
	bool may_rnr; /* finite rnr_retry: may fail by it */
	uint64_t dying_since;
	uint32_t lives; /* connections still to come after this one */
};

/* ---- nodes ---- */

/* Local buffers, registered; each for short pieces and then for long ones. */
enum mr_pool { POOL_SEND, POOL_SEND_LONG, POOL_RECV, POOL_RECV_LONG, POOL_MRS };

struct seat {
	struct node *node;
	struct qp *qp;
	bool is_scheduled, is_dead;
	bool is_late; /* something of the express path is left to do */
	uint64_t timer_at;
};

struct parcel {
	struct parcel *next;
	struct node *from, *to;
	struct endpoint *stream; /* whose requests it serves; NULL: of no connection */
	struct endpoint *dest;
	bool is_express;	/* a record of the express path */
	struct endpoint *other; /* whose requests it acknowledges as well */
	uint32_t more_count;	/* of those it acknowledges behind the first; such are not lost */
	struct endpoint *more[EXPRESS_ACKS];
	union ibv_gid sgid, dgid;
	uint8_t traffic_class, hop_limit;
	uint32_t flow_label;
	uint32_t number;
	uint32_t length; /* BTH to pad */
	uint8_t bytes[];
};

enum { RUN_BYTES = 60 << 10 };

struct outbox_of_node {
	struct outbox outbox; /* first */
	struct node *node;
	struct parcel *open;
	struct av run_av; /* of packets reserved together */
	uint32_t run_count;
	uint8_t run[RUN_BYTES];
};

struct node {
	struct world *world;
	int index;
	struct adapter adapter;
	union ibv_gid gid;
	struct pd *pd;
	struct arena arena;
	struct outbox_of_node out;
	struct simcq cqs[NODE_CQS];
	int cq_count;
	struct simsrq srq;
	struct mr *pool[POOL_MRS];
	uint32_t pool_at[POOL_MRS];
	struct mr *locked; /* without local write */
	uint32_t locked_at;
	struct mr *counter_mr;
	uint32_t counter_at;
	uint64_t counter_start;
	struct list additions; /* of struct addition */

	struct seat **run;
	uint32_t run_count;
	struct seat *seats[MAX_ENDPOINTS * 4];
	uint32_t seat_count;
	struct parcel *rx, **rx_tail;
	uint32_t rx_count;
	bool is_awake;
	uint32_t poll_idle;
	uint64_t same_time; /* steps without time going on */
	uint64_t last_step;
	uint64_t line_free, last_arrival[MAX_NODES];
	const struct mr *shown_mrs[SHOWN_MAX]; /* what others may fetch from (near.c), */
	const struct qp *shown_qps[SHOWN_MAX]; /* and who they fetch it for */
	uint32_t shown_mr_count, shown_qp_count;
	struct node *line_of; /* the node whose line it sends by: its own, or one that is shared */
};

struct addition {
	uint64_t old, add;
	bool is_known;
};

/* ---- the world ---- */

struct weather {
	uint32_t loss, duplicate, reorder, corrupt; /* in ten thousand */
	uint32_t delay, jitter, span;		    /* ns */
	uint32_t ps_per_byte;
	uint32_t rx_limit;   /* packets that a receiver holds */
	uint32_t line_limit; /* bytes that wait for a line at most; 0: no limit */
	uint32_t mark_from;  /* bytes that wait when packets are marked (ECN); 0: they are not */
	uint32_t refusal;    /* of the outbox */
	uint32_t batch, step_delay;
	bool is_hostile;
	bool has_express; /* small SENDs and ACKs go as records, over the same link */
	bool has_plain;	  /* they leave as they are posted, as packets (plain.h) */
	bool has_offers;  /* long SENDs are fetched from the sender's memory (near.c) */
	bool no_mercy;	  /* no limit on losses in a row */
};

typedef void (*event_action)(void *subject, uint64_t value);

struct event {
	uint64_t at, order;
	event_action action;
	void *subject;
	uint64_t value;
};

/* Mostly small SENDs. */
static inline bool is_brief(const struct weather *weather)
{
	return weather->has_express || weather->has_plain;
}

struct statistics {
	uint64_t packets, dropped, duplicated, reordered, corrupted, overflowed, forged;
	uint64_t expressed, glanced, together; /* records; those taken without a turn; of ACKs */
	uint64_t arrived;		       /* of those taken so, by what is remembered */
	uint64_t crowded, marked;    /* no room in the line's queue; a mark that it is long */
	uint64_t longest_queue;	     /* bytes */
	uint64_t fetched, unfetched; /* pieces of offers; refused, or half done */
	uint64_t vanished, orphaned; /* those whose region was gone, or their QP */
	uint64_t sends, recvs, failed, flushed, payload;
	uint64_t plain; /* SENDs that left as they were posted (plain.h) */
};

struct world {
	uint64_t seed;
	int verbose;
	struct rng link, host, program;
	uint64_t now, order, limit;
	struct event *heap;
	uint32_t heap_count, heap_room;
	struct weather weather;
	struct node nodes[MAX_NODES];
	int node_count;
	struct endpoint *endpoints[MAX_ENDPOINTS];
	int endpoint_count;
	struct pair pairs[MAX_PAIRS];
	int pair_count;
	void *memory; /* of world_alloc() */
	struct statistics stats;
	uint64_t last_progress; /* a completion, or a request posted */

	bool (*is_finished)(struct world *world);
	/* A scenario's own hand on the link: true loses the packet. */
	bool (*filter)(struct world *world, const struct parcel *parcel,
		       const struct wire_packet *packet);
	void *filter_data;
	jmp_buf failed;
	char failure[512];
};

/* near.c */
bool near_publish_mr(struct adapter *adapter, const struct mr *mr);
void near_withdraw_mr(struct adapter *adapter, const struct mr *mr);
bool near_publish_qp(struct adapter *adapter, const struct qp *qp, unsigned int access);
void near_withdraw_qp(struct adapter *adapter, const struct qp *qp);
bool near_is_reached(const struct qp *qp);
uint64_t near_time(const struct adapter *adapter);
enum reach_result near_reach(struct qp *qp, const struct reach_op *op);

/* world.c */
void world_make(struct world *world, uint64_t seed, int verbose);
/* Ends all objects, which must be free of users; `failed`: only memory that can be had. */
void world_end(struct world *world);
void world_at(struct world *world, uint64_t at, event_action action, void *subject, uint64_t value);
/* Runs until is_finished(), which fails when time or events run out. */
void world_run(struct world *world);
void *world_alloc(struct world *world, size_t size);
void list_add(struct world *world, struct list *list, void *item);
void sim_fail(struct world *world, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
#define sim_check(world, condition, ...)                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			sim_fail(world, __VA_ARGS__);                                              \
	} while (0)

void node_make(struct world *world, uint32_t arena_size, bool is_ipv6);
void node_wake(struct node *node, uint64_t delay);
void node_seat(struct node *node, struct qp *qp);
void node_schedule(struct node *node, struct qp *qp);
void node_note(struct node *node, struct qp *qp); /* what the express path left for later */
void seat_leave(struct qp *qp);

/* net.c */
bool world_is_lossy(const struct world *world); /* packets may be lost */
uint8_t *net_reserve(struct outbox *outbox, const struct av *av, uint32_t dest_qp, size_t size);
void net_commit(struct outbox *outbox, size_t size);
void *net_reserve_express(struct outbox *outbox, const struct av *av, uint32_t dest_qp,
			  size_t size);
void net_commit_express(struct outbox *outbox, size_t size);
bool net_has_records(const struct outbox *outbox, const struct av *av, uint32_t dest_qp);
bool net_is_along(const struct outbox *outbox, const struct av *av, uint32_t dest_qp);
uint32_t net_reserve_run(struct outbox *outbox, const struct av *av, uint32_t dest_qp,
			 uint8_t opcode, size_t size, uint32_t count, uint8_t **bytes,
			 uint32_t *stride);
void net_commit_run(struct outbox *outbox, size_t size, uint32_t count, bool is_summed);
void net_arrive(void *parcel, uint64_t value); /* the event */
/* Called as a packet is handed to its receiver. */
void net_arrived(struct node *node, struct parcel *parcel);
struct node *node_of_gid(struct world *world, const union ibv_gid *gid);
struct endpoint *endpoint_of_qpn(struct world *world, const struct node *node, uint32_t qpn);

/* trace.c: one line each, printed with -v */
void trace(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
void trace_parcel(struct world *world, const struct parcel *parcel, const char *fate);
void trace_ends(struct world *world); /* how far everybody is */
void trace_wc(struct endpoint *end, const struct ibv_wc *wc);
const char *send_opcode_name(enum ibv_wr_opcode opcode);

/* model.c */
void model_poll(struct simcq *simcq, uint32_t most);
void model_poll_all(struct node *node);
/* All is done, nothing was lost: then nothing was taken to be lost. */
void model_check_calm(struct endpoint *end);
void model_check_datagrams(struct endpoint *end);
/* Whatever was flushed had a reason. */
void model_check_cause(struct endpoint *end);
void model_async(struct node *node, const struct ibv_async_event *event);
void model_forget_recv(struct endpoint *end, struct recv *recv);
void model_forget_sends(struct endpoint *end);
void model_release_limbo(struct endpoint *end);
void model_check_counters(struct world *world);
void model_check_memory(struct world *world, const char *when);

static inline struct send *send_at(const struct endpoint *end, uint32_t index)
{
	return end->sends.items[index];
}

static inline uint32_t sends_outstanding(const struct endpoint *end)
{
	return end->sends.count - end->send_head;
}

/* Around what a verb of the data path does, or a lane's turn: meanwhile the core is to take no
 * memory, which `sim` checks (counted.c). NULL, or which verb. */
extern const char *sim_in_verb;

#define VERB(name, call)                                                                           \
	({                                                                                         \
		sim_in_verb = name;                                                                \
		__auto_type result_ = (call);                                                      \
		sim_in_verb = NULL;                                                                \
		result_;                                                                           \
	})

/* post.c */
void post_sends(struct endpoint *end, uint32_t most);
void post_recvs(struct endpoint *end, uint32_t most);
void post_srq(struct simsrq *simsrq, uint32_t most);

/* spans.c */

/* Splits `total` bytes over up to max_sge elements, some perhaps empty; false: there is no room. */
bool spans_take(struct node *node, enum mr_pool pool, uint32_t total, uint32_t max_sge,
		bool is_sink, struct span **spans, uint32_t *count);
uint32_t spans_sges(struct node *node, const struct span *spans, uint32_t count,
		    struct ibv_sge *sges);
/* What the program has in these bytes; sources that nobody else reads get fresh ones first. */
uint8_t *spans_gather(struct node *node, const struct span *spans, uint32_t count, uint32_t length);
/* The program has what is here for itself: other bytes, where nobody else reads them. */
void spans_spoil(struct node *node, const struct span *spans, uint32_t count);

/* pair.c */
void endpoint_create_qp(struct endpoint *end);
void endpoint_destroy_qp(struct endpoint *end);
void endpoint_connect(struct endpoint *end);
void endpoint_modify(struct endpoint *end, enum ibv_qp_state state);
/* Regions and QPs of both ends, connected; the next life of a pair too. */
void pair_connect(struct pair *pair);
void pair_step(void *subject, uint64_t value);
void pair_failed(struct pair *pair);
void make_window(struct endpoint *end);
void offer_guest(struct endpoint *end);

/* program.c */
void program_make(struct world *world);
bool program_is_finished(struct world *world);
void program_finish(struct world *world);

#endif
