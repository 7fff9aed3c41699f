# SPDX-License-Identifier: BSD-2-Clause
# Of ACKs that came together each is for what the first one is for.
# file: src/transport/express_ack.c
# with: --express --seeds 1..1500
s/one\.ack = ack\.ack;/;/
