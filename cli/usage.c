/* SPDX-License-Identifier: MIT */
#include "usage.h"

void usage_error(GError **error, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	g_autofree char *message = g_strdup_vprintf(format, args);
	va_end(args);
	g_set_error_literal(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, message);
}
