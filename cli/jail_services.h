/* SPDX-License-Identifier: MIT */
/* What this command serves when it is started as a jail (base/jail.h). */
#pragma once

#include <stdbool.h>

/* Serves, if these are the arguments of a jail: then it returns true, and *status is the exit
 * status. */
bool serve_as_jail(int argc, char **argv, int *status);
