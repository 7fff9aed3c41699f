# SPDX-License-Identifier: BSD-2-Clause
# A peer that answers is taken for one that does not.
# file: src/cm/peer.c
s/^\tpeer->answers = true;$/\t;/
