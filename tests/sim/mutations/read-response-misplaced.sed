# SPDX-License-Identifier: BSD-2-Clause
# READ responses: data of a later response go where the first went.
# file: src/transport/completer.c
s/psn_into\(requester->una, wqe->first_psn\) \* qp->mtu/(psn_into(requester->una, wqe->first_psn) \& 3) * qp->mtu/
