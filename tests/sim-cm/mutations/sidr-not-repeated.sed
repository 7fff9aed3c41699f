# SPDX-License-Identifier: BSD-2-Clause
# A lookup whose answer got lost is not answered again.
# file: src/cm/receive.c
/^static void receive_sidr_req/,/^}/s/cm_repeat_rejection\(cm, id, now\);/;/
