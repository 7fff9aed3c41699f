# SPDX-License-Identifier: BSD-2-Clause
# An answer that finds the outbox full counts as sent.
# file: src/transport/response.c
/^	if \(!packet_open\(outbox, \&qp->av, \&wire\)\)$/{n;s/return false;/return true;/}
