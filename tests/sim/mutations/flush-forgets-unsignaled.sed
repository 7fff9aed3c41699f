# SPDX-License-Identifier: BSD-2-Clause
# An unsignaled request that is flushed is not reported.
# file: src/transport/completion.c
s/^\tbool is_told = .*$/\tbool is_told = wqe->flags \& IBV_SEND_SIGNALED;/
