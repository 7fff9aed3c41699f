# SPDX-License-Identifier: BSD-2-Clause
# PSN compare: as plain numbers, wrong where the 24 bits go round.
# file: src/transport/responder.c
s/int32_t order = psn_compare\(arrival->wire->bth\.psn, responder->psn\);/int32_t order = (int32_t)arrival->wire->bth.psn - (int32_t)responder->psn;/
