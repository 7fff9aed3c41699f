/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim run: start a program with our libraries in front of the system's. All of it is
 * environment (LD_LIBRARY_PATH for the libraries, LD_PRELOAD for the view of /sys and /dev), so it
 * is inherited by whatever the program starts, and the program itself replaces this process:
 * signals, exit status and process id are its own.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

static void usage(FILE *out)
{
	fputs("Usage: verbatim run [OPTIONS] [--] PROGRAM [ARGS...]\n"
	      "\n"
	      "  --devices NAME=IFACE[,...]  these devices, on these interfaces, and no others\n"
	      "  --prefix NAME               devices are called NAME0, NAME1 ... (default rxe)\n"
	      "  --sockets                   TCP sockets go over RDMA, where the other side runs "
	      "so too\n"
	      "  --explain                   say on stderr why something is refused\n"
	      "  -h, --help                  this text\n"
	      "\n"
	      "Exit status: the program's; 125 if Verbatim itself cannot start it,\n"
	      "126 if it is not executable, 127 if it is not found.\n",
	      out);
}

/*
 * Puts `entry` in front of the list that the variable holds, once: nested runs must not make it
 * grow. Separators are those of the variable; ld.so takes both colons and spaces in LD_PRELOAD.
 */
static int put_in_front(const char *variable, const char *entry, const char *separators)
{
	const char *old = getenv(variable);
	size_t room = strlen(entry) + (old ? strlen(old) : 0) + 2, used;
	char *list = malloc(room), *copy = strdup(old ? old : ""), *rest = copy, *item;
	int rc = -ENOMEM;

	if (!list || !copy)
		goto out;
	used = (size_t)sprintf(list, "%s", entry);
	while ((item = strsep(&rest, separators)))
		if (*item && strcmp(item, entry))
			used += (size_t)sprintf(list + used, ":%s", item);
	rc = setenv(variable, list, 1) ? -errno : 0;
out:
	free(copy);
	free(list);
	return rc;
}

static bool has_any(const char *text, const char *characters)
{
	return text[strcspn(text, characters)] != '\0';
}

static int set_environment(bool has_sockets)
{
	char dir[PATH_MAX], shim[PATH_MAX + sizeof(LIBRARY_SOCKETS) + 1];
	int rc = where_libraries(dir, sizeof(dir));

	if (rc) {
		fprintf(stderr,
			"verbatim run: no " LIBRARY_VERBS " and " LIBRARY_PATHS " in %s: %s%s\n",
			dir, strerror(-rc),
			rc == -EACCES ? " (every directory above must be open to this user)" : "");
		return EXIT_OWN_FAULT;
	}
	if (has_any(dir, ": ;$")) {
		fprintf(
		    stderr,
		    "verbatim run: the libraries lie in '%s', and ld.so cannot take a path with a "
		    "space, colon, semicolon or dollar: move them, or use a symbolic link\n",
		    dir);
		return EXIT_OWN_FAULT;
	}
	snprintf(shim, sizeof(shim), "%s/" LIBRARY_PATHS, dir);
	rc = put_in_front("LD_LIBRARY_PATH", dir, ":;");
	if (!rc)
		rc = put_in_front("LD_PRELOAD", shim, ": ");
	snprintf(shim, sizeof(shim), "%s/" LIBRARY_SOCKETS, dir);
	if (!rc && has_sockets)
		rc = put_in_front("LD_PRELOAD", shim, ": ");
	if (rc) {
		fprintf(stderr, "verbatim run: cannot set the environment: %s\n", strerror(-rc));
		return EXIT_OWN_FAULT;
	}
	return 0;
}

/* NAME=IFACE, one or more with commas between. */
static bool is_device_list(const char *list)
{
	while (*list) {
		size_t length = strcspn(list, ","), name = strcspn(list, "=,");

		if (name == 0 || name + 1 >= length || list[name] != '=')
			return false;
		list += length;
		if (*list == ',' && !*++list)
			return false;
	}
	return true;
}

static int start(char **argv)
{
	const char *obstacle = program_obstacle(argv[0]);
	char path[PATH_MAX];
	int error;

	if (obstacle)
		fprintf(stderr, "verbatim run: note: %s %s\n", argv[0], obstacle);
	execvp(argv[0], argv);
	error = errno;
	/* It is EACCES also when nothing but a directory of PATH is closed to this user. */
	if (error == EACCES && !program_find(argv[0], path, sizeof(path)))
		error = ENOENT;
	if (error == ENOENT && strchr(argv[0], '/') && !access(argv[0], F_OK)) {
		fprintf(stderr,
			"verbatim run: %s: its interpreter (the #! line, or the loader of the "
			"binary) does not exist\n",
			argv[0]);
		return EXIT_NOT_RUN;
	}
	if (error == ENOENT || error == ENOTDIR) {
		fprintf(stderr, "verbatim run: %s: %s\n", argv[0],
			strchr(argv[0], '/') ? strerror(error) : "not found in PATH");
		return EXIT_NOT_FOUND;
	}
	fprintf(stderr, "verbatim run: %s: cannot be executed: %s\n", argv[0], strerror(error));
	return EXIT_NOT_RUN;
}

int command_run(int argc, char **argv)
{
	static const struct option options[] = {
	    {"devices", required_argument, NULL, 'd'}, {"prefix", required_argument, NULL, 'p'},
	    {"sockets", no_argument, NULL, 's'},       {"explain", no_argument, NULL, 'e'},
	    {"help", no_argument, NULL, 'h'},	       {NULL, 0, NULL, 0},
	};
	bool has_sockets = false;
	int option, rc;

	while ((option = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
		switch (option) {
		case 'd':
			if (!*optarg || !is_device_list(optarg)) {
				fprintf(stderr,
					"verbatim run: --devices wants NAME=IFACE[,NAME=IFACE...], "
					"not '%s'\n",
					optarg);
				return EXIT_OWN_FAULT;
			}
			setenv("VERBATIM_DEVICES", optarg, 1);
			break;
		case 'p':
			if (!*optarg || strlen(optarg) > 32 || has_any(optarg, "/=, ")) {
				fprintf(stderr,
					"verbatim run: '%s' is no prefix for a device's name\n",
					optarg);
				return EXIT_OWN_FAULT;
			}
			setenv("VERBATIM_PREFIX", optarg, 1);
			break;
		case 's':
			has_sockets = true;
			break;
		case 'e':
			setenv("VERBATIM_EXPLAIN", "1", 1);
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return EXIT_OWN_FAULT;
		}
	}
	if (optind >= argc) {
		fputs("verbatim run: which program?\n", stderr);
		usage(stderr);
		return EXIT_OWN_FAULT;
	}
	rc = set_environment(has_sockets);
	return rc ? rc : start(argv + optind);
}
