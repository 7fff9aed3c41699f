# SPDX-License-Identifier: BSD-2-Clause
# Duplicate atomics: one result fewer is kept than may be under way.
# file: src/transport/responder_resource.c
s/^\tresponder->saved_next = .*$/\tresponder->saved_next = (responder->saved_next + 1) % (responder->saved_room > 1 ? responder->saved_room - 1 : 1);/
