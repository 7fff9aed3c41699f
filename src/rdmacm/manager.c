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
	WAITING_MAX = 1024, /* beyond that they are lost, and sent again by their timeouts */
	WAITING_MS = 1,
	WAITING_FAILURES = 8, /* in one round */
};

static CDS_LIST_HEAD(waiting);
static unsigned int waiting_count;

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

	if (send_now(path, mad) != EAGAIN || waiting_count == WAITING_MAX)
		return;
	one = malloc(sizeof(*one));
	if (!one)
		return;
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

static const struct cm_host host = {
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
	if (path.port)
		cm_receive(&manager.cm, &path, wire.payload, wire.payload_length, manager_now());
}

static void read_mail(int fd)
{
	static struct mail mail; /* the thread's own */

	while (mail_receive(fd, &mail) == 0) {
		size_t length;
		const struct meeting *meeting = meeting_of(&mail, &length);
		struct packet packet;

		if (meeting && mail.is_ours && meeting_packet(meeting, length, &packet)) {
			manager_lock();
			take(&packet);
			manager_unlock();
		}
		mail_close_fds(&mail);
	}
}

static int wait_ms(void)
{
	uint64_t deadline, now = manager_now();
	bool is_waiting;

	manager_lock();
	cm_run(&manager.cm, now);
	send_waiting();
	deadline = cm_deadline(&manager.cm);
	is_waiting = waiting_count > 0;
	manager_unlock();
	if (is_waiting)
		return WAITING_MS;
	if (deadline == UINT64_MAX)
		return -1;
	if (deadline <= now)
		return 0;
	return (int)((deadline - now) / 1000000) + 1;
}

static void *run(void *data)
{
	struct epoll_event events[16];
	uint64_t ignored;

	while (!__atomic_load_n(&manager.is_stopping, __ATOMIC_ACQUIRE)) {
		int count = epoll_wait(manager.epoll, events, 16, wait_ms());

		for (int i = 0; i < count; i++) {
			if (events[i].data.fd != manager.kick)
				read_mail(events[i].data.fd);
			else if (read(manager.kick, &ignored, sizeof(ignored)) < 0)
				continue;
		}
	}
	return NULL;
}

int manager_watch(int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

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
	return manager_watch(manager.mailbox) || manager_watch(manager.kick) ? errno : 0;
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
	context = device_find(NULL, NULL);
	error = open_all(verbatim_cm_slot(context));
	if (error)
		return error;
	cm_init(&manager.cm, verbatim_cm_slot(context), &host, NULL);
	error = start_thread();
	manager.is_running = error == 0;
	return error;
}

__attribute__((destructor)) static void stop(void)
{
	if (!manager.is_running)
		return;
	__atomic_store_n(&manager.is_stopping, true, __ATOMIC_RELEASE);
	manager_kick();
	pthread_join(manager.thread, NULL);
	for (uint32_t i = 0; i < manager.cm.capacity; i++)
		if (manager.cm.ids[i] && !manager.cm.ids[i]->is_released)
			cm_release(&manager.cm, manager.cm.ids[i], manager_now());
	manager.is_running = false;
}
