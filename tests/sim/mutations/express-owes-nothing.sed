# SPDX-License-Identifier: BSD-2-Clause
# A message that came as a record is not acknowledged.
# file: src/transport/express_take.c
# with: --express --seeds 1..300
s/^\tresponder->is_owed = true;$//
