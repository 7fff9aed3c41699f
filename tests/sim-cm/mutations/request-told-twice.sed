# SPDX-License-Identifier: BSD-2-Clause
# A request that comes again is a new one.
# file: src/cm/receive.c
s/^\tif \(id && id->transaction != mad->transaction\) \{$/\tif (id) {/
