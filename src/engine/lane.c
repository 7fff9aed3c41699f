/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lane's making, its lock, and what is put on it and taken off. Progress itself is in progress.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "device/adapter.h"
#include "engine/express.h"
#include "engine/lane.h"
#include "engine/line.h"
#include "engine/parcel.h"
#include "engine/progress.h"
#include "engine/state.h"
#include "engine/thread.h"
#include "explain/reason.h"
#include "link/samehost.h"
#include "link/udp.h"
#include "transport/transport.h"

enum {
	UNLOCK_ROUNDS = 8,    /* of others' work before the thread gets it */
	LONG_COPY = 64 << 10, /* bytes: 6 us, of the 10 that a gap between polls is (poller.c) */
};

uint64_t lane_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int watch(struct lane *lane, int fd, void *tag)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = tag};

	return epoll_ctl(lane->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int open_descriptors(struct lane *lane)
{
	int error = nap_open(&lane->nap);

	lane->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	lane->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	lane->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	lane->call_fd = epoll_create1(EPOLL_CLOEXEC);
	if (lane->epoll_fd < 0 || lane->kick_fd < 0 || lane->timer_fd < 0 || lane->call_fd < 0)
		return -errno;
	if (watch(lane, lane->kick_fd, &lane->kick_fd) < 0 ||
	    watch(lane, lane->timer_fd, &lane->timer_fd) < 0)
		return -errno;
	return error;
}

static bool has_paths(void)
{
	const char *setting = getenv("VERBATIM_PATHS");

	return !setting || strcmp(setting, "off") != 0;
}

int lane_open(struct engine *engine, uint32_t index, struct lane **result)
{
	struct lane *lane = aligned_alloc(LANE_ALIGNMENT, sizeof(*lane));
	char name[16] = "verbatim/0";
	int error;

	if (!lane)
		return refuse(REASON_NO_ENGINE_MEMORY, "lane %u", index);
	memset(lane, 0, sizeof(*lane));
	lane->engine = engine;
	lane->index = index;
	lane->ready_end = &lane->ready;
	lane->patience = PATIENCE_NS;
	lane->armed = lane->flush_at = UINT64_MAX;
	CDS_INIT_LIST_HEAD(&lane->sources);
	CDS_INIT_LIST_HEAD(&lane->branches);
	CDS_INIT_LIST_HEAD(&lane->dead_lines);
	timer_queue_init(&lane->timers);
	lane->room = malloc(LANE_ROOM);
	error = open_descriptors(lane);
	if (error == 0 && !lane->room)
		error = -ENOMEM;
	if (error == 0)
		error = udp_link_open((uint8_t)index, &lane->link);
	lane->inlet.is_off = !has_paths();
	if (error == 0 && lane->inlet.is_off)
		udp_link_without_paths(lane->link);
	if (error == 0) {
		udp_link_offer(lane->link);
		lane->samehost =
		    samehost_open(udp_link_outbox(lane->link), engine->neighbours.is_off,
				  engine->neighbours.has_express, (uint8_t)index);
		lane->has_express = engine->neighbours.has_express;
		error = lane->samehost ? 0 : -ENOMEM;
	}
	if (error < 0) {
		lane_close(lane);
		return refuse(REASON_NO_DESCRIPTOR, "lane %u: %s", index, strerror(-error));
	}
	name[9] = (char)('0' + index);
	error = thread_start(&lane->thread, name, lane_thread, lane);
	if (error < 0) {
		lane_close(lane);
		return refuse(REASON_NO_THREAD, "%s: %s", name, strerror(-error));
	}
	lane->has_thread = true;
	*result = lane;
	return 0;
}

void lane_stop(struct lane *lane)
{
	if (!lane->has_thread)
		return;
	atomic_store(&lane->is_stopping, true);
	lane_kick(lane);
	thread_join(lane->thread);
	lane->has_thread = false;
}

static void close_descriptors(struct lane *lane)
{
	int *fds[] = {&lane->epoll_fd, &lane->kick_fd, &lane->timer_fd, &lane->call_fd};

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
	nap_close(&lane->nap);
}

void lane_close(struct lane *lane)
{
	lane_stop(lane);
	lane_purge(lane, NULL);
	inlet_close(lane);
	lines_bury(lane);
	samehost_close(lane->samehost);
	if (lane->link)
		udp_link_close(lane->link);
	close_descriptors(lane);
	timer_queue_fini(&lane->timers);
	free(lane->room);
	free(lane);
}

void lane_abandon(struct lane *lane)
{
	atomic_store(&lane->is_dead, true);
	close_descriptors(lane);
	inlet_abandon(lane);
	samehost_abandon(lane->samehost);
	udp_link_abandon(lane->link);
}

/* What pthread_self() says, without a call where the compiler knows it. */
static pthread_t this_thread(void)
{
#if defined(__x86_64__) && defined(__GLIBC__) && __has_builtin(__builtin_thread_pointer)
	return (pthread_t)__builtin_thread_pointer();
#else
	return pthread_self();
#endif
}

static void hold(struct lane *lane)
{
	atomic_store_explicit(&lane->holder, this_thread(), memory_order_relaxed);
}

static void tell(struct lane *lane)
{
	for (uint32_t i = 0; i < lane->tell_count; i++)
		engine_face()->cq_event(lane->told_later[i]);
	lane->tell_count = 0;
}

void lane_release(struct lane *lane)
{
	if (lane->tell_count)
		tell(lane);
	lane->is_telling_later = false;
	lane->copied = 0;
	atomic_store_explicit(&lane->holder, 0, memory_order_relaxed);
	latch_give(&lane->latch);
}

/* Whoever else holds it meanwhile, is not this thread. */
static bool is_mine(const struct lane *lane)
{
	return atomic_load_explicit(&lane->holder, memory_order_relaxed) == this_thread();
}

bool lane_tell_later(struct lane *lane, struct cq *cq)
{
	if (!is_mine(lane) || !lane->is_telling_later)
		return false;
	if (lane->tell_count == LANE_TELL_MAX)
		tell(lane);
	lane->told_later[lane->tell_count++] = cq;
	return true;
}

void lane_lock(struct lane *lane)
{
	atomic_fetch_add(&lane->waiting, 1);
	latch_take(&lane->latch);
	atomic_fetch_sub(&lane->waiting, 1);
	hold(lane);
}

/* A polling program would take the lock again and again before a sleeper gets on its feet:
 * `waiting` is for fairness. */
bool lane_trylock(struct lane *lane)
{
	if (atomic_load(&lane->waiting) != 0 || !latch_try(&lane->latch))
		return false;
	hold(lane);
	return true;
}

/*
 * The thread needs telling of an earlier deadline only when it is parked; when it parks, it looks
 * for itself. Not of one that was met since: it would wake in vain, and who finds the lane taken by
 * it leaves it a message, whose deadline is the next one.
 */
static void arm_timer(struct lane *lane)
{
	struct itimerspec when = {0};
	uint64_t first;

	if (!lane->armed || atomic_load_explicit(&lane->has_poller, memory_order_relaxed))
		return;
	first = lane_first_due(lane, lane->armed - 1);
	if (lane->flush_at < first)
		first = lane->flush_at;
	if (first >= lane->armed)
		return;
	when.it_value.tv_sec = (time_t)(first / 1000000000);
	when.it_value.tv_nsec = (long)(first % 1000000000);
	if (first == 0)
		when.it_value.tv_nsec = 1; /* 0 would disarm */
	timerfd_settime(lane->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
	lane->armed = first;
}

/* From others. */
bool lane_has_news(const struct lane *lane)
{
	return atomic_load_explicit(&lane->posted, memory_order_relaxed) ||
	       atomic_load_explicit(&lane->parcels, memory_order_relaxed);
}

bool lane_has_work(const struct lane *lane)
{
	return lane_has_news(lane) || lane_is_runnable(lane) ||
	       samehost_has_own_news(lane->samehost);
}

bool lane_has_copied(const struct lane *lane)
{
	return lane->copied >= LONG_COPY;
}

/* Long copies are the poller's, with its next verb: two threads in turn take longer for each, as
 * the memory is in the other's cache. If it does not come, the thread's nap ends. */
static bool is_left_to_poller(const struct lane *lane)
{
	return lane_has_copied(lane) &&
	       atomic_load_explicit(&lane->has_poller, memory_order_relaxed);
}

void lane_unlock(struct lane *lane)
{
	for (int round = 0; !atomic_load_explicit(&lane->is_dead, memory_order_relaxed); round++) {
		bool is_left = is_left_to_poller(lane);

		if (!lane_has_work(lane)) {
			arm_timer(lane);
			lane_release(lane);
			lane_fence_released();
			if (!lane_has_news(lane) || !lane_trylock(lane))
				return;
		} else if (round == UNLOCK_ROUNDS || is_left) {
			arm_timer(lane);
			lane_release(lane);
			if (!is_left)
				lane_kick(lane);
			return;
		}
		lane_run(lane, lane_now());
	}
	lane_release(lane);
}

void lane_say_poller(struct lane *lane, uint32_t poller)
{
	if (atomic_load_explicit(&lane->poller, memory_order_relaxed) == poller ||
	    !lane_trylock(lane))
		return;
	samehost_say_poller(lane->samehost, poller);
	atomic_store_explicit(&lane->poller, poller, memory_order_relaxed);
	lane_unlock(lane);
}

bool lane_has_peers_here(struct lane *lane, uint32_t poller)
{
	bool has_some;

	if (!lane_trylock(lane))
		return false;
	has_some = samehost_has_peers_here(lane->samehost, poller);
	lane_unlock(lane);
	return has_some;
}

void lane_kick(struct lane *lane)
{
	uint64_t one = 1;

	if (!atomic_exchange(&lane->is_kicked, true) && write(lane->kick_fd, &one, sizeof(one)) < 0)
		return; /* EAGAIN: it is readable as it is */
}

int lane_sleep_on(struct lane *lane, struct source *source)
{
	return watch(lane, source->fd, source);
}

void lane_sleep_not_on(struct lane *lane, const struct source *source)
{
	epoll_ctl(lane->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
}

int lane_add_source(struct lane *lane, struct source *source)
{
	int error = watch(lane, source->fd, source);

	if (error == 0)
		cds_list_add_tail(&source->node, &lane->sources);
	return error;
}

/* The vault keeps the socket open, so closing our descriptor would not take it out of epoll. */
void lane_remove_source(struct lane *lane, struct source *source)
{
	epoll_ctl(lane->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
	epoll_ctl(lane->call_fd, EPOLL_CTL_DEL, source->fd, NULL);
	cds_list_del(&source->node);
	if (lane->hot == source)
		lane->hot = NULL;
	if (lane->inlet.parent == source)
		inlet_close(lane);
}

struct seat *seat_make(struct lane *lane, struct qp *qp)
{
	struct seat *seat = depot_take(&qp->adapter->depot, sizeof(*seat));

	if (seat) {
		seat->lane = lane;
		seat->qp = qp;
	}
	return seat;
}

void seat_free(struct seat *seat)
{
	depot_give(&seat->qp->adapter->depot, seat, sizeof(*seat));
}

int lane_add_seat(struct lane *lane, struct seat *seat)
{
	int error = timer_queue_reserve(&lane->timers, lane->seats + 1);

	lane->seats += error == 0;
	return error;
}

void lane_remove_seat(struct lane *lane, struct seat *seat)
{
	struct seat **link;

	lane_take_posted(lane);
	for (link = &lane->ready; *link; link = &(*link)->next)
		if (*link == seat) {
			*link = seat->next;
			if (lane->ready_end == &seat->next)
				lane->ready_end = link;
			break;
		}
	atomic_store(&seat->is_queued, true); /* never again */
	timer_cancel(&lane->timers, &seat->timer);
	express_forget(lane, seat);
	allowances_forget(&lane->allowances, seat->qp);
	lane->seats--;
}

/* Puts the seat on `posted`, once. False if it was on already. */
static bool post(struct lane *lane, struct seat *seat)
{
	if (atomic_exchange(&seat->is_queued, true))
		return false;
	seat->next = atomic_load_explicit(&lane->posted, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&lane->posted, &seat->next, seat))
		;
	return true;
}

void lane_schedule(struct lane *lane, struct seat *seat)
{
	if (is_mine(lane)) {
		lane_make_ready(lane, seat);
		return;
	}
	if (!post(lane, seat) || !lane_trylock(lane))
		return;
	lane_release(lane); /* nobody's: not the caller's to run here */
	lane_kick(lane);
}

void lane_doorbell(struct lane *lane, struct seat *seat)
{
	bool took_long;
	uint64_t now;

	if (atomic_load_explicit(&lane->is_dead, memory_order_relaxed))
		return;
	lane_count(&lane->posts);
	if (!lane_trylock(lane)) {
		/* the holder looks again, or one who has the lock by now */
		post(lane, seat);
		if (!lane_trylock(lane))
			return;
	} else if (!transport_can_wait(seat->qp)) {
		lane_make_ready(lane, seat);
	}
	now = lane_now();
	lane_run(lane, now);
	took_long = lane_has_copied(lane);
	if (took_long)
		lane_look_too(lane, now);
	lane_unlock(lane);
	atomic_store_explicit(&lane->seen, now, memory_order_relaxed);
	lane_leave(lane, took_long);
}

void lane_hand_over(struct lane *lane, struct adapter *adapter, const struct packet *packet)
{
	struct parcel *parcel = pool_take(&lane->engine->pool, sizeof(*parcel) + packet->length);

	if (!parcel)
		return;
	parcel->adapter = adapter;
	parcel->packet = *packet;
	parcel->packet.bth = parcel->bytes;
	parcel->packet.lane = (uint8_t)lane->index;
	memcpy(parcel->bytes, packet->bth, packet->length);
	parcel->next = atomic_load_explicit(&lane->parcels, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&lane->parcels, &parcel->next, parcel))
		;
	lane_kick(lane);
}

void lane_purge(struct lane *lane, const struct adapter *adapter)
{
	struct parcel *parcel = atomic_exchange(&lane->parcels, NULL), *next;

	for (; parcel; parcel = next) {
		next = parcel->next;
		if (!adapter || parcel->adapter == adapter) {
			pool_give(&lane->engine->pool, parcel);
			continue;
		}
		parcel->next = atomic_load(&lane->parcels);
		while (!atomic_compare_exchange_weak(&lane->parcels, &parcel->next, parcel))
			;
	}
}
