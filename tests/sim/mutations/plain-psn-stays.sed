# SPDX-License-Identifier: BSD-2-Clause
# What has left keeps the PSN of the one before.
# file: src/transport/plain.c
# with: --plain --seeds 1..300
s/^\trequester->psn = requester->end = requester->packets_end = psn_next\(requester->end\);$//
