# SPDX-License-Identifier: BSD-2-Clause
# Duplicate atomics: the saved answer is somebody else's.
# file: src/transport/responder_resource.c
s/^\t\tjob\.original = saved->original;$/\t\tjob.original = responder->saved[0].original;/
