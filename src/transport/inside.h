/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A SEND whose receiver is a QP of this process: the payload goes from the one program's buffer to
 * the other's at once, and both complete. It takes no PSN. Where anything stands in the way, which
 * may be a receive that is not there yet, or is too short, it goes by packets, which say so.
 */
#ifndef TRANSPORT_INSIDE_H
#define TRANSPORT_INSIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "device/adapter.h"

struct qp;
struct send_wqe;

/* Whether this WQE, which has no PSNs yet, is one to try. */
bool inside_may(const struct qp *qp, const struct send_wqe *wqe);

/* Does it; `bytes` is the cost. REACH_REFUSED: it goes by packets. */
enum reach_result inside_run(struct qp *qp, struct send_wqe *wqe, uint64_t now, uint32_t *bytes);

#endif
