/* SPDX-License-Identifier: MIT */
/*
 * Messages wait in a ring. A thread of the log takes them out and calls the handler. A thread that
 * logs takes the lock of the ring, which is never held while the handler runs.
 */
#include "base/log.h"

struct message {
	enum vms_log_level level;
	char *text; /* owned */
};

/* The only global state of the library. */
static struct {
	GMutex lock;   /* guards all below */
	GCond changed; /* signalled when anything below changes */
	vms_log_handler handler;
	void *data;
	enum vms_log_level level;
	GThread *thread; /* calls the handler; NULL: there is no handler */
	gboolean ending; /* the thread ends as soon as the ring is empty */
	gboolean busy;	 /* the handler is running */
	struct message ring[VMS_LOG_WAITING];
	guint first, n; /* of the messages that wait in the ring */
	guint lost;	/* messages that did not fit, and that the handler has not been told of */
} sink;

/* Takes the next message for the handler. Its text is NULL if there is none. Under the lock. */
static struct message take_message(void)
{
	struct message message = { VMS_LOG_WARNING, NULL };
	if (sink.n > 0) {
		message = sink.ring[sink.first];
		sink.first = (sink.first + 1) % VMS_LOG_WAITING;
		sink.n--;
	} else if (sink.lost > 0) {
		message.text = g_strdup_printf(
			"%u messages were lost: they came faster than they could be written",
			sink.lost);
		sink.lost = 0;
	}
	return message;
}

static gpointer write_messages(gpointer data G_GNUC_UNUSED)
{
	g_mutex_lock(&sink.lock);
	for (;;) {
		struct message message = take_message();
		if (!message.text && sink.ending)
			break;
		if (!message.text) {
			g_cond_wait(&sink.changed, &sink.lock);
			continue;
		}
		sink.busy = TRUE;
		g_mutex_unlock(&sink.lock);
		sink.handler(message.level, message.text, sink.data);
		g_free(message.text);
		g_mutex_lock(&sink.lock);
		sink.busy = FALSE;
		g_cond_broadcast(&sink.changed);
	}
	g_mutex_unlock(&sink.lock);
	return NULL;
}

void vms_log_set_handler(vms_log_handler handler, void *data, enum vms_log_level level)
{
	g_mutex_lock(&sink.lock);
	GThread *thread = g_steal_pointer(&sink.thread);
	sink.ending = TRUE;
	g_cond_broadcast(&sink.changed);
	g_mutex_unlock(&sink.lock);
	if (thread)
		g_thread_join(thread);

	g_mutex_lock(&sink.lock);
	sink.ending = FALSE;
	sink.handler = handler;
	sink.data = data;
	sink.level = level;
	if (handler)
		sink.thread = g_thread_try_new("vms-log", write_messages, NULL, NULL);
	g_mutex_unlock(&sink.lock);
}

enum vms_log_level vms_log_get_level(void)
{
	g_mutex_lock(&sink.lock);
	const enum vms_log_level level = sink.thread ? sink.level : VMS_LOG_WARNING;
	g_mutex_unlock(&sink.lock);
	return level;
}

static gboolean is_wanted(enum vms_log_level level)
{
	g_mutex_lock(&sink.lock);
	gboolean wanted = sink.thread && level <= sink.level;
	g_mutex_unlock(&sink.lock);
	return wanted;
}

void vms_log(enum vms_log_level level, const char *format, ...)
{
	if (!is_wanted(level))
		return;
	va_list args;
	va_start(args, format);
	char *text = g_strdup_vprintf(format, args);
	va_end(args);

	g_mutex_lock(&sink.lock);
	gboolean fits = sink.thread && sink.n < VMS_LOG_WAITING;
	if (fits) {
		struct message message = { level, text };
		sink.ring[(sink.first + sink.n++) % VMS_LOG_WAITING] = message;
		g_cond_broadcast(&sink.changed);
	} else {
		sink.lost++;
	}
	g_mutex_unlock(&sink.lock);
	if (!fits)
		g_free(text);
}

void vms_log_flush(void)
{
	g_mutex_lock(&sink.lock);
	while (sink.thread && (sink.n > 0 || sink.lost > 0 || sink.busy))
		g_cond_wait(&sink.changed, &sink.lock);
	g_mutex_unlock(&sink.lock);
}
