# SPDX-License-Identifier: BSD-2-Clause
# A record of several packets takes the PSN of one.
# file: src/transport/express_take.c
# with: --express --seeds 1..300
s/^\tlast = psn_add\(.*$/\tlast = express->psn;/
