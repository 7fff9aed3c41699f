# SPDX-License-Identifier: BSD-2-Clause
# Short SENDs of one batch: what comes after a gap is taken for what is expected.
# with: --plain --seeds 1..2000
# file: src/transport/shorts_take.c
s/bth_psn\(packet->bth\)\);/qp->responder->psn);/
