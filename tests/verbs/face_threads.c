/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects used from every thread: pairs of QPs that talk while others are made and destroyed,
 * several threads that post to and poll one QP, regions that come and go while peers use their
 * keys, events taken and acknowledged elsewhere. Built with -DVERBATIM_SANITIZE=thread it also
 * shows races.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>

#include "live.h"

enum { THREADS = 4, ROUNDS = 60, SHARED_MESSAGES = 150 };

static pthread_mutex_t faults_lock = PTHREAD_MUTEX_INITIALIZER;
static char fault[256];

/* cmocka's assertions belong to the main thread: others leave a note. */
static void note_fault(const char *what, int value)
{
	pthread_mutex_lock(&faults_lock);
	if (!*fault)
		snprintf(fault, sizeof(fault), "%s: %d", what, value);
	pthread_mutex_unlock(&faults_lock);
}

static void run_threads(void *(*run)(void *), int count, void *data)
{
	pthread_t threads[16];

	fault[0] = '\0';
	for (int i = 0; i < count; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run, data), 0);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	assert_string_equal(fault, "");
}

static bool wait_wc(struct ibv_cq *cq, struct ibv_wc *wc)
{
	double end = seconds() + PATIENCE_S;
	int count;

	do {
		count = ibv_poll_cq(cq, 1, wc);
		if (count > 0 && wc->status != IBV_WC_SUCCESS)
			note_fault("status", wc->status);
	} while (!count && seconds() < end);
	if (count != 1)
		note_fault("completions", count);
	return count == 1;
}

/* ---- a life of its own in each thread ---- */

static int modify(struct ibv_qp *qp, uint32_t dest)
{
	struct ibv_qp_attr init = {
	    .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = (unsigned int)live_access};
	struct ibv_qp_attr rtr = rtr_attr(dest), rts = rts_attr();

	rts.timeout = 14;
	rts.retry_cnt = 7;
	rts.rnr_retry = 7;
	return ibv_modify_qp(qp, &init,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				 IBV_QP_ACCESS_FLAGS) ||
	       ibv_modify_qp(qp, &rtr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				 IBV_QP_MIN_RNR_TIMER) ||
	       ibv_modify_qp(qp, &rts,
			     IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void talk(struct ibv_qp *x, struct ibv_qp *y, struct ibv_cq *cq, struct ibv_mr *mr)
{
	struct ibv_sge from = {.addr = (uintptr_t)mr->addr, .length = 2000, .lkey = mr->lkey};
	struct ibv_sge to = {.addr = (uintptr_t)mr->addr + 4096, .length = 2000, .lkey = mr->lkey};
	struct ibv_send_wr send = make_send(IBV_WR_SEND, &from), *bad_send;
	struct ibv_wc wc;

	for (int i = 0; i < 3; i++) {
		memset(mr->addr, i + 1, 2000);
		if (post_recv_sge(y, 1, to) || ibv_post_send(x, &send, &bad_send)) {
			note_fault("posting", errno);
			return;
		}
		if (!wait_wc(cq, &wc) || !wait_wc(cq, &wc))
			return;
		if (((char *)mr->addr)[4096 + 1999] != i + 1)
			note_fault("data", ((char *)mr->addr)[4096 + 1999]);
	}
}

static void *live_and_die(void *data)
{
	char *memory = aligned_alloc(4096, 8192);

	for (int i = 0; i < ROUNDS / THREADS; i++) {
		struct ibv_mr *mr = ibv_reg_mr(pd, memory, 8192, live_access);
		struct ibv_cq *cq = ibv_create_cq(context, CQE, NULL, NULL, 0);
		struct ibv_qp_init_attr attr = end_qp_attr(cq, IBV_QPT_RC);
		struct ibv_qp *x = ibv_create_qp(pd, &attr), *y = ibv_create_qp(pd, &attr);

		if (!mr || !x || !y || modify(x, y->qp_num) || modify(y, x->qp_num)) {
			note_fault("creation", errno);
			break;
		}
		talk(x, y, cq, mr);
		if (ibv_destroy_qp(x) || ibv_destroy_qp(y) || ibv_destroy_cq(cq) ||
		    ibv_dereg_mr(mr))
			note_fault("destruction", errno);
	}
	free(memory);
	return NULL;
}

static void objects_are_made_used_and_destroyed_in_every_thread(void **state)
{
	run_threads(live_and_die, THREADS, NULL);
}

/* ---- one QP, several threads ---- */

static struct end a, b;
static atomic_int sends_done, recvs_done;

static void *post_to_shared(void *data)
{
	struct ibv_sge sge = end_sge(&a, 0, 100);
	struct ibv_send_wr wr = make_send(IBV_WR_SEND, &sge), *bad;
	int left = SHARED_MESSAGES;
	double end = seconds() + 2 * PATIENCE_S;

	while (left && seconds() < end) {
		int ret = ibv_post_send(a.qp, &wr, &bad);

		if (!ret)
			left--;
		else if (ret != ENOMEM)
			note_fault("post_send", ret);
		else
			sched_yield();
	}
	return NULL;
}

static void *poll_shared(void *data)
{
	double end = seconds() + 2 * PATIENCE_S;
	struct ibv_wc wc[4];

	while ((sends_done < 2 * SHARED_MESSAGES || recvs_done < 2 * SHARED_MESSAGES) &&
	       seconds() < end) {
		int sent = ibv_poll_cq(a.cq, 4, wc);

		for (int i = 0; i < sent; i++)
			if (wc[i].status)
				note_fault("send", wc[i].status);
		sends_done += sent;
		if (ibv_poll_cq(b.cq, 1, wc) == 1) {
			if (wc[0].status)
				note_fault("receive", wc[0].status);
			if (post_recv(&b, 1, 100))
				note_fault("post_recv", errno);
			recvs_done++;
		}
	}
	return NULL;
}

static void *post_or_poll(void *data)
{
	static atomic_int next;

	return atomic_fetch_add(&next, 1) % 2 ? poll_shared(data) : post_to_shared(data);
}

static void one_qp_is_posted_to_and_polled_by_several_threads(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	pair_create(&a, &b, IBV_QPT_RC);
	assert_int_equal(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(modify(a.qp, b.qp->qp_num) || modify(b.qp, a.qp->qp_num), 0);
	for (int i = 0; i < 12; i++)
		assert_int_equal(post_recv(&b, 1, 100), 0);
	run_threads(post_or_poll, 4, NULL);
	assert_int_equal(sends_done, 2 * SHARED_MESSAGES);
	assert_int_equal(recvs_done, 2 * SHARED_MESSAGES);
	pair_destroy(&a, &b);
}

/* ---- a builder and a cursor, several threads ---- */

static struct ibv_qp_ex *shared_ex;
static struct ibv_cq_ex *shared_cq;
static atomic_int written;

static void *build_and_read(void *data)
{
	double end = seconds() + 2 * PATIENCE_S;

	for (int i = 0; i < 50; i++) {
		ibv_wr_start(shared_ex);
		shared_ex->wr_id = 5;
		shared_ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(shared_ex, b.mr->rkey, (uintptr_t)b.buffer);
		ibv_wr_set_inline_data(shared_ex, (void *)"data", 5);
		if (ibv_wr_complete(shared_ex) == ENOMEM)
			i--;
		if (!ibv_start_poll(shared_cq, NULL)) {
			if (shared_cq->status || shared_cq->wr_id != 5)
				note_fault("cursor", shared_cq->status);
			written++;
			ibv_end_poll(shared_cq);
		}
		if (seconds() > end)
			break;
	}
	return NULL;
}

static void a_builder_and_a_cursor_are_used_by_several_threads(void **state)
{
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 256, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_qp_init_attr plain;
	struct ibv_qp_init_attr_ex attr = {
	    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	    .pd = pd,
	    .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
	};
	double end = seconds() + PATIENCE_S;
	struct ibv_qp *x;

	shared_cq = ibv_create_cq_ex(context, &cq_attr);
	end_create(&b, IBV_QPT_RC);
	plain = end_qp_attr(ibv_cq_ex_to_cq(shared_cq), IBV_QPT_RC);
	/* up to comp_mask, which lies where the plain one has padding */
	memcpy(&attr, &plain, offsetof(struct ibv_qp_init_attr_ex, comp_mask));
	x = ibv_create_qp_ex(context, &attr);
	assert_non_null(x);
	assert_int_equal(modify(x, b.qp->qp_num) || modify(b.qp, x->qp_num), 0);
	shared_ex = ibv_qp_to_qp_ex(x);
	run_threads(build_and_read, 3, NULL);
	while (written < 150 && seconds() < end)
		if (!ibv_start_poll(shared_cq, NULL)) {
			written++;
			ibv_end_poll(shared_cq);
		}
	assert_int_equal(written, 150);
	assert_int_equal(ibv_destroy_qp(x), 0);
	end_destroy(&b);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(shared_cq)), 0);
}

/* ---- keys that end while a peer uses them ---- */

static atomic_uint current_rkey;
static atomic_bool is_over;

static void *swap_regions(void *data)
{
	struct ibv_mr *old = NULL, *next;

	while (!is_over) {
		next = ibv_reg_mr(pd, b.buffer, BUFFER, live_access);
		current_rkey = next->rkey;
		usleep(200);
		if (old && ibv_dereg_mr(old))
			note_fault("dereg", errno);
		old = next;
	}
	return old;
}

/* Either it works, or the key was gone: then the pair is made anew. */
static void a_region_ends_while_a_peer_writes_to_it(void **state)
{
	pthread_t thread;
	int failures = 0;
	struct ibv_wc wc;
	void *last;

	end_create(&a, IBV_QPT_RC);
	end_create(&b, IBV_QPT_RC);
	is_over = false;
	fault[0] = '\0';
	assert_int_equal(modify(a.qp, b.qp->qp_num) || modify(b.qp, a.qp->qp_num), 0);
	assert_int_equal(pthread_create(&thread, NULL, swap_regions, NULL), 0);
	for (int i = 0; i < 300; i++) {
		struct ibv_sge sge = end_sge(&a, 0, 4000);
		struct ibv_send_wr wr = make_send(IBV_WR_RDMA_WRITE, &sge);
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

		while (!current_rkey)
			sched_yield();
		wr.wr.rdma.remote_addr = (uintptr_t)b.buffer;
		wr.wr.rdma.rkey = current_rkey;
		post_send_wr(&a, &wr);
		wc = next_wc(a.cq);
		if (!wc.status)
			continue;
		failures++;
		assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
		assert_int_equal(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
		assert_int_equal(modify(a.qp, b.qp->qp_num) || modify(b.qp, a.qp->qp_num), 0);
	}
	is_over = true;
	pthread_join(thread, &last);
	assert_int_equal(ibv_dereg_mr(last), 0);
	assert_string_equal(fault, "");
	assert_true(failures < 300);
	pair_destroy(&a, &b);
}

/* ---- contexts ---- */

static void *open_and_close(void *data)
{
	for (int i = 0; i < 10; i++) {
		struct ibv_context *own = open_loopback();
		struct ibv_port_attr port;

		if (!own || ibv_query_port(own, 1, &port) || ibv_close_device(own))
			note_fault("context", errno);
	}
	return NULL;
}

static void contexts_come_and_go_in_every_thread(void **state)
{
	run_threads(open_and_close, THREADS, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(objects_are_made_used_and_destroyed_in_every_thread),
	    cmocka_unit_test(one_qp_is_posted_to_and_polled_by_several_threads),
	    cmocka_unit_test(a_builder_and_a_cursor_are_used_by_several_threads),
	    cmocka_unit_test(a_region_ends_while_a_peer_writes_to_it),
	    cmocka_unit_test(contexts_come_and_go_in_every_thread),
	};

	return cmocka_run_group_tests(tests, live_open, live_close);
}
