/* SPDX-License-Identifier: MIT */
/* What this command serves when it is started as a jail (base/jail.h). */
#pragma once

/* Serves, and does not return, if these are the arguments of a jail. */
void serve_if_jail(int argc, char **argv);
