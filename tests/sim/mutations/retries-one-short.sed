# SPDX-License-Identifier: BSD-2-Clause
# Retries: gives up too early.
# file: src/transport/retry.c
s/^\tif \(requester->retries_left\) \{$/\tif (requester->retries_left > 4) {/
