# SPDX-License-Identifier: BSD-2-Clause
# RNR: a finite rnr_retry is never used up.
# file: src/transport/retry.c
s/^\t\trequester->rnr_retries_left--;$/\t\t;/
