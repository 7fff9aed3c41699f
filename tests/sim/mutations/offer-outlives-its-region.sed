# SPDX-License-Identifier: BSD-2-Clause
# What lies in a region may still be fetched when that has been deregistered.
# file: src/device/mr.c
# with: --offers --seeds 1..300
s/mr->adapter->host->withdraw_mr\(mr->adapter, mr\);/;/
s/^\tfree\(mr\);$/\t;/
