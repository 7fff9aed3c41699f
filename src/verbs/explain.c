/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VERBATIM_EXPLAIN=1: each refusal is told on stderr, in one line and one write, with its live
 * values.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "explain/reason.h"
#include "verbs/face.h"

static void tell(const struct reason_text *text, const char *live)
{
	UNCANCELLED;
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
