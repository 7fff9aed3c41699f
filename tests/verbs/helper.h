/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Other processes for tests of what processes share: helpers that do what they are told, one order
 * after another, and answer. They share the test's network, user and one file, the XRC domain's. Or
 * they are on another host (tests/hosts/xrc): VERBATIM_TEST_HOSTS is "OURS,THEIRS,NETWORK",
 * two addresses and the file of the helpers' network namespace.
 */
#ifndef TESTS_VERBS_HELPER_H
#define TESTS_VERBS_HELPER_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "engine/state.h"
#include "engine/steer.h"
#include "live.h"
#include "verbs/face.h"

enum order_kind {
	ORDER_OPEN,    /* the domain, with oflags `number` */
	ORDER_SRQ,     /* an XRC SRQ in it, and a buffer */
	ORDER_POST,    /* `count` receives of `length` bytes, one behind another, from wr_id on */
	ORDER_NEXT,    /* the next completion of the SRQ's CQ */
	ORDER_DRY,     /* that there is none, for `count` ms */
	ORDER_READ,    /* the buffer at `offset` */
	ORDER_TARGET,  /* an XRC_RECV QP of the domain, for QP `number` */
	ORDER_RC,      /* an RC QP, for QP `number` of the same host */
	ORDER_OPEN_QP, /* the QP of this number */
	ORDER_MODIFY,  /* it (or one's own target) to state `number` */
	ORDER_QUERY,   /* it */
	ORDER_EVENT,   /* the next asynchronous event */
	ORDER_CLOSE_QP,
	ORDER_CLOSE_SLOWLY, /* it, which waits for its lane; meanwhile, may another be its home? */
	ORDER_CLOSE_SRQ,
	ORDER_CLOSE_DOMAIN,
	ORDER_CLOSE_ALL, /* that, the QP and the device */
	ORDER_EXIT,
	ORDER_FORK, /* a child that sleeps with what it inherits, until the helper's end */
};

enum { SHOWN = 64 };

struct order {
	enum order_kind kind;
	uint32_t number, count, length;
	uint64_t wr_id, offset;
};

struct report {
	int error; /* errno of what failed, 0 */
	uint32_t number, rkey, reason;
	uint64_t addr;
	struct ibv_wc wc;
	struct ibv_qp_attr attr;
	char bytes[SHOWN];
};

struct helper {
	pid_t pid;
	int line;
};

/* What a helper has; in the test's own process as well, for orders to itself. */
struct stock {
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct end end; /* CQ and buffer */
};

static int domain_fd;
static union ibv_gid peer_gid;

static inline bool are_two_hosts(void)
{
	return getenv("VERBATIM_TEST_HOSTS");
}

static inline int open_address(const union ibv_gid *address)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (struct ibv_device **device = list; device && *device; device++) {
		context = ibv_open_device(*device);
		for (gid_index = 0; context && gid_index < 16; gid_index++)
			if (!ibv_query_gid(context, 1, gid_index, &gid) &&
			    !memcmp(&gid, address, sizeof(gid)))
				break;
		if (context && gid_index < 16)
			break;
		if (context)
			ibv_close_device(context);
		context = NULL;
	}
	if (list)
		ibv_free_device_list(list);
	if (!context || ibv_query_device(context, &device_attr))
		return -1;
	pd = ibv_alloc_pd(context);
	return pd ? 0 : -1;
}

static inline void address_of(const char *text, union ibv_gid *address)
{
	*address = (union ibv_gid){.raw = {[10] = 0xff, 0xff}};
	if (strchr(text, ':'))
		inet_pton(AF_INET6, text, address->raw);
	else
		inet_pton(AF_INET, text, address->raw + 12);
}

static inline int open_host(bool is_helper)
{
	char ours[16], theirs[16], network[128];
	union ibv_gid own;

	if (sscanf(getenv("VERBATIM_TEST_HOSTS"), "%15[^,],%15[^,],%127s", ours, theirs, network) !=
	    3)
		return -1;
	if (is_helper && setns(open(network, O_RDONLY | O_CLOEXEC), CLONE_NEWNET))
		return -1;
	address_of(is_helper ? theirs : ours, &own);
	address_of(is_helper ? ours : theirs, &peer_gid);
	return open_address(&own);
}

static inline struct ibv_xrcd *open_domain(int oflags)
{
	struct ibv_xrcd_init_attr attr = {
	    .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
	    .fd = domain_fd,
	    .oflags = oflags,
	};

	return ibv_open_xrcd(context, &attr);
}

static inline void do_srq(struct stock *stock, struct report *report)
{
	struct ibv_srq_init_attr_ex attr = {
	    .attr = {.max_wr = 64, .max_sge = 1},
	    .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			 IBV_SRQ_INIT_ATTR_CQ,
	    .srq_type = IBV_SRQT_XRC,
	    .pd = pd,
	    .xrcd = stock->xrcd,
	};

	end_make_buffer(&stock->end);
	stock->end.cq = attr.cq = ibv_create_cq(context, CQE, NULL, NULL, 0);
	stock->srq = ibv_create_srq_ex(context, &attr);
	report->error = stock->srq ? ibv_get_srq_num(stock->srq, &report->number) : errno;
	report->rkey = stock->end.mr->rkey;
	report->addr = (uintptr_t)stock->end.buffer;
}

static inline void do_post(struct stock *stock, const struct order *order, struct report *report)
{
	struct ibv_recv_wr *bad;

	for (uint32_t i = 0; i < order->count && !report->error; i++) {
		struct ibv_sge sge =
		    end_sge(&stock->end, order->offset + (size_t)i * order->length, order->length);
		struct ibv_recv_wr wr = {.wr_id = order->wr_id + i, .sg_list = &sge, .num_sge = 1};

		report->error = ibv_post_srq_recv(stock->srq, &wr, &bad);
	}
}

static inline void do_next(struct stock *stock, double patience, struct report *report)
{
	double end = seconds() + patience;
	int count;

	do {
		count = ibv_poll_cq(stock->end.cq, 1, &report->wc);
	} while (!count && seconds() < end);
	report->number = (uint32_t)count;
}

static inline struct ibv_qp_attr rtr_to_peer(uint32_t dest)
{
	struct ibv_qp_attr attr = rtr_attr(dest);

	attr.ah_attr.grh.dgid = peer_gid;
	return attr;
}

static inline int connect_target(struct ibv_qp *qp, uint32_t dest)
{
	struct ibv_qp_attr init = {
	    .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = (unsigned int)live_access};
	struct ibv_qp_attr rtr = rtr_to_peer(dest), rts = rts_attr();
	int error = ibv_modify_qp(
	    qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	if (!error)
		error = ibv_modify_qp(qp, &rtr,
				      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					  IBV_QP_MIN_RNR_TIMER);
	if (!error)
		error = ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT);
	return error;
}

static inline void do_target(struct stock *stock, uint32_t dest, struct report *report)
{
	struct ibv_qp_init_attr_ex attr = {
	    .qp_type = IBV_QPT_XRC_RECV,
	    .comp_mask = IBV_QP_INIT_ATTR_XRCD,
	    .xrcd = stock->xrcd,
	};

	stock->qp = ibv_create_qp_ex(context, &attr);
	report->error = stock->qp ? connect_target(stock->qp, dest) : errno;
	report->number = stock->qp ? stock->qp->qp_num : 0;
}

static inline void do_rc(uint32_t dest, struct report *report)
{
	static struct end rc;

	end_create(&rc, IBV_QPT_RC);
	qp_init(rc.qp, live_access);
	qp_connect(rc.qp, dest);
	report->number = rc.qp->qp_num;
}

static inline void do_open_qp(struct stock *stock, uint32_t number, struct report *report)
{
	struct ibv_qp_open_attr attr = {
	    .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
	    .qp_num = number,
	    .xrcd = stock->xrcd,
	    .qp_type = IBV_QPT_XRC_RECV,
	};

	stock->qp = ibv_open_qp(context, &attr);
	report->error = stock->qp ? 0 : errno;
	report->number = stock->qp ? (uint32_t)stock->qp->state : 0;
}

static inline bool has_openings(struct openings *openings)
{
	bool has;

	pthread_mutex_lock(&openings->lock);
	has = !cds_list_empty(&openings->openings);
	pthread_mutex_unlock(&openings->lock);
	return has;
}

/* Whether the QP's mailbox is nobody's: who binds it is the home. */
static inline bool is_homeless(uint32_t ifindex, uint32_t number)
{
	struct mail_address address;
	int fd;

	mail_address_of_qp(ifindex, number, &address);
	fd = mail_bind(&address);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Has the lane until the QP that is being closed is waiting for it. */
struct closing {
	struct lane *lane;
	struct openings *openings;
	uint32_t ifindex, number;
	atomic_bool has_lane;
	bool is_homeless;
};

static inline void *hold_lane(void *data)
{
	struct closing *closing = data;

	lane_lock(closing->lane);
	atomic_store(&closing->has_lane, true);
	for (int ms = 0; has_openings(closing->openings) && ms < PATIENCE_S * 1000; ms++)
		usleep(1000);
	usleep(20000);
	closing->is_homeless = has_openings(closing->openings) || /* nothing is shown then */
			       is_homeless(closing->ifindex, closing->number);
	lane_unlock(closing->lane);
	return NULL;
}

/* With the call lock, or the mail's thread could have that while it waits for the lane. */
static inline void do_close_slowly(struct stock *stock, struct report *report)
{
	const struct station *station = station_of(real_qp(stock->qp)->adapter);
	struct engine *engine = station->engine;
	uint32_t number = stock->qp->qp_num;
	struct closing closing = {
	    .lane = engine->lanes[steer_lane(number, engine->lane_count)],
	    .openings = &engine->openings,
	    .ifindex = station->info.ifindex,
	    .number = number,
	};
	pthread_t holder;

	pthread_mutex_lock(&engine->openings.call_lock);
	assert_int_equal(pthread_create(&holder, NULL, hold_lane, &closing), 0);
	while (!atomic_load(&closing.has_lane))
		usleep(100);
	report->error = ibv_destroy_qp(stock->qp);
	pthread_mutex_unlock(&engine->openings.call_lock);
	pthread_join(holder, NULL);
	report->number = closing.is_homeless;
}

static inline void do_event(struct stock *stock, struct report *report)
{
	struct ibv_async_event event;

	report->error = ibv_get_async_event(context, &event) ? errno : 0;
	report->number = event.event_type;
	report->addr = event.element.qp == stock->qp;
	ibv_ack_async_event(&event);
}

static inline int close_srq(struct stock *stock)
{
	int error = ibv_destroy_srq(stock->srq);

	if (!error)
		error = ibv_destroy_cq(stock->end.cq);
	if (!error)
		error = ibv_dereg_mr(stock->end.mr);
	free(stock->end.buffer);
	return error;
}

static inline int close_all(struct stock *stock)
{
	int error = ibv_destroy_qp(stock->qp);

	if (!error)
		error = close_srq(stock);
	if (!error)
		error = ibv_close_xrcd(stock->xrcd);
	if (!error)
		error = ibv_dealloc_pd(pd);
	return error ? error : ibv_close_device(context);
}

static inline void sleep_in_child(void)
{
	pid_t parent = getpid();

	if (fork() == 0) {
		while (getppid() == parent || kill(parent, 0) == 0)
			usleep(10000);
		_exit(0);
	}
}

static inline struct report stock_do(struct stock *stock, const struct order *order)
{
	struct report report = {0};
	const char *live;
	struct ibv_qp_attr attr = {.qp_state = (enum ibv_qp_state)order->number};
	struct ibv_qp_init_attr init;

	switch (order->kind) {
	case ORDER_OPEN:
		stock->xrcd = open_domain((int)order->number);
		report.error = stock->xrcd ? 0 : errno;
		break;
	case ORDER_SRQ:
		do_srq(stock, &report);
		break;
	case ORDER_POST:
		do_post(stock, order, &report);
		break;
	case ORDER_NEXT:
		do_next(stock, PATIENCE_S, &report);
		break;
	case ORDER_DRY:
		do_next(stock, order->count / 1000.0, &report);
		break;
	case ORDER_READ:
		memcpy(report.bytes, stock->end.buffer + order->offset, SHOWN);
		break;
	case ORDER_TARGET:
		do_target(stock, order->number, &report);
		break;
	case ORDER_RC:
		do_rc(order->number, &report);
		break;
	case ORDER_OPEN_QP:
		do_open_qp(stock, order->number, &report);
		break;
	case ORDER_MODIFY:
		report.error = ibv_modify_qp(stock->qp, &attr, IBV_QP_STATE);
		break;
	case ORDER_QUERY:
		report.error = ibv_query_qp(stock->qp, &report.attr, IBV_QP_STATE, &init);
		break;
	case ORDER_EVENT:
		do_event(stock, &report);
		break;
	case ORDER_CLOSE_QP:
		report.error = ibv_destroy_qp(stock->qp);
		break;
	case ORDER_CLOSE_SLOWLY:
		do_close_slowly(stock, &report);
		break;
	case ORDER_CLOSE_SRQ:
		report.error = close_srq(stock);
		break;
	case ORDER_CLOSE_DOMAIN:
		report.error = ibv_close_xrcd(stock->xrcd);
		break;
	case ORDER_CLOSE_ALL:
		report.error = close_all(stock);
		break;
	case ORDER_EXIT:
		exit(0);
	case ORDER_FORK:
		sleep_in_child();
		break;
	}
	report.reason = report.error ? reason_last(&live) : REASON_NONE;
	return report;
}

static inline int live_open_here(void)
{
	if (are_two_hosts())
		return open_host(true);
	context = open_loopback();
	if (!context || !find_ipv4() || ibv_query_device(context, &device_attr))
		return -1;
	peer_gid = gid;
	pd = ibv_alloc_pd(context);
	return pd ? 0 : -1;
}

/* The test's own. */
static inline int helper_live_open(void **state)
{
	int error = are_two_hosts() ? open_host(false) : live_open(state);

	if (!error && !are_two_hosts())
		peer_gid = gid;
	return error;
}

static inline void helper_main(int line)
{
	struct stock stock = {0};
	struct order order;

	if (live_open_here())
		_exit(1);
	while (recv(line, &order, sizeof(order), 0) == sizeof(order)) {
		struct report report = stock_do(&stock, &order);

		if (send(line, &report, sizeof(report), MSG_NOSIGNAL) < 0)
			break;
	}
	_exit(0);
}

/* The program itself once more: in a mere child of a fork, sanitizers' locks may be taken for ever.
 */
static inline struct helper helper_start(void)
{
	char line[16], domain[16];
	char *argv[] = {"/proc/self/exe", "helper", line, domain, NULL};
	struct helper helper;
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	assert_int_equal(fcntl(ends[0], F_SETFD, FD_CLOEXEC), 0);
	snprintf(line, sizeof(line), "%d", ends[1]);
	snprintf(domain, sizeof(domain), "%d", domain_fd);
	assert_int_equal(posix_spawn(&helper.pid, argv[0], NULL, NULL, argv, environ), 0);
	close(ends[1]);
	helper.line = ends[0];
	return helper;
}

/* First of all in main(): whether this is a helper. It does not return there. */
static inline void helper_if_told(int argc, char **argv)
{
	if (argc != 4 || strcmp(argv[1], "helper"))
		return;
	domain_fd = atoi(argv[3]);
	helper_main(atoi(argv[2]));
}

static inline void helper_begin(struct helper *helper, struct order order)
{
	assert_int_equal(send(helper->line, &order, sizeof(order), MSG_NOSIGNAL), sizeof(order));
}

static inline struct report helper_end(struct helper *helper)
{
	struct report report;

	assert_int_equal(recv(helper->line, &report, sizeof(report), 0), sizeof(report));
	return report;
}

static inline struct report helper_do(struct helper *helper, struct order order)
{
	helper_begin(helper, order);
	return helper_end(helper);
}

/* The same, which has to work. */
static inline struct report helper_can(struct helper *helper, struct order order)
{
	struct report report = helper_do(helper, order);

	if (report.error)
		fail_msg("order %d: %s, reason %u", order.kind, strerror(report.error),
			 report.reason);
	return report;
}

static inline void helper_kill(struct helper *helper)
{
	kill(helper->pid, SIGKILL);
	waitpid(helper->pid, NULL, 0);
	close(helper->line);
	helper->pid = 0;
}

/* By exit(), with all it has. */
static inline void helper_exit(struct helper *helper)
{
	struct order order = {.kind = ORDER_EXIT};

	helper_begin(helper, order);
	waitpid(helper->pid, NULL, 0);
	close(helper->line);
	helper->pid = 0;
}

static inline void helper_stop(struct helper *helper)
{
	if (!helper->pid)
		return;
	close(helper->line);
	waitpid(helper->pid, NULL, 0);
	helper->pid = 0;
}

#endif
