# SPDX-License-Identifier: BSD-2-Clause
# Retries: progress does not give them back.
# file: src/transport/retry.c
s/^\trequester->retries_left = qp->attr\.retry_cnt;$/\t;/
