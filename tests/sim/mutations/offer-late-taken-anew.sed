# SPDX-License-Identifier: BSD-2-Clause
# What is asked for again later takes up at the next piece.
# file: src/transport/fetch.c
# with: --offers --seeds 1..300
s/fetch->at = arrival->now \+ LATER_NS;/fetch->at = arrival->now + LATER_NS, fetch->next++;/
