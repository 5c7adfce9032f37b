/* SPDX-License-Identifier: MIT */
/* Formats signals, sets of signals, and the status of processes that have ended, like strace. */
#pragma once

#include <glib.h>
#include <stdint.h>

/* Appends "SIGINT", or a number. */
void syscall_append_signal(GString *out, uint64_t number);
/*
 * Appends a set: [INT TERM]. If it has more than half of all signals, those not in it: ~[KILL
 * STOP].
 */
void syscall_append_signal_set(GString *out, uint64_t set);
void syscall_append_signal_handler(GString *out, uint64_t handler);
/* Appends a status of wait4, as [{WIFEXITED(s) && WEXITSTATUS(s) == 0}]. */
void syscall_append_status(GString *out, uint32_t status);
