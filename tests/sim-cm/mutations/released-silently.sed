# SPDX-License-Identifier: BSD-2-Clause
# Who lets go of a connection does not say so.
# file: src/cm/send.c
/^void cm_release/,/^}/s/^\t\tcm_send_dreq\(cm, id, now\);$/\t\tcm_close(cm, id);/
