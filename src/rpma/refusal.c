/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a call is refused, and the codes in words.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rpma/face.h"

/* What a reason shows as. */
static int code_of(enum reason reason)
{
	switch (reason_find(reason)->shows.error) {
	case EINVAL:
		return RPMA_E_INVAL;
	case ENOMEM:
		return RPMA_E_NOMEM;
	case EOPNOTSUPP:
		return RPMA_E_NOSUPP;
	case EIO:
		return RPMA_E_PROVIDER;
	case EBUSY:
		return RPMA_E_SHARED_CHANNEL;
	case ENOTCONN:
		return RPMA_E_NOT_SHARED_CHNL;
	default:
		return RPMA_E_UNKNOWN;
	}
}

int refuse_call(enum reason reason, const char *file, int line, const char *function,
		const char *format, ...)
{
	int error = errno, code = code_of(reason);
	char live[512] = "", text[768], word[128] = "";
	va_list arguments;

	va_start(arguments, format);
	if (format)
		vsnprintf(live, sizeof(live), format, arguments);
	va_end(arguments);
	if (code == RPMA_E_PROVIDER)
		snprintf(word, sizeof(word), ": %s", strerrordesc_np(error) ?: "unknown error");
	refuse(reason, "%s%s", live, word);
	snprintf(text, sizeof(text), "%d %s: %s (%s%s)", reason, reason_find(reason)->name,
		 reason_find(reason)->line, live, word);
	log_message(code == RPMA_E_INVAL ? RPMA_LOG_LEVEL_INFO : RPMA_LOG_LEVEL_ERROR, file, line,
		    function, text);
	errno = error;
	return code;
}

const char *rpma_err_2str(int ret)
{
	switch (ret) {
	case 0:
		return "Success";
	case RPMA_E_NOSUPP:
		return "Not supported";
	case RPMA_E_PROVIDER:
		return "Provider error occurred";
	case RPMA_E_NOMEM:
		return "Out of memory";
	case RPMA_E_INVAL:
		return "Invalid argument";
	case RPMA_E_NO_COMPLETION:
		return "No next completion available";
	case RPMA_E_NO_EVENT:
		return "No next event available";
	case RPMA_E_AGAIN:
		return "Temporary error, try again";
	case RPMA_E_SHARED_CHANNEL:
		return "Completion channel is shared";
	case RPMA_E_NOT_SHARED_CHNL:
		return "Completion channel is not shared";
	default:
		return "Unknown error";
	}
}
