# SPDX-License-Identifier: BSD-2-Clause
# Each of the packets that a record stands for has the first one's payload.
# file: src/transport/express.c
# with: --express --seeds 1..300
s/sizeof\(\*express\) \+ from;/sizeof(*express);/
