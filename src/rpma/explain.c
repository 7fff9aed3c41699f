/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * This library's refusals, told on stderr when VERBATIM_EXPLAIN is set: in one line and one write,
 * as libibverbs tells its own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "explain/reason.h"

static void tell(const struct reason_text *text, const char *live)
{
	char line[1024];
	int length = snprintf(line, sizeof(line) - 1, "verbatim: %d %s: %s%s%s%s; %s [%s]",
			      text->number, text->name, text->line, *live ? " (" : "", live,
			      *live ? ")" : "", text->advice, text->where);

	if (length < 0)
		return;
	if ((size_t)length > sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)length) < 0)
		return;
}

__attribute__((constructor)) static void explain_init(void)
{
	const char *wanted = getenv("VERBATIM_EXPLAIN");

	if (wanted && *wanted && strcmp(wanted, "0"))
		reason_set_sink(tell);
}
