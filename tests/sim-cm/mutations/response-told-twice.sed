# SPDX-License-Identifier: BSD-2-Clause
# A REP is told each time that it comes.
# file: src/cm/receive.c
/^static void receive_rep/,/^}/s/id->state == CM_REQ_SENT\)/id->state == CM_REQ_SENT || id->state == CM_REP_RCVD)/
