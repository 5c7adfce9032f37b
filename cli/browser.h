/* SPDX-License-Identifier: MIT */
/* Starts the browser of the user who typed the command. */
#pragma once

#include "invoking_user.h"

/*
 * Starts BROWSER, or else xdg-open, with an address, which other users of this host can read in its
 * argument list. It has the rights and the environment of that user, a session of its own (Ctrl-C
 * does not end it), and no open file of ours. The caller waits for the process. Errors: IO,
 * NOT_FOUND (the system does not know that user).
 */
bool start_browser(const struct invoking_user *user, const char *address, GPid *ret,
		   GError **error);
/* Returns what is started. Not owned. */
const char *find_browser(void);
