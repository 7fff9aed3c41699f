# SPDX-License-Identifier: BSD-2-Clause
# The length of a message counts its last packet alone.
# file: src/transport/responder_execute.c
s/^\t    \.byte_len = responder->received,$/\t    .byte_len = wire->payload_length,/
