# SPDX-License-Identifier: BSD-2-Clause
# Only one connection of a dead peer ends.
# file: src/cm/peer.c
/^static void end_all/,/^}/s/while \(has_ids\(peer\)\)/if (has_ids(peer))/
