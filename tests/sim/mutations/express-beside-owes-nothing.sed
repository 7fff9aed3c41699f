# SPDX-License-Identifier: BSD-2-Clause
# A plain message is not acknowledged.
# file: src/transport/express_beside.c
# with: --express --seeds 1..300
s/^\texpress_owe\(.*$//
