# SPDX-License-Identifier: BSD-2-Clause
# A LAP for no connection is not answered.
# file: src/cm/receive.c
s/^\t\tanswer_rej\(cm, path, mad, CM_REJECTED_OTHER, CM_REJ_INVALID_COMM_ID\);$/\t\t;/
