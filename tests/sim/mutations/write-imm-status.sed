# SPDX-License-Identifier: BSD-2-Clause
# The receive of a WRITE with immediate whose region goes away shows the requester's status.
# file: src/transport/responder_execute.c
# with: --seeds 1..12000
s/IBV_WC_LOC_ACCESS_ERR/IBV_WC_REM_ACCESS_ERR/
