/* SPDX-License-Identifier: MIT */
/* Messages for whoever runs the program; nothing is printed but through the handler. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

enum vms_log_level { VMS_LOG_WARNING, VMS_LOG_INFO, VMS_LOG_DEBUG };

typedef void (*vms_log_handler)(enum vms_log_level level, const char *message, void *data);

/*
 * The handler gets every message up to `level`, one at a time, from a thread of its own: it may
 * block (a terminal that nobody reads) and delays nobody. NULL drops all messages (the default).
 * The handler before gets first what was logged before: this waits for it. Not from a handler, and
 * from one thread at a time.
 */
void vms_log_set_handler(vms_log_handler handler, void *data, enum vms_log_level level);

/*
 * Never waits for the handler: a thread may log while it holds a machine. Where the handler is
 * VMS_LOG_WAITING messages behind, the next ones are lost, and it is told how many.
 */
void vms_log(enum vms_log_level level, const char *format, ...) G_GNUC_PRINTF(2, 3);
#define VMS_LOG_WAITING 256

/* Waits until the handler has had all that was logged so far. Not while a machine is held. */
void vms_log_flush(void);

G_END_DECLS
