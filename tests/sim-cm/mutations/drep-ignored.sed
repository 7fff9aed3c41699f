# SPDX-License-Identifier: BSD-2-Clause
# The answer to a DREQ does not end the connection.
# file: src/cm/receive.c
/^static void receive_drep/,/^}/s/id->state != CM_DREQ_SENT/true/
