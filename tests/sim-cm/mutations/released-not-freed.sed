# SPDX-License-Identifier: BSD-2-Clause
# What is let go stays when it is closed.
# file: src/cm/send.c
/^void cm_close\(/,/^}/s/if \(id->is_released\)/if (false)/
