/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options of the pingpong programs: one table, of which each takes a part.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pingpong.h"

static const struct pp_option {
	char letter;
	const char *name, *argument, *text;
} table[] = {
    {'p', "port", "<port>", "listen on/connect to port <port> (default 18515)"},
    {'d', "ib-dev", "<dev>", "use IB device <dev> (default first device found)"},
    {'i', "ib-port", "<port>", "use port <port> of IB device (default 1)"},
    {'s', "size", "<size>", "size of message to exchange (default %u)"},
    {'m', "mtu", "<size>", "path MTU (default 1024)"},
    {'q', "num-qp", "<num>", "number of QPs to use (default 16)"},
    {'r', "rx-depth", "<dep>", "number of receives to post at a time (default 500)"},
    {'n', "iters", "<iters>", "number of exchanges (default 1000)"},
    {'l', "sl", "<sl>", "service level value"},
    {'e', "events", NULL, "sleep on CQ events (default poll)"},
    {'g', "gid-idx", "<gid index>", "local port gid index"},
    {'o', "odp", NULL, "use on demand paging"},
    {'O', "iodp", NULL, "use implicit on demand paging"},
    {'P', "prefetch", NULL, "prefetch an ODP MR"},
    {'t', "ts", NULL, "get CQE with timestamp"},
    {'c', "chk", NULL, "validate received buffer"},
    {'j', "dm", NULL, "use device memory"},
    {'N', "new_send", NULL, "use new post send WR API"},
};

enum { OPTIONS = sizeof(table) / sizeof(table[0]) };

/* These go before those of the same letter with ibv_xsrq_pingpong. */
static const struct pp_option xrc_table[] = {
    {'c', "clients", "<n>", "number of clients (on server only, default 1)"},
    {'n', "num_tests", "<n>", "number of tests per client (default 5)"},
};

static bool is_xrc(const struct pp_kind *kind)
{
	return kind->type == IBV_QPT_XRC_SEND;
}

static const struct pp_option *find_option(const struct pp_kind *kind, char letter)
{
	for (size_t i = 0; is_xrc(kind) && i < sizeof(xrc_table) / sizeof(xrc_table[0]); i++)
		if (xrc_table[i].letter == letter)
			return &xrc_table[i];
	for (int i = 0; i < OPTIONS; i++)
		if (table[i].letter == letter)
			return &table[i];
	return NULL;
}

static void usage(const struct pp_kind *kind, const char *program)
{
	printf("Usage:\n"
	       "  %s            start a server and wait for connection\n"
	       "  %s <host>     connect to server at <host>\n\nOptions:\n",
	       program, program);
	for (const char *letter = kind->letters; *letter; letter++) {
		const struct pp_option *option = find_option(kind, *letter);
		char left[40];

		snprintf(left, sizeof(left), "-%c, --%s%s%s", option->letter, option->name,
			 option->argument ? "=" : "", option->argument ? option->argument : "");
		printf("  %-22s ", left);
		printf(option->text, kind->default_size);
		putchar('\n');
	}
}

enum ibv_mtu pp_mtu(long size)
{
	for (enum ibv_mtu mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++)
		if (size == 128L << mtu)
			return mtu;
	return 0;
}

static bool number(const char *text, long low, long high, int *value)
{
	char *end;
	long read = strtol(text, &end, 0);

	*value = (int)read;
	return end != text && !*end && read >= low && read <= high;
}

static bool take(struct pp_options *options, int letter, const char *text)
{
	char *end;
	int mtu;

	switch (letter) {
	case 'p':
		return number(text, 0, 65535, &options->tcp_port);
	case 'd':
		options->device = text;
		return true;
	case 'i':
		return number(text, 1, 255, &options->ib_port);
	case 's':
		options->size = (uint32_t)strtoul(text, &end, 0);
		return end != text && !*end;
	case 'm':
		options->mtu = number(text, 256, 4096, &mtu) ? pp_mtu(mtu) : 0;
		return options->mtu != 0;
	case 'q':
		return number(text, 1, 1 << 20, &options->num_qp);
	case 'r':
		return number(text, 1, 1 << 24, &options->rx_depth);
	case 'n':
		return number(text, 0, 0x7fffffff, &options->iters);
	case 'l':
		return number(text, 0, 15, &options->sl);
	case 'g':
		return number(text, -1, 65535, &options->gid_index);
	case 'e':
		return options->events = true;
	case 'o':
		return options->odp = true;
	case 'O':
		return options->odp = options->implicit_odp = true;
	case 'P':
		return options->prefetch = true;
	case 't':
		return options->timestamps = true;
	case 'c': /* a number of clients with XRC alone */
		if (text)
			return number(text, 1, PP_MAX_QPS, &options->clients);
		return options->check = true;
	case 'j':
		return options->device_memory = true;
	case 'N':
		return options->new_send = true;
	}
	return false;
}

static void set_defaults(const struct pp_kind *kind, const char *program,
			 struct pp_options *options)
{
	*options = (struct pp_options){
	    .program = program,
	    .tcp_port = 18515,
	    .ib_port = 1,
	    .size = kind->default_size,
	    .mtu = IBV_MTU_1024,
	    .num_qp = kind->has_srq ? 16 : 1,
	    .rx_depth = 500,
	    .iters = is_xrc(kind) ? 5 : 1000,
	    .clients = 1,
	    .gid_index = -1,
	};
}

int pp_parse(const struct pp_kind *kind, int argc, char **argv, struct pp_options *options)
{
	struct option longs[OPTIONS + 1] = {0};
	char shorts[2 * OPTIONS + 1] = "";
	int letter, n = 0;

	set_defaults(kind, argv[0], options);
	for (const char *l = kind->letters; *l; l++) {
		const struct pp_option *option = find_option(kind, *l);

		longs[n++] = (struct option){option->name, option->argument != NULL, NULL, *l};
		strncat(shorts, l, 1);
		if (option->argument)
			strcat(shorts, ":");
	}
	while ((letter = getopt_long(argc, argv, shorts, longs, NULL)) != -1)
		if (!take(options, letter, optarg)) {
			usage(kind, argv[0]);
			return 1;
		}
	if (optind < argc - 1) {
		usage(kind, argv[0]);
		return 1;
	}
	options->server = optind == argc - 1 ? argv[optind] : NULL;
	if (options->device_memory && options->odp) {
		fprintf(stderr, "DM memory region can't be on demand\n");
		return 1;
	}
	if (options->prefetch && !options->odp) {
		fprintf(stderr, "prefetch is valid only with on-demand memory region\n");
		return 1;
	}
	if (options->num_qp > PP_MAX_QPS) {
		fprintf(stderr, "num_qp %d must be less than %d\n", options->num_qp,
			PP_MAX_QPS + 1);
		return 1;
	}
	if (kind->has_srq && options->num_qp > options->rx_depth) {
		fprintf(stderr,
			"rx_depth %d is too small for %d QPs -- must have at least one receive per "
			"QP.\n",
			options->rx_depth, options->num_qp);
		return 1;
	}
	return 0;
}
