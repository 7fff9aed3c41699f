/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection managers of several processes on several hosts, and between them a network that loses,
 * duplicates, reorders and delays by seed, in virtual time. Programs at random connect, listen,
 * accept, reject, disconnect, let go, wait too long and die; the world holds what each end is told
 * against what may follow what, and in the end both ends of each connection against each other.
 */
#ifndef SIM_CM_WORLD_H
#define SIM_CM_WORLD_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "../sim/rng.h"
#include "cm/cm.h"

enum {
	HOSTS = 2,
	SLOTS = 2, /* processes of a host */
	PROCESSES = HOSTS * SLOTS,
	PAIRS = 24,
	MAX_MESSAGES = 4096,
	MAX_ACTIONS = 4096,
};

#define MS	UINT64_C(1000000)
#define SECOND	(1000 * MS)
#define SERVICE UINT64_C(0x0000000001060000)

struct world;

struct process {
	struct world *world;
	struct cm cm;
	int host;
	uint32_t slot;
	bool is_dead;
	uint64_t died_at;
	bool watches[SLOTS];
};

/* What one end of a connection was told and did. */
struct end {
	struct process *process;
	struct cm_id *id; /* NULL: not there yet, or let go */
	bool is_passive, is_sidr;
	bool began, accepted, established, rejected, disconnected, released, killed;	 /* did */
	unsigned int requests, responses, refused, unreachable, connected, ended, exits; /* told */
	uint64_t connected_at, asked_at, ended_at;
	uint64_t answered_at; /* the peer's DREQ, or lookup */
};

struct pair {
	int number;
	bool is_sidr;
	struct process *listener;
	unsigned int refusals; /* how often the listener is not there yet */
	unsigned int refused;  /* and was not */
	uint32_t qpn;	       /* the active end's */
	struct end active, passive;
};

struct message {
	uint64_t at;
	int from, to; /* hosts */
	uint8_t mad[MAD_BYTES];
};

enum action_type {
	ACT_CONNECT,
	ACT_ANSWER,
	ACT_ESTABLISH,
	ACT_DISCONNECT,
	ACT_RELEASE,
	ACT_KILL,
	ACT_REVIVE,
	ACT_NOTICE_DEATH,
};

struct action {
	uint64_t at;
	enum action_type type;
	struct end *end;
	struct process *process;
};

struct weather {
	uint32_t loss, duplication; /* of ten thousand */
	uint32_t forgeries;	    /* come besides, from a host that is nobody's */
	uint64_t delay;		    /* at most */
	uint64_t calm_at;	    /* from here on all arrives */
};

struct world {
	uint64_t seed, now;
	bool is_verbose;
	struct rng net, program, hosts;
	struct weather weather;
	struct process processes[PROCESSES];
	struct pair pairs[PAIRS];
	int pair_count;
	struct message messages[MAX_MESSAGES];
	int message_count;
	struct action actions[MAX_ACTIONS];
	int action_count;
	bool has_kills;
	uint64_t delivered, established, deaths;
	char failure[256];
	jmp_buf failed;
};

void world_make(struct world *world, uint64_t seed, bool is_verbose);
/* Until nothing is left to happen, or the time is `until`. */
void world_run(struct world *world, uint64_t until);
void world_end(struct world *world);
__attribute__((format(printf, 2, 3), noreturn)) void world_fail(struct world *world,
								const char *format, ...);
__attribute__((format(printf, 2, 3))) void world_note(struct world *world, const char *format, ...);

void world_act(struct world *world, uint64_t after, enum action_type type, struct end *end,
	       struct process *process);
struct cm_path world_path(const struct process *from, int to_host);
/* The kernel has closed its sockets; nothing more is sent. */
void world_kill(struct world *world, struct process *process);
/* Another one takes its slot. */
void world_revive(struct world *world, struct process *process);

/* ---- program.c ---- */

void program_make(struct world *world);
void program_event(struct process *process, struct cm_id *id, const struct cm_event *event);
void program_act(struct world *world, const struct action *action);
/* All still has its ids, and nothing is under way: do both ends of each pair say the same? */
void program_compare(struct world *world);
void program_release_all(struct world *world);

#endif
