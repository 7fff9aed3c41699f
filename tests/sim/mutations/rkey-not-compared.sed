# SPDX-License-Identifier: BSD-2-Clause
# Keys: the random part of an rkey is not looked at.
# file: src/device/mr.c
s/(mr|\(\*mr\))->rkey != rkey\)$/false)/
