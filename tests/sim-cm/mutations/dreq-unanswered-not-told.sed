# SPDX-License-Identifier: BSD-2-Clause
# A DREQ that nobody answers ends nothing.
# file: src/cm/send.c
/case CM_DREQ_SENT:$/,/break/s/^\t\tcm_tell\(.*$/\t\t;/
