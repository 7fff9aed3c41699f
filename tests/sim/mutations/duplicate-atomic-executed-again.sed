# SPDX-License-Identifier: BSD-2-Clause
# Duplicate atomics: executed again instead of answered from what was saved.
# file: src/transport/responder_resource.c
/^\tfor \(uint32_t i = 0; i < responder->saved_room; i\+\+\) \{$/i\
\tif (wire->op->flags \& OPF_ATOMIC) {\
\t\tif (execute_atomic(arrival, \&job) == PASS)\
\t\t\tjob_add(responder, \&job);\
\t\treturn;\
\t}
