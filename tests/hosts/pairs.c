/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pairs COUNT [stream | long | poll | threads | fork]: so many processes of each of two hosts
 * (VERBATIM_TEST_HOSTS, tests/verbs/helper.h), which send each other messages until each has
 * sockets that are connected to its peer, a path and an inlet, and then a while by those. Each
 * message is looked at, and no packet may have had a wrong ICRC. They sleep for their completions,
 * since several that poll on two cores take milliseconds a message, unless told to `poll`. With
 * `threads` they are so many threads of one process of each host, which poll; on a busy machine
 * that is slow, so these need not have their sockets. A cancellation is pending all the time.
 *
 * The environment's CHANGE is a command that is run amid the messages; who loses his sockets by it
 * has to get them again. With `fork` each process of the first host forks then: the child has none
 * of its parent's sockets, and is a pair with a process of the second host that waits for it, also
 * when its parent is done. What is `long` is a stream of 60 KiB each, until the senders lend their
 * pages (link/udp_lend.c); then the receivers are stopped now and again, for so long that all that
 * may be under way waits for them, and what is asked for again goes again. So does what is lost,
 * where the line loses something; behind that they lend again.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdatomic.h>

#include "device/qp.h"
#include "engine/engine.h"
#include "engine/lane.h"
#include "link/udp_link.h"
#include "../verbs/helper.h"

enum {
	PAIRS_MAX = 8,
	SLOT = 3072, /* a message of one packet, now and then of three */
	LONG_SLOT = 60 << 10,
	LONG_EVERY = 64,
	RECVS = 16,
	SENDS = 8,
	SETTLED = 1000, /* messages by connected sockets */
	BEGUN = 200,	/* enough for one to be opened */
	LOOK_EVERY = 16,
	PATIENCE_MS = 40000,
	STOPS = 20,
	STOP_MS = 50,
};

enum side { NEAR, FAR, SIDES };

struct pair {
	atomic_uint messages; /* that the far side has had */
	atomic_bool has_sockets[SIDES];
	atomic_bool is_over, is_to_fork;
};

struct message {
	uint32_t number, length;
	bool is_last;
	uint8_t bytes[];
};

static struct pair *pairs; /* all processes have them in common */
static int lines[2 * PAIRS_MAX][SIDES];
static uint32_t pair_count;
static uint32_t slot_bytes = SLOT;
static bool is_stream, is_long, is_polling, has_threads, is_forking;
static enum side side;

/* ---- one side of a pair ---- */

static _Thread_local struct pair *pair;
static _Thread_local struct ibv_comp_channel *channel;
static _Thread_local struct end own;

static void *slot(uint32_t index)
{
	return own.buffer + (size_t)index * slot_bytes;
}

static void take_message(uint32_t index)
{
	assert_int_equal(
	    post_recv_sge(own.qp, index, end_sge(&own, (size_t)index * slot_bytes, slot_bytes)), 0);
}

static void make_end(void)
{
	size_t memory = (size_t)(RECVS + SENDS) * slot_bytes;
	struct ibv_qp_init_attr attr;

	own.buffer = aligned_alloc(4096, memory);
	assert_non_null(own.buffer);
	own.mr = ibv_reg_mr(pd, own.buffer, memory, IBV_ACCESS_LOCAL_WRITE);
	channel = ibv_create_comp_channel(context);
	own.cq = ibv_create_cq(context, CQE, NULL, channel, 0);
	assert_non_null(own.cq);
	attr = end_qp_attr(own.cq, IBV_QPT_RC);
	own.qp = ibv_create_qp(pd, &attr);
	assert_non_null(own.qp);
	qp_init(own.qp, 0);
	for (uint32_t i = 0; i < RECVS; i++)
		take_message(i);
}

/* What is changed in their midst may take half a second. */
static void connect_end(uint32_t dest)
{
	struct ibv_qp_attr rtr = rtr_to_peer(dest), rts = rts_attr();

	rts.retry_cnt = rts.rnr_retry = 7;
	assert_int_equal(ibv_modify_qp(own.qp, &rtr,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					   IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
	assert_int_equal(ibv_modify_qp(own.qp, &rts,
				       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
					   IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					   IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

static uint32_t swap(int line, uint32_t word)
{
	uint32_t others;

	assert_int_equal(write(line, &word, sizeof(word)), sizeof(word));
	assert_int_equal(recv(line, &others, sizeof(others), MSG_WAITALL), sizeof(others));
	return others;
}

static void await_event(void)
{
	struct ibv_cq *cq;
	void *ignored;

	assert_int_equal(ibv_get_cq_event(channel, &cq, &ignored), 0);
	ibv_ack_cq_events(cq, 1);
}

static struct ibv_wc next(void)
{
	bool is_armed = false;
	struct ibv_wc wc;
	int count;

	while ((count = ibv_poll_cq(own.cq, 1, &wc)) == 0) {
		if (is_armed)
			await_event();
		is_armed = !is_armed && !is_polling;
		if (is_armed)
			assert_int_equal(ibv_req_notify_cq(own.cq, 0), 0);
	}
	assert_int_equal(count, 1);
	if (wc.status != IBV_WC_SUCCESS)
		fail_msg("%s: %s", wc.opcode & IBV_WC_RECV ? "receive" : "send",
			 ibv_wc_status_str(wc.status));
	return wc;
}

static uint32_t length_of(uint32_t number)
{
	bool is_short = !is_long && number % LONG_EVERY != LONG_EVERY - 1;

	return is_short ? number % 100 : slot_bytes - (uint32_t)sizeof(struct message);
}

static void send_message(uint32_t number, bool is_last)
{
	uint32_t index = RECVS + number % SENDS;
	struct message *message = slot(index);
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	message->number = number;
	message->is_last = is_last;
	message->length = length_of(number);
	for (uint32_t i = 0; i < message->length; i++)
		message->bytes[i] = (uint8_t)(number * 7 + i);
	sge =
	    end_sge(&own, (size_t)index * slot_bytes, (uint32_t)sizeof(*message) + message->length);
	wr = make_send(IBV_WR_SEND, &sge);
	post_send_wr(&own, &wr);
}

/* True if it is the last. */
static bool has_message(const struct ibv_wc *wc, uint32_t number)
{
	const struct message *message = slot((uint32_t)wc->wr_id);
	bool is_last = message->is_last;

	assert_int_equal(message->number, number);
	assert_int_equal(wc->byte_len, sizeof(*message) + message->length);
	for (uint32_t i = 0; i < message->length; i++)
		assert_int_equal(message->bytes[i], (uint8_t)(number * 7 + i));
	take_message((uint32_t)wc->wr_id);
	return is_last;
}

static bool has_path(const struct udp_paths *paths)
{
	for (uint32_t i = 0; i < PATHS_MAX; i++)
		if (paths->paths[i].to.from && !paths->paths[i].is_dead)
			return true;
	return false;
}

/* Since the last look: the stage moves on behind what was lent, as it does here whichever way is
 * faster. An older kernel never does, and then the stream is as any other. */
static bool lends(struct udp_link *link)
{
	static const uint8_t *stage;
	const uint8_t *before = stage;

	stage = link->stage;
	link->lender.trial = (struct lend_trial){.duel.stage = DUEL_NEVER};
	return !udp_kernel_lends() ||
	       (link->lender.is_staging && !link->lender.is_off && stage != before);
}

static void look_at_sockets(void)
{
	struct lane *lane = qp_of(own.qp)->seat->lane;

	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before); /* this is no verb */
	lane_lock(lane);
	if (is_long)
		pair->has_sockets[side] = side == FAR || lends(lane->link);
	else
		pair->has_sockets[side] = lane->inlet.parent && has_path(&lane->link->paths);
	lane_unlock(lane);
	pthread_setcancelstate(before, &before);
}

static bool is_connected_udp(int fd)
{
	union udp_sockaddr address;
	socklen_t length = sizeof(address);
	int type = 0;
	socklen_t size = sizeof(type);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_DGRAM &&
	       getpeername(fd, &address.any, &length) == 0 &&
	       (address.any.sa_family == AF_INET || address.any.sa_family == AF_INET6);
}

static uint32_t count_connected(void)
{
	DIR *directory = opendir("/proc/self/fd");
	struct dirent *entry;
	uint32_t count = 0;

	assert_non_null(directory);
	while ((entry = readdir(directory)))
		count += is_connected_udp(atoi(entry->d_name));
	closedir(directory);
	return count;
}

static void side_main(uint32_t index, enum side which);

static pid_t fork_pair(void)
{
	pid_t child;

	child = fork();
	assert_true(child >= 0);
	if (child)
		return child;
	assert_int_equal(count_connected(), 0);
	side_main(pair_count + (uint32_t)(pair - pairs), NEAR);
	return 0;
}

static pid_t mind(uint32_t number, pid_t child)
{
	if (number % LOOK_EVERY == 0)
		look_at_sockets();
	/* on a busy machine they come and go */
	if (child || side != NEAR || !pair->is_to_fork || !count_connected())
		return child;
	return fork_pair();
}

/* Sends until it is over; each message is answered by one, or by its ACK alone. */
static pid_t be_near(void)
{
	uint32_t sent = 0, completed = 0, received = 0, ahead = is_stream ? SENDS : 1;
	bool is_last = false;
	pid_t child = 0;
	struct ibv_wc wc;

	while (!is_last || completed < sent || (!is_stream && received < sent)) {
		if (!is_last && sent - completed < ahead && (is_stream || received == sent)) {
			child = mind(sent, child);
			is_last = pair->is_over;
			send_message(sent++, is_last);
			continue;
		}
		wc = next();
		if (wc.opcode & IBV_WC_RECV)
			has_message(&wc, received++);
		else
			completed++;
	}
	return child;
}

static void be_far(void)
{
	uint32_t sent = 0, completed = 0, received = 0;
	bool is_last = false;
	struct ibv_wc wc;

	while (!is_last || completed < sent) {
		wc = next();
		if (!(wc.opcode & IBV_WC_RECV)) {
			completed++;
			continue;
		}
		mind(received, 0);
		is_last = has_message(&wc, received++);
		pair->messages = received;
		if (!is_stream)
			send_message(sent++, is_last);
	}
}

static void close_end(void)
{
	assert_int_equal(ibv_destroy_qp(own.qp), 0);
	assert_int_equal(ibv_destroy_cq(own.cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	assert_int_equal(ibv_dereg_mr(own.mr), 0);
	free(own.buffer);
}

static pid_t be_end(uint32_t index)
{
	int line = lines[index][side], before;
	pid_t child = 0;

	pair = pairs + index;
	make_end();
	connect_end(swap(line, own.qp->qp_num));
	swap(line, 0);
	if (has_threads)
		pthread_cancel(pthread_self()); /* no verb of a message is a cancellation point */
	if (side == NEAR)
		child = be_near();
	else
		be_far();
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	swap(line, 0); /* the other may have to be told again that its last message has come */
	close_end();
	return child;
}

static void *thread_main(void *index)
{
	be_end((uint32_t)(uintptr_t)index);
	return NULL;
}

static void be_all_ends(void)
{
	pthread_t threads[PAIRS_MAX];

	for (uint32_t i = 0; i < pair_count; i++)
		assert_int_equal(
		    pthread_create(&threads[i], NULL, thread_main, (void *)(uintptr_t)i), 0);
	for (uint32_t i = 0; i < pair_count; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* It does not return. */
static void side_main(uint32_t index, enum side which)
{
	struct udp_counters counters;
	pid_t child = 0;
	int status = 0;

	alarm(60);
	side = which;
	assert_int_equal(open_host(which == FAR), 0);
	if (has_threads)
		be_all_ends();
	else
		child = be_end(index);
	engine_link_counters(&counters);
	assert_int_equal(counters.bad_icrc, 0);
	assert_int_equal(live_close(NULL), 0);
	if (child)
		assert_int_equal(waitpid(child, &status, 0), child);
	exit(status != 0);
}

/* ---- all of them ---- */

static pid_t sides[4 * PAIRS_MAX];
static uint32_t side_count;

static void start_side(uint32_t index, enum side which)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		side_main(index, which);
	sides[side_count++] = pid;
}

static void make_pairs(void)
{
	pairs = mmap(NULL, sizeof(*pairs) * 2 * PAIRS_MAX, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(pairs, MAP_FAILED);
	for (uint32_t i = 0; i < 2 * pair_count; i++)
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, lines[i]), 0);
	for (uint32_t i = 0; i < (has_threads ? 1 : pair_count); i++) {
		start_side(i, NEAR);
		start_side(i, FAR);
		if (is_forking)
			start_side(pair_count + i, FAR);
	}
}

/* None has failed. */
static void watch_sides(int flags)
{
	int status;

	for (uint32_t i = 0; i < side_count; i++) {
		if (!sides[i] || waitpid(sides[i], &status, flags) != sides[i])
			continue;
		if (status)
			fail_msg("a process ended with status %#x", status);
		sides[i] = 0;
	}
}

static bool has_all(const uint32_t *before, uint32_t first, uint32_t count, bool has_sockets)
{
	for (uint32_t i = first; i < first + pair_count; i++)
		if (pairs[i].messages < before[i] + count ||
		    (has_sockets && !(pairs[i].has_sockets[NEAR] && pairs[i].has_sockets[FAR])))
			return false;
	return true;
}

static void show(uint32_t first)
{
	for (uint32_t i = first; i < first + pair_count; i++)
		printf("pair %u: %u messages, connected sockets: near %d, far %d\n", i,
		       pairs[i].messages, pairs[i].has_sockets[NEAR], pairs[i].has_sockets[FAR]);
}

/* Until each pair of `pair_count` has had `count` messages more, and has connected sockets. */
static void await_messages(uint32_t first, uint32_t count, bool has_sockets)
{
	double end = seconds() + PATIENCE_MS / 1000;
	uint32_t before[2 * PAIRS_MAX];

	for (uint32_t i = 0; i < 2 * PAIRS_MAX; i++)
		before[i] = pairs[i].messages;
	while (!has_all(before, first, count, has_sockets)) {
		watch_sides(WNOHANG);
		if (seconds() > end) {
			show(first);
			fail_msg("not all %s", has_sockets ? "have connected sockets" : "go on");
		}
		usleep(2000);
	}
}

static void await_sockets(uint32_t first)
{
	await_messages(first, SETTLED, true);
	await_messages(first, SETTLED, false);
}

static void change(void)
{
	const char *command = getenv("CHANGE");

	if (!command)
		return;
	assert_int_equal(system(command), 0);
	await_messages(0, SETTLED, false);
	await_sockets(0);
}

/* While the senders lend. */
static void stop_receivers(void)
{
	for (uint32_t stop = 0; stop < STOPS; stop++) {
		pid_t receiver = sides[stop % pair_count * SIDES + FAR];

		assert_int_equal(kill(receiver, SIGSTOP), 0);
		usleep(STOP_MS * 1000);
		assert_int_equal(kill(receiver, SIGCONT), 0);
		await_messages(0, RECVS, false);
	}
	await_sockets(0);
}

static void end_pairs(uint32_t first)
{
	for (uint32_t i = first; i < first + pair_count; i++)
		pairs[i].is_over = true;
}

static void have_children(void)
{
	for (uint32_t i = 0; i < pair_count; i++)
		pairs[i].is_to_fork = true;
	await_sockets(pair_count);
	await_sockets(0);
	end_pairs(0);
	usleep(200000); /* their devices are closed */
	await_messages(pair_count, SETTLED, true);
	end_pairs(pair_count);
}

int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[2] : "";

	pair_count = argc > 1 ? (uint32_t)atoi(argv[1]) : 0;
	is_long = strcmp(how, "long") == 0;
	if (is_long)
		slot_bytes = LONG_SLOT;
	is_stream = is_long || strcmp(how, "stream") == 0;
	has_threads = strcmp(how, "threads") == 0;
	is_polling = has_threads || strcmp(how, "poll") == 0;
	is_forking = strcmp(how, "fork") == 0;
	if (!are_two_hosts() || pair_count < 1 || pair_count > PAIRS_MAX) {
		fprintf(stderr, "usage: VERBATIM_TEST_HOSTS=OURS,THEIRS,NETWORK pairs COUNT "
				"[stream | long | poll | threads | fork]\n");
		return 2;
	}
	make_pairs();
	if (has_threads)
		await_messages(0, BEGUN, false);
	else
		await_sockets(0);
	change();
	if (is_long)
		stop_receivers();
	if (is_forking)
		have_children();
	end_pairs(0);
	watch_sides(0);
	return 0;
}
