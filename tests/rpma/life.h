/* SPDX-License-Identifier: BSD-2-Clause */
/* A life that uses every part of librpma once, for tests that disturb it. */
#ifndef RPMA_LIFE_H
#define RPMA_LIFE_H

/* 0, or the code of the first call that failed; nothing is left either way. */
int life_lead(void);

#endif
