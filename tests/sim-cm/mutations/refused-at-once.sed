# SPDX-License-Identifier: BSD-2-Clause
# Nobody listens yet, and the program is told at once.
# file: src/cm/receive.c
/^static bool is_tried_again/,/^}/s/id->refusals == CM_REFUSALS/id->refusals < CM_REFUSALS/
