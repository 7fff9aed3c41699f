# SPDX-License-Identifier: BSD-2-Clause
# SQD: the send queue counts as drained with packets under way.
# file: src/transport/requester.c
s/^\tif \(requester->una != requester->end\)$/\tif (false)/
