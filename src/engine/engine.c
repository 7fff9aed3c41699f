/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine's life: made with the first device that is opened, ended with the last, at exit, and
 * (for the child's side) by fork. The child has none of our threads: there the old engine is dead,
 * its descriptors are closed, what was opened before answers errors, and the next open makes a new
 * engine.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/single_threaded.h>
#include <unistd.h>

#include "engine/domain.h"
#include "engine/fence.h"
#include "engine/line.h"
#include "engine/netdev.h"
#include "engine/progress.h"
#include "engine/raw.h"
#include "engine/state.h"
#include "engine/steer.h"
#include "engine/thread.h"
#include "explain/reason.h"

static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* guards `running` and the devices it has open */
static struct engine *running;
static struct engine_face face;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

void engine_set_face(const struct engine_face *told)
{
	face = *told;
}

const struct engine_face *engine_face(void)
{
	return &face;
}

/* ---- what adapters ask of their host ---- */

static bool is_dead(const struct adapter *adapter)
{
	return atomic_load_explicit(&station_of(adapter)->engine->is_dead, memory_order_relaxed);
}

static void host_schedule(struct adapter *adapter, struct qp *qp)
{
	if (qp->seat && !is_dead(adapter))
		lane_schedule(qp->seat->lane, qp->seat);
}

static void host_cq_event(struct cq *cq)
{
	struct engine *engine = station_of(cq->adapter)->engine;

	if (!face.cq_event)
		return;
	for (uint32_t i = 0; i < engine->lane_count; i++)
		if (lane_tell_later(engine->lanes[i], cq))
			return;
	face.cq_event(cq);
}

static bool is_of_qp(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return true;
	default:
		return false;
	}
}

static void host_async_event(struct adapter *adapter, const struct ibv_async_event *event)
{
	struct ibv_async_event told;

	if (is_of_qp(event->event_type) && qp_of(event->element.qp)->line) {
		branch_event(qp_of(event->element.qp), event->event_type);
		return;
	}
	if (is_of_qp(event->event_type) && event->element.qp->qp_type == IBV_QPT_XRC_RECV)
		openings_tell(station_of(adapter)->engine, qp_of(event->element.qp),
			      event->event_type);
	told = *event;
	if (is_of_qp(event->event_type) && qp_of(event->element.qp)->stand_in)
		told.element.qp = &qp_of(event->element.qp)->stand_in->ibv;
	if (face.async_event)
		face.async_event(adapter, &told);
}

static uint32_t host_random(struct adapter *adapter)
{
	uint32_t bits = 0;

	while (getrandom(&bits, sizeof(bits), 0) != sizeof(bits))
		;
	return bits;
}

static void host_quiesce(struct adapter *adapter)
{
	struct engine *engine = station_of(adapter)->engine;

	if (!is_dead(adapter))
		reachable_quiesce(engine);
}

static bool host_is_peer_gone(struct adapter *adapter, const struct qp *qp)
{
	return !is_dead(adapter) && seat_is_peer_gone(qp);
}

static bool host_is_near(struct qp *qp)
{
	return is_dead(qp->adapter) || seat_is_near(qp);
}

static uint64_t host_time(const struct adapter *adapter)
{
	return lane_now();
}

static const struct adapter_host host = {
    .schedule = host_schedule,
    .cq_event = host_cq_event,
    .async_event = host_async_event,
    .random = host_random,
    .choose_lane = seat_choose_lane,
    .quiesce = host_quiesce,
    .is_peer_gone = host_is_peer_gone,
    .frame_room = raw_frame_room,
    .send_frame = raw_send_frame,
    .publish_mr = reachable_publish_mr,
    .withdraw_mr = reachable_withdraw_mr,
    .publish_qp = reachable_publish_qp,
    .withdraw_qp = reachable_withdraw_qp,
    .is_near = host_is_near,
    .reach = reachable_reach,
    .behind = reachable_behind,
    .forget_reach = reachable_forget,
    .is_reached = reachable_is_reached,
    .time = host_time,
    .enter_peer = reachable_enter_peer,
    .leave_peer = reachable_leave_peer,
    .lock_domain = domain_lock,
    .unlock_domain = domain_unlock,
    .is_domain_shared = domain_is_shared,
    .share_domain = domain_share,
    .unshare_domain = domain_unshare,
    .pass_on = home_pass_on,
};

/* ---- lanes ---- */

/* What all processes of the host come to: a power of two, at most a socket a core. */
uint32_t host_lanes(void)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	return cores >= 4 ? 4 : cores >= 2 ? 2 : 1;
}

static uint32_t own_lanes(void)
{
	const char *setting = getenv("VERBATIM_LANES");
	long wanted = setting ? atol(setting) : 0;
	uint32_t lanes = host_lanes();

	/* without the program any lane's socket gets any packet, so one lane is as good as many */
	if (!setting && !steer_is_wanted())
		return 1;
	while (wanted > 0 && lanes > 1 && lanes > (unsigned long)wanted)
		lanes /= 2;
	return lanes;
}

/* ---- start and stop ---- */

static void stop_threads(struct engine *engine)
{
	uint64_t one = 1;

	if (engine->stop_fd >= 0 && write(engine->stop_fd, &one, sizeof(one)) < 0)
		return;
	if (engine->has_mail_thread)
		thread_join(engine->mail_thread);
	if (engine->has_watch_thread)
		thread_join(engine->watch_thread);
	engine->has_mail_thread = engine->has_watch_thread = false;
	for (uint32_t i = 0; i < engine->lane_count; i++)
		lane_stop(engine->lanes[i]);
}

/* Its devices are closed. */
enum { ENGINE_POOL = 16 << 20 };

static void end(struct engine *engine)
{
	stop_threads(engine);
	neighbours_fini(&engine->neighbours);
	for (uint32_t i = 0; i < engine->lane_count; i++)
		lane_close(engine->lanes[i]);
	if (engine->watch_fd >= 0)
		close(engine->watch_fd);
	if (engine->stop_fd >= 0)
		close(engine->stop_fd);
	slot_release(&engine->slot);
	reachable_close(&engine->reachable);
	openings_fini(&engine->openings);
	pthread_mutex_destroy(&engine->groups.lock);
	pthread_mutex_destroy(&engine->mail_lock);
	pthread_mutex_destroy(&engine->stations_lock);
	pool_fini(&engine->pool);
	free(engine);
}

static int start_threads(struct engine *engine)
{
	int error;

	engine->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	engine->watch_fd = netdev_watch_open();
	if (engine->stop_fd < 0 || engine->watch_fd < 0)
		return refuse(REASON_NO_DESCRIPTOR, "%s", strerror(errno));
	error = thread_start(&engine->mail_thread, "verbatim/mail", mail_thread, engine);
	engine->has_mail_thread = error == 0;
	if (error == 0) {
		error = thread_start(&engine->watch_thread, "verbatim/watch", watch_thread, engine);
		engine->has_watch_thread = error == 0;
	}
	return error ? refuse(REASON_NO_THREAD, "%s", strerror(-error)) : 0;
}

static int start(struct engine **result)
{
	struct engine *engine = calloc(1, sizeof(*engine));
	uint32_t lanes = own_lanes();
	int error;

	if (!engine)
		return refuse(REASON_NO_ENGINE_MEMORY, "engine");
	engine->slot.fd = engine->stop_fd = engine->watch_fd = -1;
	CDS_INIT_LIST_HEAD(&engine->stations);
	pthread_mutex_init(&engine->stations_lock, NULL);
	pthread_mutex_init(&engine->mail_lock, NULL);
	group_list_init(&engine->groups);
	neighbours_init(&engine->neighbours);
	openings_init(&engine->openings);
	CDS_INIT_LIST_HEAD(&engine->estates.list);
	pool_init(&engine->pool, ENGINE_POOL);
	reachable_open(&engine->reachable, engine->neighbours.are_reachable);
	error = slot_take(&engine->slot);
	if (__libc_single_threaded)
		fence_prepare();
	while (error == 0 && engine->lane_count < lanes) {
		error = lane_open(engine, engine->lane_count, &engine->lanes[engine->lane_count]);
		engine->lane_count += error == 0;
	}
	if (error == 0)
		error = start_threads(engine);
	if (error == 0)
		neighbours_meet_oneself(engine);
	if (error)
		end(engine);
	else
		*result = engine;
	return error;
}

/* ---- fork and exit ---- */

/* Nobody is within the engine when it forks: the child finds lists whole, no lock of the host's
 * held, no engine that is half made or half gone, and no descriptor that is in nobody's list. */
static void before_fork(void)
{
	pthread_mutex_lock(&lock);
	if (running)
		pthread_mutex_lock(&running->mail_lock);
}

static void parent_of_fork(void)
{
	if (running)
		pthread_mutex_unlock(&running->mail_lock);
	pthread_mutex_unlock(&lock);
}

static void child_of_fork(void)
{
	struct engine *engine = running;
	struct station *station;

	if (engine)
		pthread_mutex_unlock(&engine->mail_lock);
	running = NULL;
	pthread_mutex_unlock(&lock);
	if (!engine)
		return;
	atomic_store(&engine->is_dead, true);
	cds_list_for_each_entry (station, &engine->stations, node)
		station_abandon(station);
	neighbours_abandon(&engine->neighbours);
	reachable_abandon(&engine->reachable);
	held_abandon(&engine->held);
	for (uint32_t i = 0; i < engine->lane_count; i++)
		lane_abandon(engine->lanes[i]);
	close(engine->slot.fd);
	close(engine->stop_fd);
	close(engine->watch_fd);
}

static void follow_forks(void)
{
	pthread_atfork(before_fork, parent_of_fork, child_of_fork);
}

/* The threads must be gone before our code is unmapped; what is open stays usable for what else
 * ends the program. */
__attribute__((destructor)) static void at_exit(void)
{
	struct engine *engine = running;

	if (engine)
		stop_threads(engine);
}

bool engine_lock_running(struct engine *engine)
{
	struct pollfd stop = {.fd = engine->stop_fd, .events = POLLIN};

	while (pthread_mutex_trylock(&lock))
		if (poll(&stop, 1, 10) > 0)
			return false;
	if (running == engine)
		return true;
	pthread_mutex_unlock(&lock);
	return false;
}

void engine_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/* ---- open and close ---- */

static int open_station(struct engine *engine, const struct device_info *info,
			struct station **station)
{
	struct netdev *list = NULL;
	const struct netdev *netdev;
	int count, error;

	cds_list_for_each_entry (*station, &engine->stations, node)
		if ((*station)->info.ifindex == info->ifindex) {
			(*station)->opens++;
			return 0;
		}
	count = netdev_list(&list);
	if (count < 0)
		return refuse(REASON_NO_NETLINK, "%s", strerror(-count));
	netdev = netdev_find(list, count, info->ifindex);
	if (netdev)
		error = station_open(engine, info, netdev, &host, station);
	else
		error = refuse(REASON_DEVICE_GONE, "%s, interface %s", info->name, info->netdev);
	free(list);
	return error;
}

/* With the last device. The lock is held: nobody starts another meanwhile. */
static void end_if_idle(void)
{
	if (!running || !cds_list_empty(&running->stations))
		return;
	end(running);
	running = NULL;
}

/* An XRC_RECV QP that other processes have open needs its home: the device stays for it, until they
 * have let go and a device is opened or closed, or this process ends. */
static void close_unused(struct engine *engine)
{
	struct station *station, *next;

	cds_list_for_each_entry_safe (station, next, &engine->stations, node)
		if (!station->opens && !openings_have_visitors(engine, &station->adapter))
			station_close(station);
}

int engine_open(const struct device_info *info, struct adapter **adapter)
{
	struct station *station;
	int error = 0;

	pthread_once(&fork_once, follow_forks);
	pthread_mutex_lock(&lock);
	if (!running)
		error = start(&running);
	if (error == 0) {
		error = open_station(running, info, &station);
		if (error == 0)
			*adapter = &station->adapter;
		close_unused(running);
		end_if_idle();
	}
	pthread_mutex_unlock(&lock);
	return error;
}

void engine_close(struct adapter *adapter)
{
	struct station *station = station_of(adapter);

	if (is_dead(adapter))
		return;
	pthread_mutex_lock(&lock);
	station->opens--;
	close_unused(running);
	end_if_idle();
	pthread_mutex_unlock(&lock);
}

/* ---- what is shown ---- */

bool engine_look(const char *name, void (*look)(struct adapter *adapter, void *data), void *data)
{
	struct station *station;
	bool is_open = false;

	pthread_mutex_lock(&lock);
	if (running)
		cds_list_for_each_entry (station, &running->stations, node)
			if (!is_open && strcmp(station->info.name, name) == 0) {
				is_open = true;
				look(&station->adapter, data);
			}
	pthread_mutex_unlock(&lock);
	return is_open;
}

void engine_link_counters(struct udp_counters *counters)
{
	struct udp_counters one;

	memset(counters, 0, sizeof(*counters));
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; running && i < running->lane_count; i++) {
		udp_link_counters(running->lanes[i]->link, &one);
		counters->sent_packets += one.sent_packets;
		counters->sent_bytes += one.sent_bytes;
		counters->sends += one.sends;
		counters->send_drops += one.send_drops;
		counters->received_packets += one.received_packets;
		counters->received_bytes += one.received_bytes;
		counters->receives += one.receives;
		counters->bad_icrc += one.bad_icrc;
		counters->malformed += one.malformed;
	}
	pthread_mutex_unlock(&lock);
}
