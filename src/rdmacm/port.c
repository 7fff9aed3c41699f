/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports, of all processes of this host: who has one has the abstract socket of its service id and
 * address bound (engine/slot.h), where requests to it then arrive. An address that means all and
 * one that means itself are in each other's way: each looks for the other once it has its own, so
 * that both may fail but never both succeed.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "engine/slot.h"
#include "rdmacm/face.h"

enum { FIRST_FREE_PORT = 32768, LAST_FREE_PORT = 60999, TRIES = 1000 };

struct service {
	struct cds_list_head node;
	uint64_t service_id;
	bool is_any;
	union ibv_gid gid;
	int fd;
	unsigned int users;
	bool is_shared; /* all its users allow reuse */
};

static CDS_LIST_HEAD(services);
static CDS_LIST_HEAD(listeners);

static struct service *find_service(uint64_t service_id, bool is_any, const union ibv_gid *gid)
{
	struct service *service;

	cds_list_for_each_entry (service, &services, node)
		if (service->service_id == service_id && service->is_any == is_any &&
		    (is_any || memcmp(&service->gid, gid, sizeof(*gid)) == 0))
			return service;
	return NULL;
}

/* Names that other services of this id have, be they ours: the wildcard for an address, all for the
 * wildcard. */
static bool is_contested(const struct service *service)
{
	char line[512], prefix[64];
	bool found = false;
	FILE *file = fopen("/proc/net/unix", "re");

	snprintf(prefix, sizeof(prefix), "@verbatim/cm/%016llx/%s",
		 (unsigned long long)service->service_id, service->is_any ? "" : "*");
	while (file && !found && fgets(line, sizeof(line), file)) {
		const char *name = strstr(line, prefix);

		found = name && (!service->is_any || name[strlen(prefix)] != '*');
	}
	if (file)
		fclose(file);
	return found;
}

static int bind_service(struct service *service)
{
	struct mail_address address;
	int error;

	mail_address_of_service(service->service_id, service->is_any ? NULL : &service->gid,
				&address);
	service->fd = mail_bind(&address);
	if (service->fd < 0)
		return -service->fd;
	error = is_contested(service) ? EADDRINUSE : manager_watch(service->fd, WATCH_MAIL, 0);
	if (error)
		close(service->fd);
	return error;
}

static int take(struct id *id, uint16_t port)
{
	const struct sockaddr *source = &id->cm.route.addr.src_addr;
	uint64_t service_id = service_id_of(id, port);
	struct service *service;
	union ibv_gid gid;
	int error;

	gid_of_address(source, &gid);
	service = find_service(service_id, address_is_any(source), &gid);
	if (service) {
		if (!service->is_shared || !id->reuse_address)
			return EADDRINUSE;
		service->users++;
		id->service = service;
		return 0;
	}
	service = calloc(1, sizeof(*service));
	if (!service)
		return ENOMEM;
	service->service_id = service_id;
	service->is_any = address_is_any(source);
	service->gid = gid;
	service->users = 1;
	service->is_shared = id->reuse_address;
	error = bind_service(service);
	if (error) {
		free(service);
		return error;
	}
	cds_list_add(&service->node, &services);
	id->service = service;
	return 0;
}

static uint16_t random_port(void)
{
	uint16_t bits = 0;

	while (getrandom(&bits, sizeof(bits), 0) != sizeof(bits))
		;
	return (uint16_t)(FIRST_FREE_PORT + bits % (LAST_FREE_PORT - FIRST_FREE_PORT + 1));
}

int port_take(struct id *id)
{
	__be16 *port = address_port(&id->cm.route.addr.src_addr);
	int error = EADDRINUSE;

	if (*port) {
		error = take(id, ntohs(*port));
	} else {
		for (int i = 0; i < TRIES && error == EADDRINUSE; i++) {
			*port = htons(random_port());
			error = take(id, ntohs(*port));
		}
	}
	return error == EADDRINUSE ? refuse(REASON_CM_PORT_TAKEN, "port %u, port space 0x%x",
					    ntohs(*port), (unsigned int)id->cm.ps)
				   : error;
}

void port_release(struct id *id)
{
	struct service *service = id->service;

	if (id->state == ID_LISTENING)
		cds_list_del(&id->node);
	id->service = NULL;
	if (!service || --service->users)
		return;
	manager_unwatch(service->fd);
	close(service->fd);
	cds_list_del(&service->node);
	free(service);
}

void ports_abandon(void)
{
	struct service *service, *next;

	cds_list_for_each_entry_safe (service, next, &services, node) {
		close(service->fd);
		free(service);
	}
	CDS_INIT_LIST_HEAD(&services);
	CDS_INIT_LIST_HEAD(&listeners);
}

struct port_load ports_load(void)
{
	struct port_load load = {0};
	struct id *id;

	cds_list_for_each_entry (id, &listeners, node) {
		load.listeners++;
		load.pending += id->pending;
	}
	return load;
}

bool port_is_mailbox(int fd)
{
	struct service *service;

	cds_list_for_each_entry (service, &services, node)
		if (service->fd == fd)
			return true;
	return false;
}

void port_listen(struct id *id)
{
	id->state = ID_LISTENING;
	cds_list_add(&id->node, &listeners);
}

struct id *port_listener(uint64_t service_id, const union ibv_gid *gid)
{
	struct id *id, *any = NULL;

	cds_list_for_each_entry (id, &listeners, node) {
		struct sockaddr *source = &id->cm.route.addr.src_addr;
		union ibv_gid own;

		if (!id->service || id->service->service_id != service_id)
			continue;
		gid_of_address(source, &own);
		if (memcmp(&own, gid, sizeof(own)) == 0)
			return id;
		if (!address_is_any(source))
			continue;
		if ((source->sa_family == AF_INET6 && !id->af_only) ||
		    (source->sa_family == AF_INET6) !=
			IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid->raw))
			any = id;
	}
	return any;
}
