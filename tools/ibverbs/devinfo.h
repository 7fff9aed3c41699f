/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_devinfo: devinfo.c finds the devices, devinfo_print.c prints one.
 */
#ifndef IBVERBS_DEVINFO_H
#define IBVERBS_DEVINFO_H

#include <stdbool.h>

#include <infiniband/verbs.h>

/* `port` 0: all of them. 0, or 1 after the error was printed. */
int devinfo_print(struct ibv_device *device, unsigned int port, bool is_verbose);

/* The part of -v about the device itself. */
void devinfo_print_limits(const struct ibv_device_attr_ex *attr);

#endif
