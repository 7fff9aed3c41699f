/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An adapter that has nothing to do costs nothing: its threads sleep until something comes. And
 * what comes together wakes a program that sleeps on a completion channel once.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>

#include "live.h"

enum {
	SETTLE_MS =
	    400, /* the lane's thread naps by the millisecond; a timer that is set runs out once */
	IDLE_MS = 1000,
	BATCH = 16,
	BATCHES = 30,
};

static void pause_ms(long ms)
{
	struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	nanosleep(&time, NULL);
}

/* How often a thread went to sleep by itself, so how often it had been awake. */
static long sleeps_of(const char *thread)
{
	char path[64 + 256], line[128];
	long count = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", thread);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		sscanf(line, "voluntary_ctxt_switches: %ld", &count);
	fclose(file);
	assert_true(count >= 0);
	return count;
}

static bool is_ours(const char *thread)
{
	char path[64 + 256], name[16] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%s/comm", thread);
	file = fopen(path, "r");
	if (file && !fgets(name, sizeof(name), file))
		name[0] = '\0';
	if (file)
		fclose(file);
	/* where the network is not this test's alone, others that open a device ask who has its
	 * address */
	if (!is_own_network && !strcmp(name, "verbatim/mail\n"))
		return false;
	return !strncmp(name, "verbatim/", 9);
}

/* Of the adapter's threads; `threads` is how many. */
static long sleeps_of_ours(int *threads)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	long count = 0;

	assert_non_null(tasks);
	*threads = 0;
	while ((entry = readdir(tasks))) {
		if (entry->d_name[0] == '.' || !is_ours(entry->d_name))
			continue;
		count += sleeps_of(entry->d_name);
		++*threads;
	}
	closedir(tasks);
	return count;
}

static void exchange(struct end *a, struct end *b)
{
	struct ibv_sge sge = end_sge(a, 0, 8);
	struct ibv_send_wr wr = make_send(IBV_WR_SEND, &sge);

	for (int i = 0; i < 100; i++) {
		assert_int_equal(post_recv(b, 1, 8), 0);
		post_send_wr(a, &wr);
		assert_wc(next_wc(b->cq), 1, IBV_WC_SUCCESS);
		assert_wc(next_wc(a->cq), 0x5e4d, IBV_WC_SUCCESS);
	}
}

static void nothing_to_do_wakes_nobody(void **state)
{
	struct end a, b;
	int threads;
	long before;

	pair_create(&a, &b, IBV_QPT_RC);
	exchange(&a, &b);
	pause_ms(SETTLE_MS);
	before = sleeps_of_ours(&threads);
	/* a lane's, the one that follows the interfaces, the mail's */
	assert_true(threads >= 2 + is_own_network);
	pause_ms(IDLE_MS);
	assert_int_equal(sleeps_of_ours(&threads), before);
	pair_destroy(&a, &b);
}

/* All are posted as one list, so they arrive together. */
static void what_comes_together_tells_once(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = ibv_create_cq(context, 2 * BATCH, NULL, channel, 0), *told;
	struct ibv_send_wr wrs[BATCH], *bad;
	struct ibv_wc wc[2 * BATCH];
	struct ibv_qp_init_attr attr;
	struct ibv_sge sge;
	struct pollfd poll_fd;
	struct end a, b;
	void *context_of;

	end_create(&a, IBV_QPT_RC);
	end_make_buffer(&b);
	b.cq = cq;
	attr = end_qp_attr(cq, IBV_QPT_RC);
	b.qp = ibv_create_qp(pd, &attr);
	assert_non_null(b.qp);
	qp_init(a.qp, live_access);
	qp_init(b.qp, live_access);
	qp_connect(a.qp, b.qp->qp_num);
	qp_connect(b.qp, a.qp->qp_num);
	sge = end_sge(&a, 0, 8);
	for (int i = 0; i < BATCH; i++) {
		assert_int_equal(post_recv(&b, (uint64_t)i, 8), 0);
		wrs[i] = make_send(IBV_WR_SEND, &sge);
		wrs[i].next = i + 1 < BATCH ? &wrs[i + 1] : NULL;
	}
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_int_equal(ibv_post_send(a.qp, wrs, &bad), 0);
	for (int i = 0; i < BATCH; i++)
		assert_wc(next_wc(a.cq), 0x5e4d, IBV_WC_SUCCESS);
	assert_int_equal(ibv_get_cq_event(channel, &told, &context_of), 0);
	assert_ptr_equal(told, cq);
	poll_fd = (struct pollfd){.fd = channel->fd, .events = POLLIN};
	assert_int_equal(poll(&poll_fd, 1, 50), 0); /* and no second one */
	assert_int_equal(ibv_poll_cq(cq, 2 * BATCH, wc), BATCH);
	ibv_ack_cq_events(cq, 1);
	end_destroy(&a);
	end_destroy(&b);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* What sleeps on the channel of a CQ and takes all that is there when it wakes. */
struct sleeper {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	sem_t ready, done;
	long sleeps;
};

static void *sleep_on_channel(void *data)
{
	struct sleeper *sleeper = data;
	struct ibv_wc wc[BATCH];
	struct ibv_cq *told;
	void *context_of;
	char thread[16];

	snprintf(thread, sizeof(thread), "%d", (int)gettid());
	for (int batch = 0; batch < BATCHES; batch++) {
		int taken = 0;

		assert_int_equal(ibv_req_notify_cq(sleeper->cq, 0), 0);
		sem_post(&sleeper->ready);
		sleeper->sleeps -= sleeps_of(thread);
		assert_int_equal(ibv_get_cq_event(sleeper->channel, &told, &context_of), 0);
		sleeper->sleeps += sleeps_of(thread);
		while (taken < BATCH)
			taken += ibv_poll_cq(sleeper->cq, BATCH - taken, wc + taken);
		sem_post(&sleeper->done);
	}
	ibv_ack_cq_events(sleeper->cq, BATCHES);
	return NULL;
}

/* Once for each message would be BATCH times as often. */
static void who_sleeps_on_a_channel_is_woken_once_a_batch(void **state)
{
	struct sleeper sleeper = {.channel = ibv_create_comp_channel(context)};
	struct ibv_send_wr wrs[BATCH], *bad;
	struct ibv_qp_init_attr attr;
	struct ibv_sge sge;
	struct end a, b;
	pthread_t thread;

	sleeper.cq = ibv_create_cq(context, BATCH, NULL, sleeper.channel, 0);
	end_create(&a, IBV_QPT_RC);
	end_make_buffer(&b);
	b.cq = sleeper.cq;
	attr = end_qp_attr(b.cq, IBV_QPT_RC);
	b.qp = ibv_create_qp(pd, &attr);
	assert_non_null(b.qp);
	qp_init(a.qp, live_access);
	qp_init(b.qp, live_access);
	qp_connect(a.qp, b.qp->qp_num);
	qp_connect(b.qp, a.qp->qp_num);
	sge = end_sge(&a, 0, 8);
	sem_init(&sleeper.ready, 0, 0);
	sem_init(&sleeper.done, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, sleep_on_channel, &sleeper), 0);
	for (int batch = 0; batch < BATCHES; batch++) {
		for (int i = 0; i < BATCH; i++) {
			assert_int_equal(post_recv(&b, (uint64_t)i, 8), 0);
			wrs[i] = make_send(IBV_WR_SEND, &sge);
			wrs[i].next = i + 1 < BATCH ? &wrs[i + 1] : NULL;
		}
		sem_wait(&sleeper.ready);
		assert_int_equal(ibv_post_send(a.qp, wrs, &bad), 0);
		for (int i = 0; i < BATCH; i++)
			assert_wc(next_wc(a.cq), 0x5e4d, IBV_WC_SUCCESS);
		sem_wait(&sleeper.done);
	}
	pthread_join(thread, NULL);
	if (sleeper.sleeps > 2 * BATCHES) /* some are for a lock that the other thread has */
		fail_msg("%d batches of %d woke it %ld times", BATCHES, BATCH, sleeper.sleeps);
	end_destroy(&a);
	end_destroy(&b);
	assert_int_equal(ibv_destroy_comp_channel(sleeper.channel), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_to_do_wakes_nobody),
	    cmocka_unit_test(what_comes_together_tells_once),
	    cmocka_unit_test(who_sleeps_on_a_channel_is_woken_once_a_batch),
	};

	return cmocka_run_group_tests(tests, live_open, live_close);
}
