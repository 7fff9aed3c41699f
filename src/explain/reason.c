/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The list of reasons, and the note that each thread keeps of its last one.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

#include "explain/reason.h"

#define ERRNO(e)                                                                                   \
	{                                                                                          \
		.error = (e), .status = IBV_WC_SUCCESS                                             \
	}
#define STATUS(s)                                                                                  \
	{                                                                                          \
		.error = 0, .status = (s)                                                          \
	}

static const struct reason_text reasons[] = {
#define REASON(n, id, how, what, todo, ref)                                                        \
	{.number = (n), .name = #id, .shows = how, .line = what, .advice = todo, .where = ref},
#include "explain/reasons.def"
#undef REASON
};

enum { LIVE_SIZE = 256 };

static _Thread_local enum reason last;
static _Thread_local char last_live[LIVE_SIZE];
static _Atomic(reason_sink) told_to;

const struct reason_text *reason_find(unsigned int number)
{
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if ((unsigned int)reasons[i].number == number)
			return &reasons[i];
	return NULL;
}

const struct reason_text *reason_next(unsigned int number)
{
	const struct reason_text *next = NULL;

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if ((unsigned int)reasons[i].number > number &&
		    (!next || reasons[i].number < next->number))
			next = &reasons[i];
	return next;
}

static const struct reason_text *note(enum reason reason, const char *format, va_list values)
{
	const struct reason_text *text = reason_find(reason);
	reason_sink sink = atomic_load_explicit(&told_to, memory_order_acquire);

	last = reason;
	last_live[0] = '\0';
	if (format)
		vsnprintf(last_live, sizeof(last_live), format, values);
	if (sink && text)
		sink(text, last_live);
	return text;
}

int refuse(enum reason reason, const char *format, ...)
{
	const struct reason_text *text;
	va_list values;

	va_start(values, format);
	text = note(reason, format, values);
	va_end(values);
	return text && text->shows.error ? text->shows.error : EINVAL;
}

enum ibv_wc_status refuse_wr(enum reason reason, const char *format, ...)
{
	const struct reason_text *text;
	va_list values;

	va_start(values, format);
	text = note(reason, format, values);
	va_end(values);
	return text && text->shows.status ? text->shows.status : IBV_WC_GENERAL_ERR;
}

enum reason reason_last(const char **live)
{
	if (live)
		*live = last_live;
	return last;
}

void reason_clear(void)
{
	last = REASON_NONE;
	last_live[0] = '\0';
}

void reason_set_sink(reason_sink sink)
{
	atomic_store_explicit(&told_to, sink, memory_order_release);
}

size_t reason_format(char *line, size_t room, const struct reason_text *text, const char *live)
{
	int length = snprintf(line, room, "verbatim: %d %s: %s%s%s%s; %s [%s]\n", text->number,
			      text->name, text->line, *live ? " (" : "", live, *live ? ")" : "",
			      text->advice, text->where);

	if (length < 0)
		return 0;
	if ((size_t)length < room)
		return (size_t)length;
	line[room - 2] = '\n';
	return room - 1;
}
