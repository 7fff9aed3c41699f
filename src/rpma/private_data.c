/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private data: what one side says in the message that asks for a connection, or accepts it. It
 * comes with an event, and outlives it here.
 */
#include <string.h>

#include "rpma/face.h"

int private_data_take(const struct rdma_cm_event *event, struct rpma_conn_private_data *data)
{
	const struct rdma_conn_param *param = &event->param.conn;
	void *copy;

	if (!param->private_data || param->private_data_len == 0)
		return 0;
	copy = FAULT_NULL(malloc(param->private_data_len));
	if (!copy)
		return REFUSE(RPMA_MEMORY, "%u bytes of private data", param->private_data_len);
	memcpy(copy, param->private_data, param->private_data_len);
	*data = (struct rpma_conn_private_data){.ptr = copy, .len = param->private_data_len};
	return 0;
}
