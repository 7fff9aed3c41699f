# SPDX-License-Identifier: BSD-2-Clause
# Retransmission: a timeout goes on waiting.
# file: src/transport/retry.c
s/^\tif \(now < requester->ack_deadline\) \{$/\tif (now < NO_DEADLINE) {/
