/* SPDX-License-Identifier: MIT */
/* Which capabilities of root each command keeps. The others are dropped before it begins. */
#pragma once

#include <glib.h>
#include <stdbool.h>

/*
 * Drops all capabilities (capabilities(7)) that the command does not need. Called while there is
 * one thread. Errors: IO.
 *
 * `argv` has the command's words. If they name a program to start ("-- PROGRAM"), all capabilities
 * are kept: a program that gained them by execve(2) would be treated like one with the setuid bit,
 * without core dumps, and without perf events of whoever has started it. Programs that vmscope
 * needs itself (dot, a browser) are started with all that root has, since the bounding set stays.
 */
bool rights_drop_for(const char *command, char *const *argv, GError **error);
