/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * This library's refusals, told on stderr when VERBATIM_EXPLAIN is set: in one line and one write,
 * as libibverbs tells its own.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "explain/reason.h"

static void tell(const struct reason_text *text, const char *live)
{
	char line[1024];
	size_t length = reason_format(line, sizeof(line), text, live);

	/* Nothing can be done about a stderr that does not take it. */
	if (write(STDERR_FILENO, line, length) < 0)
		return;
}

__attribute__((constructor)) static void explain_init(void)
{
	const char *wanted = getenv("VERBATIM_EXPLAIN");

	if (wanted && *wanted && strcmp(wanted, "0"))
		reason_set_sink(tell);
}
