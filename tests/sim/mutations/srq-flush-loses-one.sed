# SPDX-License-Identifier: BSD-2-Clause
# The receive of a message in progress is lost when the QP fails.
# file: src/transport/completion.c
s/^\tif \(responder->has_recv\)$/\tif (false)/
