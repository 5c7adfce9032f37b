/* SPDX-License-Identifier: MIT */
/* Messages for whoever runs the program; nothing is printed but through the handler. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

enum vms_log_level { VMS_LOG_WARNING, VMS_LOG_INFO, VMS_LOG_DEBUG };

typedef void (*vms_log_handler)(enum vms_log_level level, const char *message, void *data);

/* Called for every message up to `level`, from any thread; NULL drops them (the default). */
void vms_log_set_handler(vms_log_handler handler, void *data, enum vms_log_level level);

void vms_log(enum vms_log_level level, const char *format, ...) G_GNUC_PRINTF(2, 3);

G_END_DECLS
