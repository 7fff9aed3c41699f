# SPDX-License-Identifier: BSD-2-Clause
# A freed id keeps its deadline.
# file: src/cm/id.c
s/^\ttimer_cancel\(&cm->timers, &id->timer\);$/\t;/
