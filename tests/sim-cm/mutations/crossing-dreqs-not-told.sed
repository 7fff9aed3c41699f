# SPDX-License-Identifier: BSD-2-Clause
# When both disconnect, neither is told.
# file: src/cm/receive.c
/both at once/,/break/s/^\t\tcm_tell\(.*$/\t\t;/
