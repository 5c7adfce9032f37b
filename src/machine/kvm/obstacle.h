/* SPDX-License-Identifier: MIT */
/* Why the machine of a KVM process cannot be held by ptrace. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <sys/types.h>

/*
 * Checks what can be known without touching the process: this user's rights, a debugger that traces
 * it, what this host's KVM can do, and whether the guest's memory is encrypted. Errors: PERMISSION,
 * BUSY (another process traces it), UNSUPPORTED.
 */
bool vms_kvm_check_process(pid_t pid, GError **error);

/* False, with BUSY, if another program than a vmscope traces the thread. That soon lets it go. */
bool vms_kvm_check_tracer(pid_t pid, pid_t thread, GError **error);

/* Sets the error for a thread that could not be seized. Returns false. */
bool vms_kvm_set_trace_error(pid_t pid, pid_t thread, GError **error);
