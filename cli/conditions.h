/* SPDX-License-Identifier: MIT */
/* Conditions of hits, as --if and --task give them. */
#pragma once

#include "session.h"

/*
 * Joins expressions that must all hold, and "pid == TASK" before them. `texts` and `task` may be
 * NULL. *ret is newly allocated, or NULL if there is no condition. `option` is what gave `texts`.
 * Errors: usage.
 */
bool conditions_join(const char *option, const char *task, char *const *texts, char **ret,
		     GError **error);
