# SPDX-License-Identifier: BSD-2-Clause
# Who is connected and rejected is not told.
# file: src/cm/receive.c
/case CM_ESTABLISHED:$/,/break/s/^\t\tcm_tell\(.*$/\t\t;/
