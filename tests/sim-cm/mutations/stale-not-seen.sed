# SPDX-License-Identifier: BSD-2-Clause
# A QP that is taken for connected may connect again.
# file: src/cm/receive.c
s/^\tstruct cm_id \*id = mad->req\.qpn \? .*$/\tstruct cm_id *id = NULL;/
