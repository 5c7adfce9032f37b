/* SPDX-License-Identifier: MIT */
/* Names of programs as Linux keeps them of processes. */
#pragma once

/*
 * Returns what the kernel calls a process that runs the program `path`: the last part of the path,
 * cut to 15 bytes. Newly allocated.
 */
char *vms_program_name(const char *path);
