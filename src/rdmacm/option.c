/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options of ids, and what two programs tell each other of their QPs' enhancements (ECE): a
 * vendor's number and 32 bits, which go with REQ and REP and mean nothing here.
 */
#include <arpa/inet.h>
#include <string.h>

#include <infiniband/sa.h>

#include "rdmacm/face.h"

static int set_id_option(struct id *id, int option, const void *value, size_t length)
{
	bool is_byte = option == RDMA_OPTION_ID_TOS || option == RDMA_OPTION_ID_ACK_TIMEOUT;
	uint8_t byte = 0;
	int number = 0;

	if (option < RDMA_OPTION_ID_TOS || option > RDMA_OPTION_ID_ACK_TIMEOUT)
		return ENOSYS;
	if (length != (is_byte ? sizeof(byte) : sizeof(number)))
		return EINVAL;
	memcpy(is_byte ? (void *)&byte : &number, value, length);
	if (option == RDMA_OPTION_ID_TOS)
		id->tos = byte;
	else if (option == RDMA_OPTION_ID_REUSEADDR)
		id->reuse_address = number != 0;
	else if (option == RDMA_OPTION_ID_AFONLY)
		id->af_only = number != 0;
	else if (byte > 31)
		return EINVAL;
	else
		id->ack_timeout = byte;
	return 0;
}

/* The program's own path record instead of rdma_resolve_route(). What of it means nothing on
 * Ethernet is not looked at. */
static int set_path(struct id *id, const struct ibv_path_data *paths, size_t length)
{
	const struct ibv_path_record *record = &paths->path;

	if (length == 0 || length % sizeof(*paths))
		return EINVAL;
	if (id->state != ID_RESOLVED)
		return EINVAL;
	id_set_route(id, record->mtu & 0x3f, record->tclass,
		     (uint8_t)ntohl(record->flowlabel_hoplimit));
	return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen)
{
	int error;

	if (!optval)
		return cm_result(EINVAL);
	if (level != RDMA_OPTION_ID && (level != RDMA_OPTION_IB || optname != RDMA_OPTION_IB_PATH))
		return cm_result(ENOSYS);
	manager_lock();
	error = level == RDMA_OPTION_IB ? set_path(id_of(id), optval, optlen)
					: set_id_option(id_of(id), optname, optval, optlen);
	manager_unlock();
	return cm_result(error);
}

/* Only where the program brings its own QP. */
int rdma_set_local_ece(struct rdma_cm_id *cm_id, struct ibv_ece *ece)
{
	enum { VENDOR_BITS = 24 };
	struct id *id = id_of(cm_id);

	if (!ece || cm_id->qp || !ece->vendor_id || ece->vendor_id >> VENDOR_BITS || ece->comp_mask)
		return cm_result(EINVAL);
	manager_lock();
	id->local_ece = *ece;
	manager_unlock();
	return 0;
}

int rdma_get_remote_ece(struct rdma_cm_id *cm_id, struct ibv_ece *ece)
{
	struct id *id = id_of(cm_id);

	if (!ece || cm_id->qp)
		return cm_result(EINVAL);
	manager_lock();
	*ece = id->remote_ece;
	manager_unlock();
	return 0;
}
