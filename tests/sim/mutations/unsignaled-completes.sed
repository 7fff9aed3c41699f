# SPDX-License-Identifier: BSD-2-Clause
# An unsignaled request completes like a signaled one.
# file: src/transport/completion.c
s/^\tbool is_told = .*$/\tbool is_told = true;/
