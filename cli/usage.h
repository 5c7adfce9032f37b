/* SPDX-License-Identifier: MIT */
/* Errors of the command line itself. */
#pragma once

#include <glib.h>

/* Sets a usage error. The exit status is 2. */
void usage_error(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);
