# SPDX-License-Identifier: BSD-2-Clause
# The end of the time-wait is not told.
# file: src/cm/send.c
/^static void due/,/^}/s/^\t\tif \(tells_exit\)$/\t\tif (false)/
