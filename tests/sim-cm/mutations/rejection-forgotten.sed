# SPDX-License-Identifier: BSD-2-Clause
# A rejection is not remembered.
# file: src/cm/send.c
s/^#define REJECTED .*$/#define REJECTED 0/
