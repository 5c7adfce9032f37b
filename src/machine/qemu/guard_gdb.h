/* SPDX-License-Identifier: MIT */
/* The watchdog's process releases the machine of a bare gdb stub. */
#pragma once

#include "machine/qemu/guard.h"

/* Releases the machine. A stub that loses its client does not: a stopped machine stays stopped. */
void vms_guard_clean_up_gdb(const struct vms_guard *guard);
/*
 * Releases the machine for a holder that is stopped, and may go on. The stub's answers are left to
 * the holder, which skips them (vms_gdb_resync). Nothing is sent later: any further byte would stop
 * the machine, and the holder would not know.
 */
void vms_guard_release_for_client(const struct vms_guard *guard);
/*
 * True if a request of the holder has stopped the machine, and the holder has not read the answer
 * yet. This concerns a holder that only looks at a machine which somebody else had stopped.
 */
bool vms_guard_has_stopped_unread(const struct vms_guard *guard);
