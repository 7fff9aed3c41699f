/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reasons: why a call or a work request was refused.
 *
 * The check that decides on an error names its reason, with the live values (which QP, which key,
 * which range), and nobody above rewords it. A reason has a number, which completions carry in
 * wc.vendor_err and `verbatim explain N` looks up, and shows at the ABI as an errno or a completion
 * status. The list is reasons.def.
 */
#ifndef EXPLAIN_REASON_H
#define EXPLAIN_REASON_H

#include <stddef.h>

#include <infiniband/verbs.h>

enum reason {
	REASON_NONE = 0,
#define REASON(number, name, shows, line, advice, where) REASON_##name = (number),
#include "explain/reasons.def"
#undef REASON
};

/* How a reason shows at the ABI: an errno of the call, or the status of a completion. */
struct reason_shows {
	int error;		   /* positive errno, 0 where it is a status */
	enum ibv_wc_status status; /* IBV_WC_SUCCESS where it is an errno */
};

struct reason_text {
	enum reason number;
	const char *name;
	struct reason_shows shows;
	const char *line;   /* what happened */
	const char *advice; /* what to do about it */
	const char *where;  /* man page or clause */
};

/* The entry of a number; NULL if there is none. */
const struct reason_text *reason_find(unsigned int number);

/* The first entry after `number`, for walking the list; NULL at the end. */
const struct reason_text *reason_next(unsigned int number);

/*
 * Notes a reason with its live values and returns its errno, positive (EINVAL, say), for the caller
 * to return or to set. A format of NULL has no live values. Any thread; keeps the last one of each
 * thread, see reason_last().
 */
int refuse(enum reason reason, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for a reason that shows as a completion status, which it returns. */
enum ibv_wc_status refuse_wr(enum reason reason, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The calling thread's last reason, and its live values ("" if none). Cleared by reason_clear(). */
enum reason reason_last(const char **live);
void reason_clear(void);

/*
 * Where each refusal is told, besides the return value: the face sets it when VERBATIM_EXPLAIN is
 * on. NULL is nowhere. `sink` may be called from any thread.
 */
typedef void (*reason_sink)(const struct reason_text *text, const char *live);
void reason_set_sink(reason_sink sink);

/* The line that a sink writes, with its newline; cut where `room` ends. Its length. */
size_t reason_format(char *line, size_t room, const struct reason_text *text, const char *live);

#endif
