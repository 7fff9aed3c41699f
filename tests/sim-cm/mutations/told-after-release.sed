# SPDX-License-Identifier: BSD-2-Clause
# Events go on after the id was let go.
# file: src/cm/send.c
/^void cm_tell/,/^}/s/if \(!id->is_released\)/if (true)/
