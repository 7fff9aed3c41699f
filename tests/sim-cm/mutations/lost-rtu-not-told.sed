# SPDX-License-Identifier: BSD-2-Clause
# A DREQ in place of the RTU does not say that it was connected.
# file: src/cm/receive.c
s/^\t\tif \(!was_connected\)$/\t\tif (false)/
