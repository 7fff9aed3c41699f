# SPDX-License-Identifier: BSD-2-Clause
# A message may come from any of the peer's connections.
# file: src/cm/receive.c
s/^\treturn id->remote == 0 \|\| id->remote == mad->local_id \? id : NULL;$/\treturn id;/
