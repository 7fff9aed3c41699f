# SPDX-License-Identifier: BSD-2-Clause
# Each piece goes to where the first one was.
# file: src/transport/fetch.c
# with: --offers --seeds 1..300
s/responder->received \+ fetch->done,/responder->received,/
