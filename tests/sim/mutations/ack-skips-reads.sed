# SPDX-License-Identifier: BSD-2-Clause
# ACK coverage: an ACK behind a READ completes it without its data.
# file: src/transport/completer.c
s/^\t\tis_whole = !is_answered\(wqe->opcode\);$/\t\tis_whole = wqe->opcode != IBV_WR_ATOMIC_CMP_AND_SWP;/
