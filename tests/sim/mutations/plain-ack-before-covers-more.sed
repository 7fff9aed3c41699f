# SPDX-License-Identifier: BSD-2-Clause
# What a message came behind acknowledges one more than it says.
# file: src/transport/plain_take.c
# with: --plain --seeds 1..300
s/express\.ack = bth_psn\(packet->ack\);/express.ack = psn_next(bth_psn(packet->ack));/
