# SPDX-License-Identifier: BSD-2-Clause
# Windows: one byte past the window is within it.
# file: src/device/mw.c
s/addr - mw->iova > mw->length - length/addr - mw->iova > mw->length - length + 1/
