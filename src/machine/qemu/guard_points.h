/* SPDX-License-Identifier: MIT */
/* The watchdog's process removes breakpoints and single steps from a machine. */
#pragma once

#include "machine/qemu/guard.h"

/* Receives the connection to the stub, which the holder shares. False: the holder has closed. */
bool vms_guard_receive_stub(const struct vms_guard *guard);
/*
 * Removes all breakpoints by a connection to the stub, which has this process alone as its client.
 * The machine stands still afterwards. False if QEMU or the connection has gone.
 */
bool vms_guard_clear_by(const struct vms_guard *guard, int fd, int wait_ms);
/*
 * Removes the holder's breakpoints by its own connection to the stub. A holder that goes on finds
 * that out of step, and closes it. False if they may be left.
 */
bool vms_guard_clear_breakpoints(const struct vms_guard *guard);
/* True if there may be breakpoints since the watchdog has removed those that there were. */
bool vms_guard_may_have_points(const struct vms_hold *hold);
/*
 * Ends single steps that were begun over a connection which broke, by stepping every vCPU of the
 * stopped machine once (vms_gdb_end_lost_steps).
 */
void vms_guard_end_lost_steps(const struct vms_guard *guard, int fd);
/*
 * True if removing breakpoints has stopped the machine, as far as the stub has told, or
 * vms_guard_note_stop.
 */
bool vms_guard_has_stopped(void);
void vms_guard_note_stop(void);
/* Forgets it: the machine was released. */
void vms_guard_forget_stop(void);
