# SPDX-License-Identifier: BSD-2-Clause
# Windows: a binding is carried out again when sending goes back before it.
# file: src/transport/request.c
s/WQE_STARTED \| WQE_DONE/WQE_DONE/
