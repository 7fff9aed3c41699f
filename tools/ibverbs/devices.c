/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_devices: the RDMA devices that programs can use, one a line. */
#include <endian.h>
#include <stdio.h>

#include <infiniband/verbs.h>

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list) {
		perror("Failed to get IB devices list");
		return 1;
	}
	printf("    %-16s\t   node GUID\n", "device");
	printf("    %-16s\t----------------\n", "------");
	for (int i = 0; list[i]; i++)
		printf("    %-16s\t%016llx\n", ibv_get_device_name(list[i]),
		       (unsigned long long)be64toh(ibv_get_device_guid(list[i])));
	ibv_free_device_list(list);
	return 0;
}
