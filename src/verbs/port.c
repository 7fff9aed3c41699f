/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The port and its two tables, as programs ask for them.
 */
#include <endian.h>

#include "verbs/face.h"

#undef ibv_query_port

/* What the function ibv_query_port() fills: the struct as it was before port_cap_flags2. */
enum { COMPAT_PORT_BYTES = offsetof(struct ibv_port_attr, port_cap_flags2) };

/* Of sysfs: the number of the line in gid_attrs/types, not enum ibv_gid_type. */
enum { SYSFS_ROCE_V2 = 1 };

static int check_port(struct ibv_context *context, uint32_t port_num)
{
	if (port_num == PORT_NUMBER)
		return 0;
	return refuse(REASON_PORT_NUMBER, "port_num is %u, %s has port %u", port_num,
		      context->device->name, PORT_NUMBER);
}

static int query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
		      size_t size)
{
	struct ibv_port_attr full;
	int ret = check_port(context, port_num);

	if (ret)
		return verb_result(ret);
	port_describe(context_of(context)->adapter, &full);
	memset(attr, 0, size);
	memcpy(attr, &full, size < sizeof(full) ? size : sizeof(full));
	return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t port_num,
		   struct _compat_ibv_port_attr *attr)
{
	return query_port(context, port_num, (struct ibv_port_attr *)attr, COMPAT_PORT_BYTES);
}

/* In units of 100 Mbit/s; interfaces like loopback do not say theirs. */
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed)
{
	uint64_t mbps;
	int ret = check_port(context, port_num);

	if (ret)
		return verb_result(ret);
	mbps = port_speed_mbps(&context_of(context)->adapter->port);
	if (!mbps)
		return verb_result(refuse(REASON_PORT_SPEED, "%s", context->device->name));
	*port_speed = mbps / 100;
	return 0;
}

void context_set_port_ops(struct verbs_context *verbs)
{
	verbs->context.ops._compat_query_port = ibv_query_port;
	verbs->query_port = query_port;
}

/* ---- GIDs ---- */

/* 0, ENODATA for an empty entry (not a refusal), or the errno of the noted reason. */
static int find_gid(struct ibv_context *context, uint32_t port_num, uint32_t index,
		    struct ibv_gid_entry *entry)
{
	struct adapter *adapter = context_of(context)->adapter;
	int ret = check_port(context, port_num);

	memset(entry, 0, sizeof(*entry));
	if (ret)
		return ret;
	ret = port_gid(&adapter->port, index, &entry->gid);
	if (ret == -EINVAL)
		return refuse(REASON_GID_INDEX, "index is %u, the table of %s has %u entries",
			      index, context->device->name, MAX_GIDS);
	if (ret)
		return ENODATA;
	entry->gid_index = index;
	entry->port_num = port_num;
	entry->gid_type = IBV_GID_TYPE_ROCE_V2;
	entry->ndev_ifindex = port_netdev_index(&adapter->port);
	return 0;
}

/* An empty entry is the zero GID here, as programs that walk the whole table expect. */
int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	struct ibv_gid_entry entry;
	int ret = find_gid(context, port_num, (uint32_t)index, &entry);

	if (ret && ret != ENODATA) {
		errno = ret;
		return -1;
	}
	*gid = entry.gid;
	return 0;
}

static int check_flags(uint32_t flags)
{
	return flags ? refuse(REASON_GID_FLAGS, "flags is %#x", flags) : 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	struct ibv_gid_entry full;
	int ret = check_flags(flags);

	if (!ret)
		ret = find_gid(context, port_num, gid_index, &full);
	if (ret)
		return verb_result(ret);
	memset(entry, 0, entry_size);
	memcpy(entry, &full, entry_size < sizeof(full) ? entry_size : sizeof(full));
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t max_entries, uint32_t flags, size_t entry_size)
{
	size_t count = 0;
	int ret = check_flags(flags);

	if (ret)
		return -verb_result(ret);
	for (uint32_t i = 0; i < MAX_GIDS; i++) {
		struct ibv_gid_entry full;
		char *to = (char *)entries + count * entry_size;

		if (find_gid(context, PORT_NUMBER, i, &full))
			continue;
		if (count == max_entries)
			return -verb_result(
			    refuse(REASON_GID_TABLE_ROOM, "room for %zu entries", max_entries));
		memset(to, 0, entry_size);
		memcpy(to, &full, entry_size < sizeof(full) ? entry_size : sizeof(full));
		count++;
	}
	return (ssize_t)count;
}

/* In no public header; ibv_devinfo and others declare it themselves. `type` is sysfs's number. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
		       int *type);
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index, int *type)
{
	struct ibv_gid_entry entry;
	int ret = find_gid(context, port_num, index, &entry);

	if (ret && ret != ENODATA) {
		errno = ret;
		return -1;
	}
	*type = SYSFS_ROCE_V2;
	return 0;
}

/* ---- P_Keys ---- */

int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	uint16_t value = 0;
	int ret = check_port(context, port_num);

	if (!ret &&
	    port_pkey(&context_of(context)->adapter->port, (unsigned int)index, &value) == -EINVAL)
		ret = refuse(REASON_PKEY_INDEX, "index is %d, the table of %s has %u entries",
			     index, context->device->name, MAX_PKEYS);
	if (ret) {
		errno = ret;
		return -1;
	}
	*pkey = htobe16(value);
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	int ret = check_port(context, port_num);

	for (int i = 0; i < MAX_PKEYS && !ret; i++) {
		uint16_t value;

		if (!port_pkey(&context_of(context)->adapter->port, (unsigned int)i, &value) &&
		    value == be16toh(pkey))
			return i;
	}
	if (!ret)
		ret = refuse(REASON_PKEY_NONE, "P_Key %#x on %s", be16toh(pkey),
			     context->device->name);
	errno = ret;
	return -1;
}
