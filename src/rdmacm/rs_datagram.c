/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram rsockets.
 */
#include <stdlib.h>

#include "rdmacm/face.h"
#include "rdmacm/rs.h"

int rs_datagram_open(struct rsock *rs)
{
	return refuse(REASON_CM_NOT_IMPLEMENTED, "datagram rsockets");
}

void rs_datagram_close(struct rsock *rs)
{
}

int rs_datagram_bind(struct rsock *rs, const struct sockaddr *address, socklen_t length)
{
	return rs_fail(EOPNOTSUPP);
}

int rs_datagram_connect(struct rsock *rs, const struct sockaddr *address, socklen_t length)
{
	return rs_fail(EOPNOTSUPP);
}

ssize_t rs_datagram_send(struct rsock *rs, const void *data, size_t length, int flags,
			 const struct sockaddr *to, socklen_t to_length)
{
	return rs_fail(EOPNOTSUPP);
}

ssize_t rs_datagram_receive(struct rsock *rs, void *data, size_t length, int flags,
			    struct sockaddr *from, socklen_t *from_length)
{
	return rs_fail(EOPNOTSUPP);
}

short rs_datagram_events(struct rsock *rs)
{
	return 0;
}
