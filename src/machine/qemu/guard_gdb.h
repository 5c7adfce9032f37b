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
 * True if a request of the holder, who looks at a machine that somebody else has stopped, has
 * stopped it, and the holder has not read that yet.
 */
bool vms_guard_has_stopped_unread(const struct vms_guard *guard);
