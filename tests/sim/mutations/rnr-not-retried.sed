# SPDX-License-Identifier: BSD-2-Clause
# RNR: nothing is sent again when the time is over.
# file: src/transport/retry.c
s/^\trequester->rnr_deadline = now \+ .*$/\trequester->rnr_deadline = NO_DEADLINE - 1;/
