# SPDX-License-Identifier: BSD-2-Clause
# Access rights of a region are not looked at.
# file: src/device/mr.c
s/^\tif \(need \& ~mr->access\)$/\tif (false)/
