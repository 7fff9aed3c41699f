/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Management datagrams as only an attacker sends them, and who has to live with them.
 *	flood send FROM TO PORT SECONDS	every kind of bad message to QP 1 there: bytes by chance,
 *heads that are right with bodies by chance, messages cut short, messages of connections that there
 *are not, and requests that fill the backlog flood serve ADDRESS PORT	a listener with a backlog of
 *4 that takes nothing for a second, and then accepts the requests that say "good"; status 0 after
 *GOOD of them flood connect ADDRESS PORT	GOOD connections, one after the other
 */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#include "wire/headers.h"
#include "wire/icrc.h"
#include "wire/mad.h"
#include "wire/opcode.h"

enum {
	GOOD = 20,
	BACKLOG = 4,
	SERVICE_PORT_ROCE = 4791,
	A_MILLISECOND = 4, /* messages */
	HEADS = BTH_BYTES + DETH_BYTES,
};

static const char password[] = "good";

static void check(int result, const char *what)
{
	if (result == 0)
		return;
	perror(what);
	exit(1);
}

static struct sockaddr_in at(const char *ip, const char *port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons((uint16_t)atoi(port))};

	if (inet_pton(AF_INET, ip, &address.sin_addr) != 1)
		exit(2);
	return address;
}

/* ---- the attacker ---- */

static uint64_t dice = 88172645463325252;

static uint32_t roll(void)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return (uint32_t)(dice >> 16);
}

static void fill_by_chance(uint8_t *bytes, size_t count)
{
	while (count--)
		*bytes++ = (uint8_t)roll();
}

static void request(uint8_t *mad, uint16_t port)
{
	uint8_t data[REQ_ROOM] = {0};
	struct ip_cm ip = {.ip_version = 4, .source_port = (uint16_t)roll()};
	struct cm_mad req = {
	    .attribute = roll() % 8 ? CM_REQ : CM_SIDR_REQ,
	    .transaction = (uint64_t)roll() << 32 | roll(),
	    .local_id = roll(),
	    .private_data = data,
	    .private_length = sizeof(data),
	};

	ip_cm_pack(data, &ip);
	if (req.attribute == CM_REQ)
		req.req = (struct cm_req){.service_id = UINT64_C(0x1060000) | port,
					  .qpn = roll() & 0xffffff,
					  .mtu = 3,
					  .pkey = 0xffff};
	else
		req.sidr_req.service_id = UINT64_C(0x1060000) | port;
	cm_mad_pack(mad, &req);
}

/* To the process of slot 0, which is the one there is. */
static void message_of_no_connection(uint8_t *mad)
{
	fill_by_chance(mad, MAD_BYTES);
	mad[0] = 1;
	mad[1] = MAD_CLASS_CM;
	mad[2] = MAD_CM_VERSION;
	mad[3] = MAD_METHOD_SEND;
	mad[16] = 0;
	mad[17] = (uint8_t)(CM_REQ + roll() % (CM_APR - CM_REQ + 1));
	mad[MAD_HEAD_BYTES + 4] = 0;
}

/* The length of a whole packet, its ICRC not counted. */
static size_t message(uint8_t *packet, uint16_t port)
{
	struct bth bth = {.opcode = TRANSPORT_UD | OP_SEND_ONLY,
			  .migreq = true,
			  .pkey = 0xffff,
			  .dest_qp = 1,
			  .psn = roll() & 0xffffff};
	struct deth deth = {.qkey = GSI_QKEY, .src_qp = 1};
	uint8_t *mad = packet + HEADS;
	size_t length = HEADS + MAD_BYTES;

	bth_pack(packet, &bth);
	deth_pack(packet + BTH_BYTES, &deth);
	switch (roll() % 5) {
	case 0:
		fill_by_chance(mad, MAD_BYTES);
		break;
	case 1:
		message_of_no_connection(mad);
		break;
	case 2:
		message_of_no_connection(mad);
		length = HEADS + roll() % (MAD_BYTES / 4) * 4;
		break;
	case 3:
		message_of_no_connection(mad);
		mad[17] = (uint8_t)roll();
		break;
	default:
		request(mad, port);
	}
	return length;
}

static int flood(const struct sockaddr_in *from, const struct sockaddr_in *to, uint16_t port,
		 int seconds)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), keep = IP_PMTUDISC_DO;
	uint8_t packet[HEADS + MAD_BYTES + 4];
	struct sockaddr_in bound = *from;
	socklen_t length = sizeof(bound);
	time_t end = time(NULL) + seconds;
	unsigned long sent = 0;
	struct icrc_flow flow;

	check(setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &keep, sizeof(keep)), "setsockopt");
	check(bind(fd, (struct sockaddr *)&bound, length), "bind");
	check(getsockname(fd, (struct sockaddr *)&bound, &length), "getsockname");
	icrc_flow_ipv4(&flow, (uint8_t *)&from->sin_addr, (uint8_t *)&to->sin_addr,
		       ntohs(bound.sin_port), SERVICE_PORT_ROCE);
	while (time(NULL) < end) {
		for (int i = 0; i < A_MILLISECOND; i++) {
			size_t bytes = message(packet, port);

			icrc_seal(&flow, packet, bytes, 0);
			if (sendto(fd, packet, bytes + 4, 0, (struct sockaddr *)to, sizeof(*to)) >
			    0)
				sent++;
		}
		poll(NULL, 0, 1);
	}
	printf("%lu messages\n", sent);
	return 0;
}

/* ---- the others ---- */

static struct rdma_event_channel *channel;

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	check(rdma_create_qp(id, NULL, &attr), "rdma_create_qp");
}

static bool is_good(const struct rdma_cm_event *event)
{
	return event->param.conn.private_data_len >= sizeof(password) &&
	       memcmp(event->param.conn.private_data, password, sizeof(password)) == 0;
}

/* True when the id is to go. */
static bool serve_one(const struct rdma_cm_event *event)
{
	struct rdma_conn_param param = {.rnr_retry_count = 7};

	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		if (!is_good(event)) {
			rdma_reject(event->id, NULL, 0);
			return true;
		}
		make_qp(event->id);
		check(rdma_accept(event->id, &param), "rdma_accept");
	}
	if (event->event != RDMA_CM_EVENT_DISCONNECTED)
		return false;
	rdma_disconnect(event->id);
	return true;
}

static int serve(struct sockaddr_in *address)
{
	struct rdma_cm_id *listener;
	int served = 0;

	check(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
	check(rdma_bind_addr(listener, (struct sockaddr *)address), "rdma_bind_addr");
	check(rdma_listen(listener, BACKLOG), "rdma_listen");
	puts("listening");
	sleep(1);
	while (served < GOOD) {
		struct rdma_cm_event *event;
		struct rdma_cm_id *gone = NULL;

		check(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
		served += event->event == RDMA_CM_EVENT_DISCONNECTED;
		if (serve_one(event))
			gone = event->id;
		rdma_ack_cm_event(event);
		if (gone && gone->qp)
			rdma_destroy_qp(gone);
		if (gone)
			rdma_destroy_id(gone);
	}
	puts("served");
	pause(); /* its counters are read */
	return 0;
}

static void expect(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	check(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
	if (event->event != type) {
		printf("%s, status %d\n", rdma_event_str(event->event), event->status);
		exit(1);
	}
	rdma_ack_cm_event(event);
}

static int connect_all(struct sockaddr_in *address)
{
	struct rdma_conn_param param = {.private_data = password,
					.private_data_len = sizeof(password)};

	for (int i = 0; i < GOOD; i++) {
		struct rdma_cm_id *id;

		check(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
		check(rdma_resolve_addr(id, NULL, (struct sockaddr *)address, 1000), "resolve");
		expect(RDMA_CM_EVENT_ADDR_RESOLVED);
		check(rdma_resolve_route(id, 1000), "rdma_resolve_route");
		expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
		make_qp(id);
		check(rdma_connect(id, &param), "rdma_connect");
		expect(RDMA_CM_EVENT_ESTABLISHED);
		check(rdma_disconnect(id), "rdma_disconnect");
		expect(RDMA_CM_EVENT_DISCONNECTED);
		rdma_destroy_qp(id);
		check(rdma_destroy_id(id), "rdma_destroy_id");
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in address, roce;

	if (argc < 4)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (strcmp(argv[1], "send") == 0 && argc == 6) {
		address = at(argv[2], "0");
		roce = at(argv[3], "4791");
		return flood(&address, &roce, (uint16_t)atoi(argv[4]), atoi(argv[5]));
	}
	address = at(argv[2], argv[3]);
	channel = rdma_create_event_channel();
	check(!channel, "rdma_create_event_channel");
	return strcmp(argv[1], "serve") == 0 ? serve(&address) : connect_all(&address);
}
