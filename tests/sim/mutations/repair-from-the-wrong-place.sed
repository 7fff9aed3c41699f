# SPDX-License-Identifier: BSD-2-Clause
# What is lost goes again with the PSN of the packet behind it.
# file: src/transport/request.c
s/^(\trequester->psn = psn);/\1_next(psn);/
