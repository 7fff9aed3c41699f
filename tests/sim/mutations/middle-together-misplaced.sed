# SPDX-License-Identifier: BSD-2-Clause
# The short way of the middle of a WRITE: of those that come together each gets the payload of the first.
# file: src/transport/middle.c
s/^\t\tfrom \+= stride;$/\t\tfrom += 0;/
