# SPDX-License-Identifier: BSD-2-Clause
# What says that the peer is not ready is taken for an ACK.
# file: src/transport/plain_take.c
# with: --plain --seeds 1..300
s/bth\[BTH_BYTES\] == \(AETH_ACK \| AETH_CREDIT_NONE\) \&\& //
