# SPDX-License-Identifier: BSD-2-Clause
# A freed id is still found by its peer's number.
# file: src/cm/id.c
/^void cm_id_free/,/^}/s/^\tcm_unlist_by_id\(cm, id\);$/\t;/
