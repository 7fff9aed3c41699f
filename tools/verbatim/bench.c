/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim bench: what RDMA does on this machine. The measuring is a script's, which lies beside
 * the libraries; it is told where that is and what this command is called.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

int command_bench(int argc, char **argv)
{
	char libraries[PATH_MAX], folder[PATH_MAX + 8], script[PATH_MAX + 16], self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int rc = where_libraries(libraries, sizeof(libraries));

	if (length < 0 || rc < 0) {
		fprintf(stderr, "verbatim bench: no libraries in %s: %s\n", libraries,
			strerror(length < 0 ? errno : -rc));
		return EXIT_OWN_FAULT;
	}
	self[length] = '\0';
	snprintf(folder, sizeof(folder), "%s/bench", libraries);
	snprintf(script, sizeof(script), "%s/bench", folder);
	setenv("VERBATIM_BENCH", folder, 1);
	setenv("VERBATIM_COMMAND", self, 1);
	setenv("PYTHONDONTWRITEBYTECODE", "1", 0);
	argv[0] = script;
	execv(script, argv);
	rc = errno;
	fprintf(stderr, "verbatim bench: %s: %s%s\n", script, strerror(rc),
		access(script, F_OK) ? "" : " (it needs python3)");
	return rc == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN;
}
