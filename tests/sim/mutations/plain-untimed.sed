# SPDX-License-Identifier: BSD-2-Clause
# Nobody waits for the ACK of a plain SEND.
# file: src/transport/plain.c
# with: --plain --seeds 1..600
s/^\tawait_answer\(qp, now\);$//
