/* SPDX-License-Identifier: MIT */
/* The standard streams of this process. */
#pragma once

#include <glib.h>
#include <stdbool.h>

/*
 * Opens those that the caller has closed. Otherwise a socket to QEMU gets the number of one, and
 * what is printed goes there. Reading and writing still fail as with a closed one. Ignores SIGPIPE:
 * a closed pipe must not kill vmscope while it holds a guest. False: they cannot be opened. To be
 * called before any other file is opened.
 */
bool streams_prepare(void);
/*
 * Prints to standard output. When its reader has gone (`| head`), this process ends by SIGPIPE
 * without a word, as other tools do: it must not hold a machine. Errors: IO.
 */
bool streams_print(const GString *text, GError **error);
