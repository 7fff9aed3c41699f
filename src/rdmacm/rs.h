/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rsockets, inside. A stream is a connection of its id, with a ring of memory at each end: the
 * sender writes by RDMA into the half of the receiver's ring that it was given, and the immediate
 * value of the write says how much; the receiver gives halves back by writing their addresses into
 * the sender's table. The format is that of rdma-core's rsockets, so that the two are peers.
 *
 * A descriptor of an rsocket is a descriptor of the process (an event channel's), so that numbers
 * never clash.
 *
 * One lock each, rs->lock. Who waits does so in one place, rs_wait(), without the lock.
 */
#ifndef RDMACM_RS_H
#define RDMACM_RS_H

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <urcu/list.h>

/* ---- the format ---- */

/* An immediate value: what it is (3 bits), and of what (29). */
enum rs_op {
	RS_OP_DATA = 0,
	RS_OP_SGL = 4, /* credits, and perhaps a new half */
	RS_OP_IOMAP = 6,
	RS_OP_CTRL = 7,
};

enum rs_ctrl { RS_CTRL_DISCONNECT, RS_CTRL_KEEPALIVE, RS_CTRL_SHUTDOWN };

#define RS_OP_SHIFT  29
#define RS_DATA_MASK ((UINT32_C(1) << RS_OP_SHIFT) - 1)

/* In the byte order of who reads it. */
struct rs_sge {
	uint64_t addr;
	uint32_t key, length;
};

struct rs_iomap {
	uint64_t offset;
	struct rs_sge sge;
};

enum { RS_CONN_VERSION = 1, RS_CONN_NET_ORDER = 1, RS_CONN_IOMAP = 2 };

/* Private data of request and acceptance. */
struct rs_conn_data {
	uint8_t version, flags;
	uint16_t credits;
	uint8_t reserved[3];
	uint8_t iomap_size; /* in eighths */
	struct rs_sge target_sgl, data_buf;
};

/* ---- limits ---- */

enum {
	RS_HALVES = 2,
	RS_CTRL_MESSAGES = 4, /* of the send queue */
	RS_QUEUE_DEFAULT = 384,
	RS_QUEUE_MAX = 0xfffe / 2,
	RS_BUFFER_DEFAULT = 1 << 17,
	RS_BUFFER_MIN = 1 << 12,
	RS_INLINE_DEFAULT = 64,
	RS_TRANSFER_MAX = 1 << 16,
	RS_IOMAPS_MAX = 128,
};

enum rs_state {
	RS_INIT,
	RS_BOUND,
	RS_LISTENING,
	RS_RESOLVING, /* the address, the route */
	RS_CONNECTING,
	RS_ACCEPTING,
	RS_CONNECTED,
	RS_DISCONNECTED,
	RS_ERROR,
};

/* What it received and the program did not take yet. */
struct rs_message {
	uint32_t op, data;
};

/* Memory that the peer may write to; or the peer's. */
struct rs_mapping {
	struct cds_list_head node;
	uint64_t offset;
	size_t length;
	void *address;
	struct ibv_mr *mr;
	int index; /* in the peer's table; -1: told nobody yet */
	bool is_told;
};

/* A thread that polls, to be woken when another one takes what it waits for. */
struct rs_poller {
	struct cds_list_head node;
	int wake;
};

struct rsock {
	int fd;
	int type, domain;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* by the thread that waits for the queue */
	bool has_waiter, is_closing;
	int waiter_fd; /* an eventfd that wakes it, -1 until one waits */
	enum rs_state state;
	bool can_read, can_write;
	int error; /* told once: SO_ERROR */
	int fd_flags;
	struct cds_list_head pollers;

	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	unsigned int unacked_events;

	/* options */
	uint32_t sq_size, rq_size, sbuf_size, rbuf_size, inline_size, iomap_size;
	bool reuse_address, v6_only, keepalive, has_linger, is_no_delay, oob_inline;
	int linger_seconds, keep_idle;
	uint64_t last_sent; /* ns */
	uint32_t news;	    /* counts what came */
	struct ibv_path_data *route;
	size_t route_length;

	/* a listener */
	struct cds_list_head embryos, ready; /* requested, established */
	struct cds_list_head node;	     /* of those */
	struct rsock *parent;
	int ready_fd; /* a token for each that is ready */
	unsigned int ready_count;

	/* sending */
	uint8_t *sbuf;
	struct ibv_mr *smr;
	uint32_t sbuf_head, sbuf_free; /* where the next byte goes; bytes */
	uint32_t sqe_free, ctrl_free;
	uint16_t sseq, sseq_limit;
	struct rs_sge *targets; /* the table that the peer writes to; iomaps behind it */
	struct ibv_mr *target_mr;
	uint32_t target; /* the half being written to */

	/* receiving */
	uint8_t *rbuf;
	struct ibv_mr *rmr;
	uint32_t rbuf_at, rbuf_free_at, rbuf_free; /* next byte; next half to give; bytes taken */
	uint16_t rseq, rseq_told;
	struct rs_message *messages;
	uint32_t message_head, message_tail;
	uint64_t remote_table;
	uint32_t remote_key, remote_halves, remote_half;
	bool is_other_order; /* the peer is of the other byte order */

	/* mappings */
	struct cds_list_head mappings;
	struct rs_iomap *iomaps; /* that the peer told us of */
	uint32_t remote_iomap_size;

	struct rs_datagram *datagram;
};

/* ---- rs_table.c ---- */

int rs_insert(struct rsock *rs); /* 0 or a positive errno */

/* Around fork: nobody is in there; and in the child, to which none of it is left. */
void rs_table_hold(void);
void rs_table_release(void);
void rs_table_abandon(void);
void rs_listeners_hold(void);
void rs_listeners_release(void);
void rs_listeners_abandon(void);
void rs_datagrams_hold(void);
void rs_datagrams_release(void);
void rs_datagrams_abandon(void);
void rs_epolls_hold(void);
void rs_epolls_release(void);
void rs_remove(struct rsock *rs);
struct rsock *rs_find(int fd); /* NULL and EBADF */
bool rs_is(int fd);
bool rs_is_epoll(int fd);
int rs_epoll_close(int fd);
struct rsock *rs_create(int domain, int type);
void rs_free(struct rsock *rs);
/* errno and -1. */
int rs_fail(int error);

/* ---- rs_queue.c: with the lock ---- */

int rs_make_queues(struct rsock *rs); /* 0 or a positive errno */
void rs_fill_conn_data(struct rsock *rs, struct rs_conn_data *data);
int rs_take_conn_data(struct rsock *rs, const void *private_data, size_t length);
/* Takes completions in, and gives credits. */
void rs_progress(struct rsock *rs);
/* Sends `length` bytes of the ring, which starts at sbuf_head. */
int rs_write_data(struct rsock *rs, uint32_t length);
int rs_send_ctrl(struct rsock *rs, enum rs_ctrl what);
int rs_write_iomap(struct rsock *rs, uint32_t index, const struct rs_iomap *iomap);
int rs_write_raw(struct rsock *rs, uint32_t length, uint64_t address, uint32_t key);
bool rs_can_send(const struct rsock *rs);
bool rs_has_data(const struct rsock *rs);
bool rs_is_sent(const struct rsock *rs);

/* ---- rs_wait.c ---- */

typedef bool (*rs_condition)(const struct rsock *rs);

/* With the lock, until it holds or the connection ends. 0, EAGAIN without time (timeout_ms, -1: for
 * ever), or EINTR. */
int rs_wait(struct rsock *rs, rs_condition condition, int timeout_ms);
void rs_wake_pollers(struct rsock *rs);
/* Something came: all who wait may have what they wait for. */
void rs_tell(struct rsock *rs);
/* Gets ready for poll() on the descriptors of rs_poll_fds(); false if something came meanwhile. */
bool rs_arm(struct rsock *rs);
/* What the connection manager tells. */
void rs_take_cm_events(struct rsock *rs);
bool rs_is_nonblocking(const struct rsock *rs, int flags);

/* ---- rs_connect.c ---- */

void rs_cm_event(struct rsock *rs, const struct rdma_cm_event *event);
bool rs_is_settled(const struct rsock *rs); /* connecting is over */

/* ---- rs_poll.c ---- */

short rs_events(struct rsock *rs); /* with the lock: what holds now */

/* ---- rs_datagram.c ---- */

struct rs_datagram;
int rs_datagram_open(struct rsock *rs);
void rs_datagram_close(struct rsock *rs);
int rs_datagram_bind(struct rsock *rs, const struct sockaddr *address, socklen_t length);
int rs_datagram_connect(struct rsock *rs, const struct sockaddr *address, socklen_t length);
ssize_t rs_datagram_send(struct rsock *rs, const void *data, size_t length, int flags,
			 const struct sockaddr *to, socklen_t to_length);
ssize_t rs_datagram_receive(struct rsock *rs, void *data, size_t length, int flags,
			    struct sockaddr *from, socklen_t *from_length);
short rs_datagram_events(struct rsock *rs);
/* Gets ready for poll() on the descriptor that it returns. */
int rs_datagram_arm(struct rsock *rs);

static inline void rs_lock(struct rsock *rs)
{
	pthread_mutex_lock(&rs->lock);
}

static inline void rs_unlock(struct rsock *rs)
{
	pthread_mutex_unlock(&rs->lock);
}

#endif
