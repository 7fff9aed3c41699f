# SPDX-License-Identifier: BSD-2-Clause
# A completion does not wake an armed CQ if there is another one already.
# file: src/device/cq.c
s/^\tbool is_wanted = cq->arm == CQ_ARMED_NEXT \|\|$/\tbool is_wanted = (cq->arm == CQ_ARMED_NEXT \&\& count_locked(cq) > 1) ||/
