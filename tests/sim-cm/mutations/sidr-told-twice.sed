# SPDX-License-Identifier: BSD-2-Clause
# The answer of a service is told each time that it comes.
# file: src/cm/receive.c
/^static void receive_sidr_rep/,/^}/s/ \|\| id->state != CM_SIDR_SENT//
