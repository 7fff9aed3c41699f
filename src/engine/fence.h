/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fence at which all threads of the process stand, for locks that lean to one (base/bias.h).
 */
#ifndef ENGINE_FENCE_H
#define ENGINE_FENCE_H

/* From now on locks may lean, if the kernel has such a fence for us. It takes the kernel
 * milliseconds to prepare for that where the process has several threads. */
void fence_prepare(void);

#endif
