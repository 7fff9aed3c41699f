# SPDX-License-Identifier: BSD-2-Clause
# RNR: gives up one retry too early.
# file: src/transport/retry.c
s/^\t\tif \(!requester->rnr_retries_left\) \{$/\t\tif (requester->rnr_retries_left <= 1) {/
