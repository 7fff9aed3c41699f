/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim doctor: doctor.c looks at the devices and their port, doctor_host.c at the machine, and
 * doctor_print.c tells what was found, to people or as JSON.
 */
#ifndef VERBATIM_DOCTOR_H
#define VERBATIM_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "engine/engine.h"

/* UDP port 4791 of an address. */
enum port_use {
	PORT_FREE,
	PORT_SHARED, /* by Verbatim processes of this user, which is how it should be */
	PORT_TAKEN,
};

struct doctor_address {
	union ibv_gid gid;
	enum port_use use;
	char holder[256]; /* who has the port */
};

struct doctor_device {
	struct device_info info;
	uint64_t speed_mbps;
	struct doctor_address *addresses; /* in the order of the GID table */
	int count;
	unsigned int reason; /* why it cannot be opened, 0 if it can */
	char live[256];	     /* and the values */
};

struct doctor_host {
	char kernel[128];
	unsigned int uid;
	long rmem_max, wmem_max;      /* bytes, -1: not to be seen */
	int rcvbuf_asked, rcvbuf_got; /* bytes of payload and overhead, as the kernel counts */
	int sndbuf_got;
	bool has_gso, has_gro, has_ipv6, has_rxe;
	int ptrace_scope;     /* Yama's, -1 without Yama */
	uint64_t memlock;     /* bytes, UINT64_MAX: no limit */
	uint64_t descriptors; /* limit of open files */
};

/* Something to be told beyond the tables. */
enum finding_level {
	FINDING_NOTE,	 /* could be better */
	FINDING_PROBLEM, /* does not work */
};

struct finding {
	enum finding_level level;
	char what[384], advice[384];
};

enum { MAX_FINDINGS = 64 };

struct doctor {
	struct doctor_device *devices;
	int device_count;
	struct doctor_host host;
	struct finding findings[MAX_FINDINGS];
	int finding_count;
	bool is_usable;
};

/* `advice` may be "". */
void doctor_find(struct doctor *doctor, enum finding_level level, const char *advice,
		 const char *format, ...) __attribute__((format(printf, 4, 5)));

void doctor_look_at_host(struct doctor *doctor);

/* Why there is no device: a finding for each interface. */
void doctor_explain_no_device(struct doctor *doctor);

void doctor_print(const struct doctor *doctor);
void doctor_print_json(const struct doctor *doctor);

#endif
