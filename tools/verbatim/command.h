/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The subcommands of `verbatim`, one file each, and what they share. A subcommand gets its own
 * name as argv[0] and returns the exit status of the program.
 */
#ifndef VERBATIM_COMMAND_H
#define VERBATIM_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

/* Exit statuses as a shell and env(1) have them. */
enum {
	EXIT_OWN_FAULT = 125, /* verbatim itself could not go on */
	EXIT_NOT_RUN = 126,   /* found, but not executable */
	EXIT_NOT_FOUND = 127,
};

int command_run(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_explain(int argc, char **argv);
int command_counters(int argc, char **argv);
int command_bench(int argc, char **argv);

/*
 * The directory that holds our libraries, seen from where this program lies: the build tree's, or
 * the installed one. 0, or -errno with `dir` being the place where they should have been.
 */
int where_libraries(char *dir, size_t size);

/* program.c: where the program is, as execvp() looks for it; false if it is nowhere. */
bool program_find(const char *program, char *path, size_t size);

/* Why Verbatim's libraries will not reach this program; NULL if they will, or if that cannot be
 * told. */
const char *program_obstacle(const char *program);

#define LIBRARY_VERBS	"libibverbs.so.1"
#define LIBRARY_PATHS	"libverbatim-paths.so"
#define LIBRARY_SOCKETS "libverbatim-sockets.so"

#endif
