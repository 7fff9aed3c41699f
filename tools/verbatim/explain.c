/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim explain: what a reason means. The number is what a completion carries in vendor_err and
 * what VERBATIM_EXPLAIN=1 prints; the texts are those of the library's own list.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "explain/reason.h"
#include "command.h"

static const char *const status_names[] = {
    [IBV_WC_LOC_LEN_ERR] = "IBV_WC_LOC_LEN_ERR",
    [IBV_WC_LOC_QP_OP_ERR] = "IBV_WC_LOC_QP_OP_ERR",
    [IBV_WC_LOC_EEC_OP_ERR] = "IBV_WC_LOC_EEC_OP_ERR",
    [IBV_WC_LOC_PROT_ERR] = "IBV_WC_LOC_PROT_ERR",
    [IBV_WC_WR_FLUSH_ERR] = "IBV_WC_WR_FLUSH_ERR",
    [IBV_WC_MW_BIND_ERR] = "IBV_WC_MW_BIND_ERR",
    [IBV_WC_BAD_RESP_ERR] = "IBV_WC_BAD_RESP_ERR",
    [IBV_WC_LOC_ACCESS_ERR] = "IBV_WC_LOC_ACCESS_ERR",
    [IBV_WC_REM_INV_REQ_ERR] = "IBV_WC_REM_INV_REQ_ERR",
    [IBV_WC_REM_ACCESS_ERR] = "IBV_WC_REM_ACCESS_ERR",
    [IBV_WC_REM_OP_ERR] = "IBV_WC_REM_OP_ERR",
    [IBV_WC_RETRY_EXC_ERR] = "IBV_WC_RETRY_EXC_ERR",
    [IBV_WC_RNR_RETRY_EXC_ERR] = "IBV_WC_RNR_RETRY_EXC_ERR",
    [IBV_WC_LOC_RDD_VIOL_ERR] = "IBV_WC_LOC_RDD_VIOL_ERR",
    [IBV_WC_REM_INV_RD_REQ_ERR] = "IBV_WC_REM_INV_RD_REQ_ERR",
    [IBV_WC_REM_ABORT_ERR] = "IBV_WC_REM_ABORT_ERR",
    [IBV_WC_INV_EECN_ERR] = "IBV_WC_INV_EECN_ERR",
    [IBV_WC_INV_EEC_STATE_ERR] = "IBV_WC_INV_EEC_STATE_ERR",
    [IBV_WC_FATAL_ERR] = "IBV_WC_FATAL_ERR",
    [IBV_WC_RESP_TIMEOUT_ERR] = "IBV_WC_RESP_TIMEOUT_ERR",
    [IBV_WC_GENERAL_ERR] = "IBV_WC_GENERAL_ERR",
    [IBV_WC_TM_ERR] = "IBV_WC_TM_ERR",
    [IBV_WC_TM_RNDV_INCOMPLETE] = "IBV_WC_TM_RNDV_INCOMPLETE",
};

static const char *shows_as(const struct reason_text *reason)
{
	const char *name = NULL;

	if (reason->shows.error)
		name = strerrorname_np(reason->shows.error);
	else if ((size_t)reason->shows.status < sizeof(status_names) / sizeof(status_names[0]))
		name = status_names[reason->shows.status];
	return name ? name : "an error without a name";
}

static void print_one(const struct reason_text *reason)
{
	printf("%u %s\n"
	       "  What happened:  %s.\n"
	       "  Advice:         %s.\n"
	       "  The program got %s%s%s.\n"
	       "  See             %s\n",
	       (unsigned int)reason->number, reason->name, reason->line, reason->advice,
	       shows_as(reason), reason->shows.error ? ": " : " in wc.status",
	       reason->shows.error ? strerror(reason->shows.error) : "", reason->where);
}

static int print_all(void)
{
	const struct reason_text *reason = NULL;

	while ((reason = reason_next(reason ? reason->number : 0)))
		printf("%3u  %-28s  %s\n", (unsigned int)reason->number, reason->name,
		       reason->line);
	return 0;
}

static const struct reason_text *find_name(const char *name)
{
	const struct reason_text *reason = NULL;

	if (!strncasecmp(name, "REASON_", 7))
		name += 7;
	while ((reason = reason_next(reason ? reason->number : 0)))
		if (!strcasecmp(reason->name, name))
			return reason;
	return NULL;
}

/* A number in the notations that logs have: 612 and 0x264 (vendor_err is often printed in hex). */
static bool parse_number(const char *text, unsigned int *number)
{
	char *end;
	unsigned long value;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	value = strtoul(text, &end, !strncasecmp(text, "0x", 2) ? 16 : 10);
	if (*end)
		return false;
	*number = errno || value > 0xffffffffUL ? 0 : (unsigned int)value;
	return true;
}

static int explain_one(const char *what)
{
	const struct reason_text *reason;
	unsigned int number;

	reason = parse_number(what, &number) ? reason_find(number) : find_name(what);
	if (!reason) {
		fprintf(stderr,
			"verbatim explain: there is no reason '%s'; `verbatim explain` lists "
			"them all\n",
			what);
		return 1;
	}
	print_one(reason);
	return 0;
}

int command_explain(int argc, char **argv)
{
	int rc = 0;

	if (argc == 2 && (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help"))) {
		puts("Usage: verbatim explain [NUMBER|NAME...]\n"
		     "Says what the reason of a refusal means; without one, lists all.\n"
		     "The number is wc.vendor_err, or what VERBATIM_EXPLAIN=1 prints.");
		return 0;
	}
	if (argc == 1)
		return print_all();
	for (int i = 1; i < argc; i++)
		rc |= explain_one(argv[i]);
	return rc;
}
