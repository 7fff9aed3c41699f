# SPDX-License-Identifier: BSD-2-Clause
# More READs and atomics under way than max_rd_atomic.
# file: src/transport/request.c
s/^\tif \(requester->rd_sent >= qp->attr\.max_rd_atomic\)$/\tif (requester->rd_sent > qp->attr.max_rd_atomic)/
