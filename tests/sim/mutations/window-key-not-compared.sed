# SPDX-License-Identifier: BSD-2-Clause
# Windows: the part of a window's rkey that changes with each binding is not looked at.
# file: src/device/mw.c
s/mw->rkey != rkey/(mw->rkey ^ rkey) \& ~0xfffu/
