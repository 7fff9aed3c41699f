/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim: the one command beside the libraries. This file finds the subcommand; each has a file
 * of its own.
 */
#include <stdio.h>
#include <string.h>

#include "command.h"

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
};

static int command_help(int argc, char **argv);
static int command_version(int argc, char **argv);

static const struct command commands[] = {
    {"run", command_run, "run [OPTIONS] [--] PROGRAM [ARGS...]   start a program on Verbatim"},
    {"doctor", command_doctor,
     "doctor [--json]                        say what works here, and why not"},
    {"explain", command_explain, "explain [NUMBER|NAME]                  say what a reason means"},
    {"counters", command_counters,
     "counters [PID...]                      what connection managers here have counted"},
    {"bench", command_bench,
     "bench [OPTIONS]                        measure RDMA on this machine, next to its peers"},
    {"help", command_help, "help                                   this text"},
    {"version", command_version, NULL},
    {"--help", command_help, NULL},
    {"-h", command_help, NULL},
    {"--version", command_version, NULL},
    {"-V", command_version, NULL},
};

static void usage(FILE *out)
{
	fputs("verbatim: RDMA verbs on any machine, over its ordinary network.\n\nUsage:\n", out);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (commands[i].summary)
			fprintf(out, "  verbatim %s\n", commands[i].summary);
	fputs("  verbatim --version                            print the version\n"
	      "\nThe manual: man verbatim\n",
	      out);
}

static int command_help(int argc, char **argv)
{
	(void)argc, (void)argv;
	usage(stdout);
	return 0;
}

static int command_version(int argc, char **argv)
{
	(void)argc, (void)argv;
	puts("verbatim " VERBATIM_VERSION);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		usage(stderr);
		return EXIT_OWN_FAULT;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	fprintf(stderr, "verbatim: there is no command '%s'; see `verbatim help`\n", argv[1]);
	return EXIT_OWN_FAULT;
}
