# SPDX-License-Identifier: BSD-2-Clause
# The pad is taken for payload.
# file: src/wire/parse.c
s/^\tpacket->payload_length = behind_headers - packet->bth\.pad_count;$/\tpacket->payload_length = behind_headers;/
