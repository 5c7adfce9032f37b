/* SPDX-License-Identifier: MIT */
/* Messages for the user of the program. The library itself prints nothing. */
#pragma once

#include <vmscope/declare.h>

VMS_BEGIN_DECLS

enum vms_log_level { VMS_LOG_WARNING, VMS_LOG_INFO, VMS_LOG_DEBUG };

typedef void (*vms_log_handler)(enum vms_log_level level, const char *message, void *data);

/*
 * Sets the handler, which gets every message up to `level`, one at a time. NULL, the default, drops
 * all messages. A thread of the log calls the handler: it may block (a terminal that nobody reads)
 * without delaying other threads. This call waits until the previous handler has received all
 * messages that were logged before. Do not call it from a handler, or from two threads at once.
 */
void vms_log_set_handler(vms_log_handler handler, void *data, enum vms_log_level level);

/*
 * Logs a message. It never waits for the handler, so that a thread may log while it holds a
 * machine. When VMS_LOG_WAITING messages wait for the handler, further ones are lost, and the
 * handler gets a message with their number. For any thread.
 */
void vms_log(enum vms_log_level level, const char *format, ...) G_GNUC_PRINTF(2, 3);
#define VMS_LOG_WAITING 256

/* Waits until the handler has had all messages so far. Do not call it while a machine is held. */
void vms_log_flush(void);

VMS_END_DECLS
