/* SPDX-License-Identifier: MIT */
#include <vmscope/log.h>

/* The only global state of the library. */
static struct {
	GMutex lock;
	vms_log_handler handler;
	void *data;
	enum vms_log_level level;
} sink;

void vms_log_set_handler(vms_log_handler handler, void *data, enum vms_log_level level)
{
	g_mutex_lock(&sink.lock);
	sink.handler = handler;
	sink.data = data;
	sink.level = level;
	g_mutex_unlock(&sink.lock);
}

void vms_log(enum vms_log_level level, const char *format, ...)
{
	g_mutex_lock(&sink.lock);
	if (sink.handler && level <= sink.level) {
		va_list args;
		va_start(args, format);
		g_autofree char *message = g_strdup_vprintf(format, args);
		va_end(args);
		sink.handler(level, message, sink.data);
	}
	g_mutex_unlock(&sink.lock);
}
