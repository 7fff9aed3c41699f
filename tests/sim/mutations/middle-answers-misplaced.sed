# SPDX-License-Identifier: BSD-2-Clause
# The short way of the middle of READ responses: placed as if the READ began with this request.
# file: src/transport/middle.c
s/psn_into\(requester->una, wqe->first_psn\) \* qp->mtu/psn_into(requester->una, wqe->first_psn + 1) * qp->mtu/
