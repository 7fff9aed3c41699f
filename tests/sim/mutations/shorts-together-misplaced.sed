# SPDX-License-Identifier: BSD-2-Clause
# Short SENDs of one batch: of those that come together each gets the payload of the first.
# file: src/transport/shorts_take.c
s/from \+= row->packet->stride/from += 0/
