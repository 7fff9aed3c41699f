/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log: its thresholds, and who gets it. A message goes out as one argument of "%s\n", so that a
 * program's function need not trust the format; the default one makes one write of it.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "rpma/face.h"

static _Atomic(rpma_log_function *) log_function = log_default;
static atomic_int thresholds[RPMA_LOG_THRESHOLD_MAX] = {RPMA_LOG_LEVEL_WARNING, RPMA_LOG_DISABLED};

static const struct {
	const char *name;
	int priority;
} levels[] = {
    [RPMA_LOG_LEVEL_FATAL] = {"FATAL", LOG_CRIT},
    [RPMA_LOG_LEVEL_ERROR] = {"ERROR", LOG_ERR},
    [RPMA_LOG_LEVEL_WARNING] = {"WARNING", LOG_WARNING},
    [RPMA_LOG_LEVEL_NOTICE] = {"NOTICE", LOG_NOTICE},
    [RPMA_LOG_LEVEL_INFO] = {"INFO", LOG_INFO},
    [RPMA_LOG_LEVEL_DEBUG] = {"DEBUG", LOG_DEBUG},
};

static void print(const char *level, const char *text)
{
	char line[1280], date[32] = "";
	struct timespec now;
	struct tm parts;
	int length;

	clock_gettime(CLOCK_REALTIME, &now);
	if (localtime_r(&now.tv_sec, &parts))
		strftime(date, sizeof(date), "%b %d %H:%M:%S", &parts);
	length = snprintf(line, sizeof(line), "%s.%06ld [%d] %s %s", date, now.tv_nsec / 1000,
			  (int)gettid(), level, text);
	if (length >= (int)sizeof(line)) {
		length = sizeof(line);
		line[length - 1] = '\n';
	}
	if (length < 0 || write(STDERR_FILENO, line, (size_t)length) < 0)
		return;
}

void log_default(enum rpma_log_level level, const char *file_name, const int line_no,
		 const char *function_name, const char *message_format, ...)
{
	const char *base = file_name ? strrchr(file_name, '/') : NULL;
	char text[1024];
	int length = 0;
	va_list arguments;

	if (level < RPMA_LOG_LEVEL_FATAL || level > RPMA_LOG_LEVEL_DEBUG)
		return;
	if (file_name)
		length = snprintf(text, sizeof(text), "%s: %d: %s: ", base ? base + 1 : file_name,
				  line_no, function_name);
	if (length < 0 || length >= (int)sizeof(text))
		length = 0;
	va_start(arguments, message_format);
	vsnprintf(text + length, sizeof(text) - (size_t)length, message_format, arguments);
	va_end(arguments);
	if ((int)level <= atomic_load(&thresholds[RPMA_LOG_THRESHOLD_AUX]))
		print(levels[level].name, text);
	syslog(levels[level].priority, "%s %s", levels[level].name, text);
}

void log_message(enum rpma_log_level level, const char *file, int line, const char *function,
		 const char *text)
{
	int error = errno;

	if ((int)level <= atomic_load(&thresholds[RPMA_LOG_THRESHOLD]))
		atomic_load (&log_function)(level, file, line, function, "%s\n", text);
	errno = error;
}

static bool is_threshold(enum rpma_log_threshold threshold)
{
	return threshold == RPMA_LOG_THRESHOLD || threshold == RPMA_LOG_THRESHOLD_AUX;
}

int rpma_log_set_threshold(enum rpma_log_threshold threshold, enum rpma_log_level level)
{
	if (!is_threshold(threshold) || level < RPMA_LOG_DISABLED || level > RPMA_LOG_LEVEL_DEBUG)
		return REFUSE(RPMA_VALUE, "threshold %d, level %d", (int)threshold, (int)level);
	atomic_store(&thresholds[threshold], level);
	return 0;
}

int rpma_log_get_threshold(enum rpma_log_threshold threshold, enum rpma_log_level *level)
{
	if (!is_threshold(threshold))
		return REFUSE(RPMA_VALUE, "threshold %d", (int)threshold);
	if (!level)
		return REFUSE_NULL();
	*level = atomic_load(&thresholds[threshold]);
	return 0;
}

int rpma_log_set_function(rpma_log_function *function)
{
	atomic_store(&log_function, function ? function : log_default);
	return 0;
}
