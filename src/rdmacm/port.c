/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports, of all processes of this host: who has one has the abstract socket of its service id and
 * address bound (engine/slot.h), where requests to it then arrive. An address that means all, of a
 * family or of both, and another one of these are in each other's way: each looks for the other
 * once it has its own, so that both may fail but never both succeed.
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
	unsigned int families; /* on all addresses of these, MAIL_*; 0: on one */
	union ibv_gid gid;     /* that one */
	int fd;
	unsigned int users;
	bool is_shared; /* all its users allow reuse */
};

static CDS_LIST_HEAD(services);
static CDS_LIST_HEAD(listeners);

static struct service *find_service(const struct service *like)
{
	struct service *service;

	cds_list_for_each_entry (service, &services, node)
		if (service->service_id == like->service_id &&
		    service->families == like->families &&
		    (like->families || memcmp(&service->gid, &like->gid, sizeof(like->gid)) == 0))
			return service;
	return NULL;
}

/* By what of its name comes behind its id: families behind a star, or an address. */
static bool is_in_the_way(const char *name, const struct service *of)
{
	static const char mapped[] = "00000000000000000000ffff";
	unsigned int own = of->families ? of->families : mail_family(&of->gid);

	if (name[0] == '*') {
		unsigned int theirs = (unsigned int)(name[1] - '0');

		return theirs != of->families && theirs & own; /* and it is not itself */
	}
	return of->families & (strncmp(name, mapped, strlen(mapped)) ? MAIL_IPV6 : MAIL_IPV4);
}

/* Whether other services of this id are in its way, be they ours. */
static bool is_contested(const struct service *service)
{
	char line[512], prefix[64];
	bool found = false;
	FILE *file = fopen("/proc/net/unix", "re");

	snprintf(prefix, sizeof(prefix), "@verbatim/cm/%016llx/",
		 (unsigned long long)service->service_id);
	while (file && !found && fgets(line, sizeof(line), file)) {
		const char *name = strstr(line, prefix);

		found = name && is_in_the_way(name + strlen(prefix), service);
	}
	if (file)
		fclose(file);
	return found;
}

static int bind_service(struct service *service)
{
	struct mail_address address;
	int error;

	if (service->families)
		mail_address_of_service_on_all(service->service_id, service->families, &address);
	else
		mail_address_of_service(service->service_id, &service->gid, &address);
	service->fd = mail_bind(&address);
	if (service->fd < 0)
		return -service->fd;
	error = is_contested(service) ? EADDRINUSE : manager_watch(service->fd, WATCH_MAIL, 0);
	if (error)
		close(service->fd);
	return error;
}

/* As sockets have it: the wildcard of IPv6 is that of IPv4 as well, unless told otherwise. */
static unsigned int families_of(const struct id *id)
{
	const struct sockaddr *source = &id->cm.route.addr.src_addr;

	if (!address_is_any(source))
		return 0;
	if (source->sa_family == AF_INET)
		return MAIL_IPV4;
	return id->af_only ? MAIL_IPV6 : MAIL_IPV4 | MAIL_IPV6;
}

static int take(struct id *id, uint16_t port)
{
	struct service like = {
	    .service_id = service_id_of(id, port),
	    .families = families_of(id),
	    .users = 1,
	    .is_shared = id->reuse_address,
	};
	struct service *service;
	int error;

	gid_of_address(&id->cm.route.addr.src_addr, &like.gid);
	service = find_service(&like);
	if (service) {
		if (!service->is_shared || !id->reuse_address)
			return EADDRINUSE;
		service->users++;
		id->service = service;
		return 0;
	}
	service = malloc(sizeof(*service));
	if (!service)
		return ENOMEM;
	*service = like;
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
		const struct service *service = id->service;

		if (!service || service->service_id != service_id)
			continue;
		if (families_of(id) & mail_family(gid))
			any = id;
		else if (!service->families && memcmp(&service->gid, gid, sizeof(*gid)) == 0)
			return id;
	}
	return any;
}
