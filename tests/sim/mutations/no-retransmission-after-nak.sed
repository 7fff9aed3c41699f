# SPDX-License-Identifier: BSD-2-Clause
# Retransmission: a gap that the peer reports is counted, not repaired, and neither is what times out later.
# file: src/transport/retry.c
s/^\trequester->psn = requester->una;$/\trequester->psn = requester->end;/
