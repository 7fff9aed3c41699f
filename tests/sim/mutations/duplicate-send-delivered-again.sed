# SPDX-License-Identifier: BSD-2-Clause
# A SEND or WRITE seen before is executed again.
# file: src/transport/responder.c
/^\tif \(order > 0\)$/i\
\tif (order < 0 \&\& (arrival->wire->op->flags \& OPF_ONLY) == OPF_ONLY \&\&\
\t    (arrival->wire->op->flags \& (OPF_SEND | OPF_WRITE))) {\
\t\tvalidate_and_execute(arrival);\
\t\tif (arrival->wire->op->flags \& OPF_RECV)\
\t\t\texecute_end_of_message(arrival);\
\t}
