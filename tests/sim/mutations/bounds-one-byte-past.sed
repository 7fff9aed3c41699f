# SPDX-License-Identifier: BSD-2-Clause
# Bounds: one byte past the end is let through.
# file: src/device/mr.c
# with: --seeds 1..6000
s/addr - mr->iova <= mr->length - length;/addr - mr->iova <= mr->length - length + 1;/
