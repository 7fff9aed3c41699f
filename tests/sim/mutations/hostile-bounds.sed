# SPDX-License-Identifier: BSD-2-Clause
# Forged packets: a range may go past the end of its region.
# file: src/device/mr.c
# with: --hostile --seeds 1..3000
s/^\treturn addr >= mr->iova \&\& length <= mr->length .*$/\treturn addr >= mr->iova \&\& length;/
