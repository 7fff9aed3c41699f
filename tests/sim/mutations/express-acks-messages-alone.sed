# SPDX-License-Identifier: BSD-2-Clause
# An ACK of records goes as far as plain messages do, and what is behind them stays as it is.
# file: src/transport/completer.c
# with: --express --seeds 1..1500
s/requester->una != limit \|\| !requester_is_alive\(qp\)\) \{/!requester_is_alive(qp)) {/
