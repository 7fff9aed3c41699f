# SPDX-License-Identifier: BSD-2-Clause
# Nobody waits for the ACK of a record.
# file: src/transport/express.c
# with: --express --seeds 1..300
s/^\trequester->is_untimed \|= .*$//
