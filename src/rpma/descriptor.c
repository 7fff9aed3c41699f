/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions of other hosts, and the 21 bytes that describe a region to them, little endian: address
 * (8), size (8), rkey (4), usage (1).
 */
#include <endian.h>
#include <string.h>

#include "rpma/face.h"

enum { AT_ADDRESS = 0, AT_SIZE = 8, AT_RKEY = 16, AT_USAGE = 20, DESCRIPTOR_SIZE = 21 };

int rpma_mr_get_descriptor(const struct rpma_mr_local *mr, void *desc)
{
	uint8_t *bytes = desc;
	uint64_t address, size;
	uint32_t rkey;

	if (!mr || !desc)
		return REFUSE_NULL();
	address = htole64((uintptr_t)mr->mr->addr);
	size = htole64(mr->mr->length);
	rkey = htole32(mr->mr->rkey);
	memcpy(bytes + AT_ADDRESS, &address, sizeof(address));
	memcpy(bytes + AT_SIZE, &size, sizeof(size));
	memcpy(bytes + AT_RKEY, &rkey, sizeof(rkey));
	bytes[AT_USAGE] = (uint8_t)mr->usage;
	return 0;
}

int rpma_mr_get_descriptor_size(const struct rpma_mr_local *mr, size_t *desc_size)
{
	if (!mr || !desc_size)
		return REFUSE_NULL();
	*desc_size = DESCRIPTOR_SIZE;
	return 0;
}

int rpma_mr_remote_from_descriptor(const void *desc, size_t desc_size,
				   struct rpma_mr_remote **mr_ptr)
{
	const uint8_t *bytes = desc;
	struct rpma_mr_remote *mr;

	if (!desc || !mr_ptr)
		return REFUSE_NULL();
	if (desc_size < DESCRIPTOR_SIZE)
		return REFUSE(RPMA_DESCRIPTOR, "%zu bytes, not %d", desc_size, DESCRIPTOR_SIZE);
	if (bytes[AT_USAGE] == 0)
		return REFUSE(RPMA_DESCRIPTOR, "its region is for nothing");
	mr = FAULT_NULL(calloc(1, sizeof(*mr)));
	if (!mr)
		return REFUSE(RPMA_MEMORY, "a remote region");
	memcpy(&mr->address, bytes + AT_ADDRESS, sizeof(mr->address));
	memcpy(&mr->size, bytes + AT_SIZE, sizeof(mr->size));
	memcpy(&mr->rkey, bytes + AT_RKEY, sizeof(mr->rkey));
	mr->address = le64toh(mr->address);
	mr->size = le64toh(mr->size);
	mr->rkey = le32toh(mr->rkey);
	mr->usage = bytes[AT_USAGE];
	*mr_ptr = mr;
	return 0;
}

int rpma_mr_remote_delete(struct rpma_mr_remote **mr_ptr)
{
	if (!mr_ptr)
		return REFUSE_NULL();
	free(__atomic_exchange_n(mr_ptr, NULL, __ATOMIC_ACQ_REL));
	return 0;
}

int rpma_mr_remote_get_size(const struct rpma_mr_remote *mr, size_t *size)
{
	if (!mr || !size)
		return REFUSE_NULL();
	*size = mr->size;
	return 0;
}

int rpma_mr_remote_get_flush_type(const struct rpma_mr_remote *mr, int *flush_type)
{
	if (!mr || !flush_type)
		return REFUSE_NULL();
	*flush_type =
	    mr->usage & (RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT);
	return 0;
}
