# SPDX-License-Identifier: BSD-2-Clause
# Windows: a SEND with invalidate leaves the window as it is.
# file: src/transport/responder_execute.c
s/reason = access_invalidate\(.*$/reason = REASON_NONE;/
