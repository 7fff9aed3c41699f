/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packet sockets: one to receive, in lane 0, one to send by. What is sent on an interface to a
 * group comes back to those who listen there, as adapters have it: the kernel shows the receiving
 * socket what leaves by others.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "device/port.h"
#include "engine/raw.h"
#include "engine/state.h"
#include "explain/reason.h"
#include "transport/transport.h"
#include "wire/frame.h"

enum { BATCH = 32 };

static int open_socket(const struct station *station, uint16_t protocol)
{
	struct sockaddr_ll address = {.sll_family = AF_PACKET,
				      .sll_protocol = htons(protocol),
				      .sll_ifindex = (int)station->info.ifindex};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1, error;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) ||
	    (protocol && setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &one, sizeof(one)))) {
		error = -errno;
		close(fd);
		return error;
	}
	return fd;
}

static int refuse_socket(const struct station *station, int error)
{
	return refuse(error == -EPERM || error == -EACCES ? REASON_RAW_PRIVILEGE
							  : REASON_RAW_SOCKET,
		      "%s: %s", station->info.netdev, strerror(-error));
}

static int open_both(struct station *station)
{
	struct lane *lane = station->engine->lanes[0];
	int in = open_socket(station, ETH_P_ALL), out, error;

	if (in < 0)
		return refuse_socket(station, in);
	out = open_socket(station, 0);
	if (out < 0) {
		close(in);
		return refuse_socket(station, out);
	}
	station->raw_fd = out;
	station->raw_source =
	    (struct source){.fd = in, .adapter = &station->adapter, .is_raw = true};
	lane_lock(lane);
	error = lane_add_source(lane, &station->raw_source);
	lane_unlock(lane);
	if (!error)
		return 0;
	close(in);
	close(out);
	return refuse_socket(station, error);
}

int raw_open(struct station *station)
{
	int error = 0;

	pthread_mutex_lock(&station->lock);
	if (!station->raw_users)
		error = open_both(station);
	if (!error)
		station->raw_users++;
	pthread_mutex_unlock(&station->lock);
	return error;
}

void raw_close(struct station *station)
{
	struct lane *lane = station->engine->lanes[0];

	pthread_mutex_lock(&station->lock);
	if (--station->raw_users == 0) {
		lane_lock(lane);
		lane_remove_source(lane, &station->raw_source);
		lane_unlock(lane);
		close(station->raw_source.fd);
		close(station->raw_fd);
	}
	pthread_mutex_unlock(&station->lock);
}

int raw_send_frame(struct adapter *adapter, const void *frame, size_t length)
{
	const struct station *station = station_of(adapter);

	if (send(station->raw_fd, frame, length, 0) >= 0)
		return 0;
	return errno == EAGAIN || errno == ENOBUFS || errno == EINTR ? -EAGAIN : -errno;
}

/* The kernel takes the VLAN tag off and tells it apart; here it goes back to its place. */
static size_t insert_vlan(const struct msghdr *message, uint8_t *frame, size_t length)
{
	for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at;
	     at = CMSG_NXTHDR((struct msghdr *)message, at)) {
		struct tpacket_auxdata aux;
		uint16_t tag[2];

		if (at->cmsg_level != SOL_PACKET || at->cmsg_type != PACKET_AUXDATA)
			continue;
		memcpy(&aux, CMSG_DATA(at), sizeof(aux));
		if (!(aux.tp_status & TP_STATUS_VLAN_VALID) || length < FRAME_MIN)
			continue;
		tag[0] = htons(aux.tp_status & TP_STATUS_VLAN_TPID_VALID ? aux.tp_vlan_tpid
									 : FRAME_TYPE_VLAN);
		tag[1] = htons(aux.tp_vlan_tci);
		memmove(frame + 2 * FRAME_MAC + FRAME_VLAN, frame + 2 * FRAME_MAC,
			length - 2 * FRAME_MAC);
		memcpy(frame + 2 * FRAME_MAC, tag, sizeof(tag));
		return length + FRAME_VLAN;
	}
	return length;
}

/* On the loopback all that leaves comes in again by itself; elsewhere what leaves is for us if it
 * is for a group. */
static bool is_wanted(const struct station *station, const struct sockaddr_ll *from,
		      const uint8_t *frame)
{
	if (from->sll_pkttype != PACKET_OUTGOING)
		return true;
	return !station->is_loopback && frame[0] & 1;
}

uint8_t *raw_frame_room(struct qp *qp)
{
	return qp->seat->lane->room;
}

unsigned int raw_receive(struct lane *lane, struct source *source, uint64_t now)
{
	uint8_t *frame = lane->room;
	struct station *station = station_of(source->adapter);
	unsigned int count = 0;

	while (count < BATCH) {
		char control[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
		struct iovec iov = {frame, LANE_ROOM - FRAME_VLAN};
		struct sockaddr_ll from;
		struct msghdr message = {.msg_name = &from,
					 .msg_namelen = sizeof(from),
					 .msg_iov = &iov,
					 .msg_iovlen = 1,
					 .msg_control = control,
					 .msg_controllen = sizeof(control)};
		ssize_t length = recvmsg(source->fd, &message, 0);

		if (length < 0)
			break;
		if (length < FRAME_MIN || !is_wanted(station, &from, frame))
			continue;
		transport_receive_frame(source->adapter, frame,
					insert_vlan(&message, frame, (size_t)length), now);
		count++;
	}
	return count;
}
