# SPDX-License-Identifier: BSD-2-Clause
# Nothing is sent again.
# file: src/cm/send.c
/^static void due/,/^}/s/^\tcm_resend\(cm, id\);$/\t;/
