/* SPDX-License-Identifier: MIT */
/* The watchdog's process releases a machine by QEMU's monitor. */
#pragma once

#include "machine/qemu/guard.h"

/* Cleans up after a holder that has ended, by the holder's connection or, if that broke, by new
 * ones, for as long as QEMU lives.
 */
void vms_guard_clean_up_qmp(const struct vms_guard *guard);
/*
 * Releases the machine for a holder that is stopped, and may go on to use the connection. False if
 * QEMU has not told that it is done.
 */
bool vms_guard_release_by_qmp(const struct vms_guard *guard);
/* Removes the holder's breakpoints, too, and releases the machine then. */
void vms_guard_clear_and_release(const struct vms_guard *guard);
