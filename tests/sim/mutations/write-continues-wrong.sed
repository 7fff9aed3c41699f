# SPDX-License-Identifier: BSD-2-Clause
# WRITE: a later packet of a message lands at its beginning.
# file: src/transport/responder_execute.c
s/^\tva = responder->write_va \+ responder->received;$/\tva = responder->write_va;/
