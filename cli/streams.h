/* SPDX-License-Identifier: MIT */
/* The standard streams of this process. */
#pragma once

#include <glib.h>
#include <stdbool.h>

/*
 * Opens the standard streams that this process was started without. Otherwise a socket to QEMU
 * could get the number of one, and printed text would go to QEMU. Reading and writing such a stream
 * still fails. Ignores SIGPIPE: a closed pipe must not kill vmscope while it holds a guest. False
 * if a stream cannot be opened. Call it before any other file is opened.
 */
bool streams_prepare(void);
/*
 * Prints to standard output. If its reader has gone (`| head`), the process ends by SIGPIPE without
 * a message, as other tools do. So no machine may be held meanwhile. Errors: IO.
 */
bool streams_print(const GString *text, GError **error);
