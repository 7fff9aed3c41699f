# SPDX-License-Identifier: BSD-2-Clause
# PSN compare: what comes after a gap is taken for what is expected.
# file: src/transport/responder.c
s/^\tif \(order > 0\)$/\tif (order > 1)/
