# SPDX-License-Identifier: BSD-2-Clause
# A response that came before its turn acknowledges the request behind it.
# file: src/transport/recovery.c
s/set_executed\(recovery, psn_next\(psn\)\)/set_executed(recovery, psn_add(psn, 2))/
