# SPDX-License-Identifier: BSD-2-Clause
# That nobody answers is not told.
# file: src/cm/send.c
/case CM_REQ_SENT:$/,/break/s/cm_close_and_tell\(cm, id, CM_EVENT_UNREACHABLE, NULL\)/cm_close(cm, id)/
