# SPDX-License-Identifier: BSD-2-Clause
# SQD: new requests are begun nevertheless.
# file: src/transport/requester.c
s/!= IBV_QPS_RTS\)/== IBV_QPS_ERR)/
