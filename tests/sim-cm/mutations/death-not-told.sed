# SPDX-License-Identifier: BSD-2-Clause
# The connections of a dead peer end in silence.
# file: src/cm/peer.c
/^static void end_all/,/^}/s/^\t\tcm_tell\(.*$/\t\t;/
