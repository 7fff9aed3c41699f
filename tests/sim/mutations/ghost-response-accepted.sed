# SPDX-License-Identifier: BSD-2-Clause
# A response to nothing outstanding is taken for one to what is.
# file: src/transport/completer.c
s/^\tif \(psn_into\(wire->bth\.psn, requester->una\) >= psn_into\(requester->end, requester->una\)\)$/\tif (false)/
