# SPDX-License-Identifier: BSD-2-Clause
# Fence: a fenced request does not wait for READs before it.
# file: src/transport/requester.c
s/^\treturn !\(wqe->flags \& IBV_SEND_FENCE\) .*$/\treturn true;/
