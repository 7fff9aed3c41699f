// SPDX-License-Identifier: BSD-2-Clause
/*
 * Many threads of one process at once over the public verbs, for some seconds: pairs of queue pairs
 * with a thread an end; one queue pair that two threads post to and whose completions three others
 * take, polling and through a channel; and threads that make and destroy all kinds of objects,
 * register and deregister, modify, resize and open devices all the while. Whatever the rest does,
 * each message arrives once and each completion comes once.
 */
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rig.h"

enum { PAIRS = 2, CREDITS = 64, MESSAGES = 1 << 22, SHARED_BYTES = 64, CQ_ENTRIES = 256 };

static struct rig rig;
static atomic_bool stop;
static uint64_t until;

/* ---- one queue pair, many threads ---- */

static struct shared {
	char bytes[CREDITS][SHARED_BYTES];
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq, *other_cq;
	struct ibv_qp *from, *to;
	atomic_uint next, sent, completed, received; /* sent: as posted */
	atomic_bool posters_are_done, is_done;
	atomic_uchar seen[MESSAGES];
} shared;

static void shared_receive(void)
{
	struct ibv_sge sge = {(uintptr_t)shared.bytes, SHARED_BYTES, shared.mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!ibv_post_recv(shared.to, &wr, &bad));
}

static void *shared_poster(void *unused)
{
	while (!atomic_load(&stop)) {
		uint32_t number = atomic_fetch_add(&shared.next, 1);
		struct ibv_sge sge = {(uintptr_t)shared.bytes, SHARED_BYTES, shared.mr->lkey};
		struct ibv_send_wr wr = {.wr_id = number,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED};
		struct ibv_send_wr *bad;

		CHECK(number < MESSAGES);
		while (number >= atomic_load(&shared.completed) + CREDITS)
			if (atomic_load(&shared.is_done))
				return NULL;
		CHECK(!ibv_post_send(shared.from, &wr, &bad));
		atomic_fetch_add(&shared.sent, 1);
	}
	return NULL;
}

static void shared_take(struct ibv_cq *cq)
{
	struct ibv_wc wc[8];
	int count = ibv_poll_cq(cq, 8, wc);

	CHECK(count >= 0);
	for (int i = 0; i < count; i++) {
		CHECK(wc[i].status == IBV_WC_SUCCESS);
		if (wc[i].opcode == IBV_WC_SEND) {
			CHECK(wc[i].qp_num == shared.from->qp_num);
			CHECK(!atomic_exchange(&shared.seen[wc[i].wr_id], 1));
			atomic_fetch_add(&shared.completed, 1);
		} else {
			CHECK(wc[i].qp_num == shared.to->qp_num);
			shared_receive();
			atomic_fetch_add(&shared.received, 1);
		}
	}
}

static void *shared_poller(void *cq)
{
	while (!atomic_load(&shared.is_done))
		shared_take(cq);
	return NULL;
}

/* Takes completions of both queues as the channel tells. The last event is the main thread's, a
 * message when all else is over. */
static void *shared_sleeper(void *unused)
{
	unsigned int unacknowledged[2] = {0};
	struct ibv_cq *cq;
	void *which;

	CHECK(!ibv_req_notify_cq(shared.send_cq, 0));
	CHECK(!ibv_req_notify_cq(shared.recv_cq, 1));
	while (!atomic_load(&shared.is_done)) {
		CHECK(!ibv_get_cq_event(shared.channel, &cq, &which));
		CHECK(cq == (which ? shared.recv_cq : shared.send_cq));
		CHECK(!ibv_req_notify_cq(cq, which != NULL));
		shared_take(cq);
		if (++unacknowledged[which != NULL] == 10) {
			ibv_ack_cq_events(cq, 10);
			unacknowledged[which != NULL] = 0;
		}
	}
	ibv_ack_cq_events(shared.send_cq, unacknowledged[0]);
	ibv_ack_cq_events(shared.recv_cq, unacknowledged[1]);
	return NULL;
}

static void shared_open(void)
{
	shared.channel = ibv_create_comp_channel(rig.context);
	CHECK(shared.channel);
	shared.send_cq = ibv_create_cq(rig.context, CQ_ENTRIES, NULL, shared.channel, 0);
	shared.recv_cq = ibv_create_cq(rig.context, CQ_ENTRIES, &shared, shared.channel, 0);
	CHECK(shared.send_cq && shared.recv_cq);
	shared.mr = ibv_reg_mr(rig.pd, shared.bytes, sizeof(shared.bytes), IBV_ACCESS_LOCAL_WRITE);
	CHECK(shared.mr);
	shared.from = rig_qp(&rig, shared.send_cq, shared.send_cq, CREDITS);
	shared.to = rig_qp(&rig, shared.recv_cq, shared.recv_cq, CREDITS);
	rig_init(shared.from);
	rig_init(shared.to);
	for (int i = 0; i < CREDITS; i++)
		shared_receive();
	rig_connect(&rig, shared.from, shared.to->qp_num);
	rig_connect(&rig, shared.to, shared.from->qp_num);
}

/* The posters are done. One message more wakes the sleeper to see it. */
static void shared_finish(void)
{
	struct ibv_sge sge = {(uintptr_t)shared.bytes, SHARED_BYTES, shared.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = MESSAGES - 1,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED};
	struct ibv_send_wr *bad;

	while (atomic_load(&shared.completed) < atomic_load(&shared.sent) ||
	       atomic_load(&shared.received) < atomic_load(&shared.sent))
		;
	CHECK(atomic_load(&shared.completed) == atomic_load(&shared.sent));
	CHECK(atomic_load(&shared.received) == atomic_load(&shared.sent));
	atomic_store(&shared.is_done, true);
	CHECK(!ibv_post_send(shared.from, &wr, &bad));
}

static void shared_close(void)
{
	CHECK(!ibv_destroy_qp(shared.from));
	CHECK(!ibv_destroy_qp(shared.to));
	CHECK(!ibv_destroy_cq(shared.send_cq));
	CHECK(!ibv_destroy_cq(shared.recv_cq));
	CHECK(!ibv_destroy_comp_channel(shared.channel));
	CHECK(!ibv_dereg_mr(shared.mr));
}

/* ---- those who disturb ---- */

static void send_one(struct ibv_qp *qp, struct ibv_mr *mr, bool is_signaled)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, 16, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = is_signaled ? IBV_SEND_SIGNALED : 0};
	struct ibv_send_wr *bad;

	CHECK(!ibv_post_send(qp, &wr, &bad));
}

static void take_one(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int count;

	while (!(count = ibv_poll_cq(cq, 1, &wc)))
		;
	CHECK(count == 1);
	CHECK(wc.status == IBV_WC_SUCCESS);
}

/* All objects anew each time; every other time they go while a message is on its way. */
static void churn_once(char *bytes, bool is_waiting)
{
	struct ibv_pd *pd = ibv_alloc_pd(rig.context);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(rig.context);
	struct ibv_cq *cq = ibv_create_cq(rig.context, 16, NULL, channel, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, bytes, 4096, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_attr);
	struct ibv_qp_init_attr attr = {
	    .send_cq = cq,
	    .recv_cq = cq,
	    .srq = srq,
	    .cap = {.max_send_wr = 4, .max_send_sge = 1},
	    .qp_type = IBV_QPT_RC,
	};
	struct ibv_ah_attr path = {
	    .grh = {.dgid = rig.gid, .sgid_index = rig.gid_index}, .is_global = 1, .port_num = 1};
	struct ibv_ah *ah = ibv_create_ah(pd, &path);
	struct ibv_qp *a = ibv_create_qp(pd, &attr), *b = ibv_create_qp(pd, &attr);
	struct ibv_sge sge = {(uintptr_t)bytes + 2048, 16, 0};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(pd && channel && cq && mr && srq && ah && a && b);
	sge.lkey = mr->lkey;
	CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
	rig_init(a);
	rig_init(b);
	rig_connect(&rig, a, b->qp_num);
	rig_connect(&rig, b, a->qp_num);
	CHECK(!ibv_req_notify_cq(cq, 0));
	send_one(a, mr, is_waiting);
	if (is_waiting) {
		take_one(cq);
		take_one(cq);
	}
	CHECK(!ibv_destroy_qp(b));
	CHECK(!ibv_destroy_qp(a));
	CHECK(!ibv_destroy_ah(ah));
	CHECK(!ibv_destroy_srq(srq));
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!ibv_destroy_cq(cq));
	CHECK(!ibv_destroy_comp_channel(channel));
	CHECK(!ibv_dealloc_pd(pd));
}

static void *churn(void *unused)
{
	char *bytes = calloc(1, 4096);

	CHECK(bytes);
	for (int i = 0; !atomic_load(&stop); i++)
		churn_once(bytes, i % 2);
	free(bytes);
	return NULL;
}

static void *registrar(void *data)
{
	struct traffic *traffic = data;
	size_t length = traffic->mr->length;

	while (!atomic_load(&stop)) {
		struct ibv_mr *mr[16];

		for (size_t i = 0; i < 16; i++) {
			mr[i] = ibv_reg_mr(rig.pd, (char *)traffic->mr->addr + i, length - i,
					   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
			CHECK(mr[i] && mr[i]->lkey != traffic->mr->lkey &&
			      mr[i]->rkey != traffic->mr->rkey);
		}
		for (int i = 0; i < 16; i++)
			CHECK(!ibv_dereg_mr(mr[i]));
	}
	return NULL;
}

/* A queue pair through its states, with work that is flushed, and back to RESET. */
static void cycle(struct ibv_qp *qp, struct ibv_cq *cq)
{
	struct ibv_sge sge = {(uintptr_t)shared.bytes, SHARED_BYTES, shared.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_wc wc;
	int count;

	rig_init(qp);
	CHECK(!ibv_post_recv(qp, &wr, &bad));
	rig_connect(&rig, qp, qp->qp_num);
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	while (!(count = ibv_poll_cq(cq, 1, &wc)))
		;
	CHECK(count == 1 && wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 1);
	attr.qp_state = IBV_QPS_RESET;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
}

static void *meddler(void *unused)
{
	struct ibv_cq *cq = ibv_create_cq(rig.context, 4, NULL, NULL, 0);
	struct ibv_qp *qp;

	CHECK(cq);
	qp = rig_qp(&rig, cq, cq, 4);
	for (int i = 0; !atomic_load(&stop); i++) {
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
					   .min_rnr_timer = (uint8_t)(1 + i % 3)};
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr seen;

		CHECK(!ibv_modify_qp(shared.to, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER));
		CHECK(!ibv_query_qp(shared.to, &seen, IBV_QP_STATE, &init));
		CHECK(seen.qp_state == IBV_QPS_RTS && seen.min_rnr_timer == attr.min_rnr_timer);
		CHECK(!ibv_resize_cq(shared.send_cq, CQ_ENTRIES + i % 64));
		CHECK(!ibv_resize_cq(shared.recv_cq, CQ_ENTRIES + i % 32));
		cycle(qp, cq);
	}
	CHECK(!ibv_destroy_qp(qp));
	CHECK(!ibv_destroy_cq(cq));
	return NULL;
}

static void *opener(void *unused)
{
	while (!atomic_load(&stop)) {
		struct ibv_device_attr attr;
		struct ibv_port_attr port;
		struct rig another;

		rig_open(&another);
		CHECK(!ibv_query_device(another.context, &attr));
		CHECK(!ibv_query_port(another.context, 1, &port));
		CHECK(port.state == IBV_PORT_ACTIVE);
		rig_close(&another);
	}
	return NULL;
}

/* ---- all of them ---- */

enum { THREADS_MAX = 32 };
static pthread_t threads[THREADS_MAX];
static int started;

static int start(void *(*run)(void *), void *data)
{
	CHECK(started < THREADS_MAX);
	CHECK(!pthread_create(&threads[started], NULL, run, data));
	return started++;
}

static void join(int first, int last)
{
	for (int i = first; i <= last; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

int main(int argc, char **argv)
{
	static struct traffic ends[2 * PAIRS];
	int posters, last;

	rig_watchdog(110);
	rig_open(&rig);
	shared_open();
	for (int i = 0; i < 2 * PAIRS; i += 2) {
		int line[2];

		CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, line));
		traffic_open(&ends[i], &rig, line[0], &stop);
		traffic_open(&ends[i + 1], &rig, line[1], &stop);
	}
	until = rig_ms() + (argc > 1 ? strtoul(argv[1], NULL, 10) : 2500);
	posters = start(shared_poster, NULL);
	start(shared_poster, NULL);
	start(churn, NULL);
	start(churn, NULL);
	start(registrar, &ends[0]);
	start(meddler, NULL);
	last = start(opener, NULL);
	for (int i = 0; i < 2 * PAIRS; i++)
		last = start(traffic_run, &ends[i]);
	start(shared_poller, shared.send_cq);
	start(shared_poller, shared.recv_cq);
	start(shared_sleeper, NULL);
	while (rig_ms() < until)
		usleep(10000);
	atomic_store(&stop, true);
	join(posters, last);
	shared_finish();
	join(last + 1, started - 1);
	for (int i = 0; i < 2 * PAIRS; i++)
		traffic_close(&ends[i]);
	shared_close();
	rig_close(&rig);
	printf("%u messages on the shared queue pair, %llu and %llu on the pairs\n",
	       atomic_load(&shared.sent), (unsigned long long)ends[0].sent,
	       (unsigned long long)ends[2].sent);
	return 0;
}
