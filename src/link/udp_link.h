/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside of the UDP link: what udp.c (the stage), udp_lend.c, udp_path.c, udp_send.c, udp_receive.c
 * and udp_socket.c share.
 * The lane's lock guards all of it; only the counters are read without.
 */
#ifndef LINK_UDP_LINK_H
#define LINK_UDP_LINK_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/patience.h"
#include "device/limits.h"
#include "link/lend_trial.h"
#include "link/udp.h"
#include "wire/icrc.h"
#include "wire/mtu.h"
#include "wire/opcode.h"
#include "wire/psn.h"

enum {
	STAGE_BYTES = 320 << 10, /* a turn, and what others add */
	RUNS_MAX = 64,
	/* A segmented send is one datagram to the IP layer, with its headers at most 64 KiB. */
	RUN_BYTES_MAX = 65000,
	PACKET_BYTES_MAX = HEADER_BYTES_MAX + MTU_BYTES_MAX, /* without the ICRC */
	/* The kernel's UDP_MAX_SEGMENTS: 128, and 64 before it was raised. */
	SEGMENTS_MAX = 128,
	SEGMENTS_MAX_OLD = 64,

	ICRC_RUN_MIN = 8,   /* packets, for a new length to pay */
	SINGLES_UNCUT = 64, /* sends in a row */

	RECEIVE_BATCH = 8,
	ALONE_MAX = 2,
	SINGLES = 16,
	RECEIVE_BYTES = 64 << 10, /* a GRO batch, at most */
	/* The kernel copies slowly to a place that lies a little further on in its page than what
	 * is copied does: that is never the beginning of one. */
	RECEIVE_ALIGNMENT = 4096,
	TRAIN_BYTES = 17 << 10, /* what is checked and then placed still lies in the first cache */

	HOP_LIMIT_DEFAULT = 64,
	SOCKET_BUFFER = 4 << 20,

	PATHS_MAX = 4,
	PATH_CANDIDATES = 16,
	/* Runs; whoever has got an eighth of them gets a path, one in a window, and keeps it with a
	 * 64th. */
	PATH_WINDOW = 1024,
	PATH_HOT = PATH_WINDOW / 8,
	PATH_COLD = PATH_WINDOW / 64,
	PATH_DOUBTS = 8,
	/* windows without a path: after one that was doubted soon, and so many times more if the
	 * next one is, too, and the most; after one that has worked */
	PATH_DOUBT = 4,
	PATH_DOUBT_AGAIN = 4,
	PATH_DOUBT_MAX = 1 << 16,
	PATH_DOUBT_OLD = 4,
	/* A path works if so many rounds of one QP (av.h) passed without a doubt: what went by it
	 * when the first one ended has come. Where nothing is answered to us, as to who only
	 * receives, so many runs that nobody doubted say the same: more than a window of the peer's
	 * asks for. */
	PATH_ROUNDS = 2,
	PATH_RUNS = 256,
	PATH_SETBACKS = 3, /* in a row */

	LEND_PAGE = 4096,
	LEND_RING_BYTES = 4 << 20,
	LEND_BYTES_MIN = 32 << 10, /* of a run: less is as well copied */
	/* Of 256 KiB: those of this lap and of the one before are less than the ring. */
	LEND_WINDOWS = 6,
};

/* A socket that sends. */
struct udp_way {
	int fd;		       /* -1: not open */
	uint16_t port;	       /* source port, host order */
	uint8_t traffic_class; /* what it sends where nothing is said */
	bool is_connected;
	uint16_t id;	   /* IPv4 identification of its next send */
	uint16_t segment;  /* what it cuts by itself where nothing is said; 0: nothing */
	uint16_t cut_last; /* segments of the last run of several */
	uint16_t singles;  /* sends since, each of one packet */
};

/* A local address and the socket that sends from it to anybody. */
struct udp_address {
	struct udp_address *next;
	union ibv_gid gid;
	uint32_t ifindex;
	struct udp_way way;
	bool is_near; /* its owners have sockets on near ports */
	bool no_gso;  /* the way out refuses segmented sends but takes single ones */
};

/* Whom packets are for: a lane of a process of a peer. */
enum { PLACE_PART = 0xff0000 | (NEAR_PORTS - 1) }; /* of a QP number: slot and lane */

struct udp_place {
	const struct udp_address *from;
	union ibv_gid dgid;
	uint32_t part; /* of the QP number, that says process and lane */
	uint16_t port; /* it listens there */
};

struct udp_path {
	struct udp_place to; /* `from` is NULL: there is none */
	struct udp_way way;
	uint32_t used;	   /* in this window */
	uint32_t runs;	   /* since it was opened or doubted */
	uint32_t witness;  /* the QP they lead to whose rounds count, 0: the next one's */
	uint16_t rounds;   /* that it had had before */
	uint32_t setbacks; /* how often it was doubted since it was last seen to work */
	bool has_worked;
	bool is_doubted; /* it was with the last run */
	bool is_dead;	 /* it failed: closed as soon as no run is staged for it */
};

struct udp_candidate {
	struct udp_place to;
	uint32_t used;
};

/* Where a path led to that may not have worked: a filter on the way may know ports. */
struct udp_doubt {
	struct udp_place to; /* `from` is NULL: there is none */
	uint32_t windows;    /* to come without a path */
	uint32_t last;	     /* how many they were when they began, 0: it had worked */
};

/* The paths of a link (udp_path.c). */
struct udp_paths {
	struct udp_doubt doubts[PATH_DOUBTS];
	uint32_t doubted; /* so often */
	struct udp_path paths[PATHS_MAX];
	struct udp_path *latest;
	struct udp_candidate candidates[PATH_CANDIDATES];
	uint32_t runs;		  /* in this window */
	bool has_tried;		  /* to open one, in this window */
	struct patience patience; /* in windows, this one included */
	bool is_off;
};

/* Packets that lie one after the other in the stage, for one QP of one peer, of one size but for a
 * shorter last one. */
struct udp_run {
	struct udp_address *from;
	struct udp_path *path; /* NULL: none */
	struct av av;
	uint32_t dest_qp;
	uint16_t port;	  /* UDP destination */
	uint32_t offset;  /* in the stage */
	uint32_t segment; /* bytes of each, the ICRC included */
	uint32_t last;	  /* of the last one */
	uint32_t count;
	uint64_t summed[SEGMENTS_MAX / 64]; /* a bit each: their payload is (packet.h) */
};

union udp_sockaddr {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* All that a msghdr points to. */
struct udp_message {
	union udp_sockaddr address;
	struct iovec iov;
	_Alignas(struct cmsghdr) uint8_t control[160];
};

struct udp_receiver {
	struct mmsghdr headers[RECEIVE_BATCH];
	struct udp_message messages[RECEIVE_BATCH];
	int batch;   /* how many to ask for: more while there is more */
	int alone;   /* times in a row that there was one message where two were asked for */
	int singles; /* messages that are asked for alone after that */
	uint8_t *buffers;
	struct icrc_run checking; /* as `sealing` of the link, */
	struct icrc_singles lone;
	uint16_t id, id_port; /* of the message before: its identification, who sent it */
	bool is_offering;     /* rows of packets, under a seal (udp_seal.c): */
	struct icrc_summed opening;
	struct icrc_shift emptying;
};

/* Whom a ring of lent pages is for, as a place, but whatever becomes of the path there. */
struct udp_borrower {
	union ibv_gid from, to;
	uint32_t part;
};

/* Pages that are sent without a copy (udp_lend.c). */
struct udp_lender {
	uint8_t *ring;			   /* NULL: there is none */
	uint8_t *next;			   /* in it, while the stage is elsewhere */
	uint8_t *plain;			   /* the stage for all else, where there is a ring */
	int pipe[2];			   /* into a socket; empty */
	struct udp_borrower to;		   /* the ring is for */
	uint32_t refusals;		   /* in a row */
	bool is_staging;		   /* the stage is in the ring */
	bool has_lent;			   /* some of what is staged */
	bool is_off;			   /* it can't be done here */
	struct udp_borrower asking;	   /* for a ring, */
	uint32_t asked;			   /* so many runs in a row */
	uint32_t qps[LEND_WINDOWS], count; /* who lends, in this lap of the ring, */
	uint8_t granted[LEND_WINDOWS];	   /* for how many windows each, */
	uint32_t windows;		   /* and how much of each is under way */
	struct lend_trial trial;	   /* of lending and copying, */
	uint32_t tried;			   /* bytes of what is staged that it is about */
};

struct udp_link {
	struct outbox outbox;
	uint8_t lane;
	struct udp_address *addresses;
	struct udp_address *latest; /* found last */
	struct udp_paths paths;
	uint32_t segments_max;

	struct udp_lender lender;
	uint8_t *stage;
	uint32_t used;	       /* of the stage: end of the last run */
	struct av reserved_av; /* of the open reservation */
	uint32_t reserved;     /* its size, 0 if there is none */
	uint32_t reserved_at;  /* in the stage: its end, or in an ACK's run */
	uint32_t reserved_run; /* packets that it is of, of the length of the last run */
	/* or, where they begin one, of its length; NULL: they do not */
	struct udp_address *reserved_from;
	uint32_t reserved_length;
	struct udp_run runs[RUNS_MAX];
	uint32_t run_count;
	struct icrc_run sealing; /* the one before, for its length's sake */
	struct icrc_summed sealing_summed;
	struct icrc_singles lone;
	struct icrc_summed lone_summed;
	/* the same for single packets that have an ACK before them */
	struct icrc_run joined_run;
	struct icrc_summed joined_summed;
	struct icrc_shift joined;  /* by the length of one behind its BTH */
	size_t joined_size;	   /* of the last one that might be summed */
	struct icrc_shift filling; /* sums of packets that are filled up */
	struct mmsghdr headers[RUNS_MAX];
	struct udp_message messages[RUNS_MAX];

	struct udp_receiver receiver;
	struct udp_counters counters;
};

static inline bool icrc_run_pays(const struct icrc_run *run, size_t length, uint32_t count)
{
	return count >= ICRC_RUN_MIN || (count > 1 && run->length == length);
}

static inline uint32_t udp_run_bytes(const struct udp_run *run)
{
	return (run->count - 1) * run->segment + run->last;
}

/* There is one writer, the holder of the lane's lock. */
static inline void udp_count(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

static inline bool gid_is_link_local(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

/* A v4-mapped GID gives an IPv4 address. ifindex is the scope of link-local and multicast ones. */
socklen_t udp_sockaddr_of(union udp_sockaddr *address, const union ibv_gid *gid, uint16_t port,
			  uint32_t ifindex);

/* A socket that sends from the address with known IPv4 identifications: to anybody, or connected to
 * the peer. 0 or -errno; sets the way. */
int udp_socket_open_sender(struct udp_address *address);
int udp_socket_open_path(const struct udp_address *from, const union ibv_gid *dgid, uint16_t port,
			 struct udp_way *way);

/* The path that a run for this QP, at that port, is to take, NULL for none. Only while a run is
 * being made: it may open and close paths when nothing is staged. */
struct udp_path *udp_path_for(struct udp_link *link, const struct udp_address *from,
			      const struct av *av, uint32_t dest_qp, uint16_t port);
/* All of the address, or (NULL) all; no run is staged for them. */
void udp_paths_close(struct udp_paths *paths, const struct udp_address *from);

/* From Linux 6.5 on. */
bool udp_kernel_lends(void);

/* Whether the run's pages are to be lent. udp_lend() does it, once the run is sealed: 1, or 0 if it
 * is not possible here, or -errno. After an error other than a full socket the path is of no use;
 * and after some in a row nothing is lent any more. */
bool udp_lends(struct udp_link *link, const struct udp_run *run);
int udp_lend(struct udp_link *link, const struct udp_run *run);

/* All that was staged has left: the next is staged behind what was lent. */
void udp_lender_move_on(struct udp_link *link);

/* Makes the stage the one for a packet. False if what is staged can't leave yet. */
bool udp_lender_stage(struct udp_link *link, const struct av *av, uint32_t dest_qp);

/* Where a packet of so many bytes that begins a run goes in the stage. */
uint32_t udp_lender_begin(const struct udp_link *link, uint32_t bytes);

/* Frees the stage. */
void udp_lender_fini(struct udp_link *link);
void udp_lender_abandon(struct udp_link *link); /* udp_link_abandon() */

/* What the socket is given leaves in pieces of this size, but where something else is said. */
void udp_way_cut(struct udp_way *way, uint16_t segment);

/* Sends the runs; those that wait for room in a socket are left, the first of them first. True if
 * none is. */
bool udp_send_runs(struct udp_link *link);

/* The BTH is as in the packet before, but for the PSN, which is the next. */
static inline bool udp_follows(const uint8_t *last, const uint8_t *next)
{
	return !memcmp(next, last, BTH_PSN_AT) && bth_psn(next) == psn_next(bth_psn(last));
}

/* What may begin a row: so many bytes from there on in packets of `segment`, all of one run. */
struct udp_offer {
	const struct icrc_run *run;
	uint8_t *bytes;
	uint32_t total, segment;
	uint16_t id; /* of the first, most likely */
};

/* Whether a packet of that run may begin such a row. */
bool udp_may_offer(const struct icrc_run *run, const uint8_t *packet);

/* Offers the packets that go on as the first does, in all else like that one. How many of them were
 * sound and taken in. */
uint32_t udp_offer(struct udp_receiver *receiver, const struct udp_offer *offer,
		   const struct packet *like, udp_deliver deliver, void *data);

int udp_receiver_init(struct udp_receiver *receiver);
void udp_receiver_fini(struct udp_receiver *receiver);

#endif
