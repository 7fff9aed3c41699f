/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process's connection manager: its lock, its mailbox and its thread. Started with the first id
 * that needs it, stopped when the library goes; connections that are left then are disconnected.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "engine/meeting.h"
#include "rdmacm/face.h"
#include "verbs/manage.h"
#include "wire/parse.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t acknowledged = PTHREAD_COND_INITIALIZER;

/* A message that a full mailbox of this host keeps waiting. */
struct waiting {
	struct cds_list_head node;
	struct cm_path path;
	uint8_t mad[MAD_BYTES];
};

enum {
	WAITING_MAX = 1 << 14, /* beyond that they are lost, and sent again by their timeouts */
	WAITING_MS = 1,
	WAITING_FAILURES = 8, /* in one round */
	MAIL_BATCH = 16,
};

static CDS_LIST_HEAD(waiting);
static unsigned int waiting_count;
static uint64_t lost_count;

static struct {
	bool is_running, is_stopping;
	struct cm cm;
	int mailbox, epoll, kick;
	pthread_t thread;
} manager;

void manager_lock(void)
{
	pthread_mutex_lock(&lock);
}

void manager_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void manager_wait(void)
{
	pthread_cond_wait(&acknowledged, &lock);
}

void manager_wake(void)
{
	pthread_cond_broadcast(&acknowledged);
}

struct cm *manager_cm(void)
{
	return &manager.cm;
}

uint64_t manager_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void manager_kick(void)
{
	uint64_t one = 1;

	if (write(manager.kick, &one, sizeof(one)) < 0)
		return; /* it is readable as it is */
}

/* ---- the manager's host ---- */

static int send_now(const struct cm_path *path, const uint8_t *mad)
{
	return verbatim_cm_send(path->port, &path->sgid, &path->dgid, path->flow_label,
				path->traffic_class, path->hop_limit, mad);
}

static void send_mad(struct cm *cm, const struct cm_path *path, const uint8_t *mad)
{
	struct waiting *one;

	if (send_now(path, mad) != EAGAIN)
		return;
	one = waiting_count < WAITING_MAX ? malloc(sizeof(*one)) : NULL;
	if (!one) {
		lost_count++;
		return;
	}
	one->path = *path;
	memcpy(one->mad, mad, MAD_BYTES);
	cds_list_add_tail(&one->node, &waiting);
	waiting_count++;
	manager_kick();
}

static void send_waiting(void)
{
	struct waiting *one, *next;
	int failures = 0;

	cds_list_for_each_entry_safe (one, next, &waiting, node) {
		if (failures == WAITING_FAILURES)
			break;
		if (send_now(&one->path, one->mad) == EAGAIN) {
			failures++;
			continue;
		}
		cds_list_del(&one->node);
		waiting_count--;
		free(one);
	}
}

static uint32_t random_bits(struct cm *cm)
{
	uint32_t bits = 0;

	while (getrandom(&bits, sizeof(bits), 0) != sizeof(bits))
		;
	return bits;
}

static void watch(struct cm *cm, uint32_t slot)
{
	life_watch(slot);
}

static const struct cm_host host = {
    .watch = watch,
    .send = send_mad,
    .event = connect_event,
    .random = random_bits,
};

/* ---- its thread ---- */

static void take(const struct packet *packet)
{
	struct cm_path path = {.sgid = packet->dgid,
			       .dgid = packet->sgid,
			       .flow_label = packet->flow_label,
			       .traffic_class = packet->traffic_class,
			       .hop_limit = 64};
	struct wire_packet wire;

	if (wire_parse(&wire, packet->bth, packet->length) != PARSE_OK)
		return;
	path.port = device_find(&path.sgid, NULL);
	path.is_here = device_find(&path.dgid, NULL) != NULL;
	if (path.port)
		cm_receive(&manager.cm, &path, wire.payload, wire.payload_length, manager_now());
}

/* A descriptor that another thread has closed since may be anybody's by now: hence all of it under
 * the lock. */
static void read_mail(int fd)
{
	static struct mail mail; /* the thread's own */

	manager_lock();
	for (int i = 0; i < MAIL_BATCH && (fd == manager.mailbox || port_is_mailbox(fd)); i++) {
		size_t length;
		const struct meeting *meeting;
		struct packet packet;

		if (mail_receive(fd, &mail) != 0)
			break;
		meeting = meeting_of(&mail, &length);
		if (meeting && mail.is_ours && meeting_packet(meeting, length, &packet))
			take(&packet);
		mail_close_fds(&mail);
	}
	manager_unlock();
}

static int wait_ms(void)
{
	uint64_t deadline, change, now = manager_now();
	bool is_waiting;

	manager_lock();
	life_run();
	cm_run(&manager.cm, now);
	send_waiting();
	change = interfaces_run(now);
	deadline = cm_deadline(&manager.cm);
	is_waiting = waiting_count > 0;
	manager_unlock();
	if (is_waiting)
		return WAITING_MS;
	if (change < deadline)
		deadline = change;
	if (deadline == UINT64_MAX)
		return -1;
	if (deadline <= now)
		return 0;
	return (int)((deadline - now) / 1000000) + 1;
}

/* In an epoll event: the descriptor, what it is, whose. */
union tag {
	uint64_t data;
	struct {
		int fd;
		uint16_t kind, slot;
	};
};

static void take_event(union tag tag)
{
	uint64_t ignored;

	switch (tag.kind) {
	case WATCH_KICK:
		if (read(tag.fd, &ignored, sizeof(ignored)) < 0)
			return;
		break;
	case WATCH_MAIL:
		read_mail(tag.fd);
		break;
	case WATCH_LIFE:
		manager_lock();
		life_accept();
		manager_unlock();
		break;
	case WATCH_PEER:
		manager_lock();
		life_ended(tag.slot);
		manager_unlock();
		break;
	case WATCH_INTERFACES:
		manager_lock();
		interfaces_changed();
		manager_unlock();
		break;
	case WATCH_WATCHER:
		manager_lock();
		life_read(tag.fd);
		manager_unlock();
		break;
	}
}

static void *run(void *data)
{
	struct epoll_event events[16];

	while (!__atomic_load_n(&manager.is_stopping, __ATOMIC_ACQUIRE)) {
		int count = epoll_wait(manager.epoll, events, 16, wait_ms());

		for (int i = 0; i < count; i++)
			take_event((union tag){.data = events[i].data.u64});
	}
	return NULL;
}

int manager_watch(int fd, enum watch kind, uint32_t slot)
{
	union tag tag = {.fd = fd, .kind = (uint16_t)kind, .slot = (uint16_t)slot};
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = tag.data};

	return epoll_ctl(manager.epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? errno : 0;
}

void manager_unwatch(int fd)
{
	epoll_ctl(manager.epoll, EPOLL_CTL_DEL, fd, NULL);
}

static int open_all(uint32_t slot)
{
	struct mail_address address;

	mail_address_of_manager(slot, &address);
	manager.mailbox = mail_bind(&address);
	if (manager.mailbox < 0)
		return refuse(REASON_CM_NO_MAILBOX, "slot %u: %s", slot,
			      strerror(-manager.mailbox));
	manager.epoll = epoll_create1(EPOLL_CLOEXEC);
	manager.kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (manager.epoll < 0 || manager.kick < 0)
		return refuse(REASON_NO_DESCRIPTOR, "%s", strerror(errno));
	if (manager_watch(manager.mailbox, WATCH_MAIL, slot) ||
	    manager_watch(manager.kick, WATCH_KICK, slot) || life_open(slot) || interfaces_open())
		return refuse(REASON_NO_DESCRIPTOR, "%s", strerror(errno));
	return 0;
}

static int start_thread(void)
{
	sigset_t all, old;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	error = pthread_create(&manager.thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (error)
		return refuse(REASON_NO_THREAD, "connection manager: %s", strerror(error));
	pthread_setname_np(manager.thread, "verbatim/cm");
	return 0;
}

int manager_start(void)
{
	struct ibv_context *context;
	int error;

	if (manager.is_running)
		return 0;
	error = devices_open();
	if (error)
		return error;
	fork_follow();
	context = device_find(NULL, NULL);
	error = open_all(verbatim_cm_slot(context));
	if (error)
		return error;
	cm_init(&manager.cm, verbatim_cm_slot(context), &host, NULL);
	error = start_thread();
	manager.is_running = error == 0;
	return error;
}

size_t manager_counters(char *bytes, size_t room)
{
	return counters_write(&manager.cm, waiting_count, lost_count, bytes, room);
}

static void drop_waiting(void)
{
	struct waiting *one, *next;

	cds_list_for_each_entry_safe (one, next, &waiting, node)
		free(one);
	CDS_INIT_LIST_HEAD(&waiting);
	waiting_count = 0;
}

void manager_abandon(void)
{
	pthread_cond_init(&acknowledged, NULL);
	if (!manager.is_running)
		return;
	manager.is_running = false;
	close(manager.mailbox);
	close(manager.epoll);
	close(manager.kick);
	drop_waiting();
	life_abandon();
	interfaces_abandon();
	cm_fini(&manager.cm);
}

__attribute__((destructor)) static void stop(void)
{
	if (!manager.is_running)
		return;
	__atomic_store_n(&manager.is_stopping, true, __ATOMIC_RELEASE);
	manager_kick();
	pthread_join(manager.thread, NULL);
	cm_farewell(&manager.cm, manager_now());
	manager.is_running = false;
}
