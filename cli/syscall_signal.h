/* SPDX-License-Identifier: MIT */
/* Signals in the memory of system calls, and how processes end, as strace shows them. */
#pragma once

#include <glib.h>
#include <stdint.h>

/* Appends "SIGINT", or a number. */
void syscall_append_signal(GString *out, uint64_t number);
/* Appends [INT TERM]; of more than half of all, those that are missing: ~[KILL STOP]. */
void syscall_append_signal_set(GString *out, uint64_t set);
void syscall_append_signal_handler(GString *out, uint64_t handler);
/* Appends what wait4 says, as [{WIFEXITED(s) && WEXITSTATUS(s) == 0}]. */
void syscall_append_status(GString *out, uint32_t status);
