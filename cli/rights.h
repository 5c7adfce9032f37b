/* SPDX-License-Identifier: MIT */
/* Which capabilities of root each command keeps. The others are dropped before it begins. */
#pragma once

#include <glib.h>
#include <stdbool.h>

/*
 * Drops all capabilities (capabilities(7)) that the command does not need. Programs that are
 * started for root get all of them again, since the bounding set stays: what vmscope starts has its
 * user's rights. Called while there is one thread. Errors: IO.
 */
bool rights_drop_for(const char *command, GError **error);
