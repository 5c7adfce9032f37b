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
 * Notes, before a request to the stub of a machine that runs, that it will stand still by us. If
 * this process is killed before it has released the machine, whoever comes next finds that.
 */
void vms_guard_expect_stop(struct vms_hold *hold);
/*
 * Notes what has come of it: vms_guard_has_stopped, or nothing. The holder cannot know of that
 * stop: what told of it has been read by this process.
 */
void vms_guard_settle_stop(struct vms_hold *hold);
/*
 * Removes the holder's breakpoints by its own connection to the stub, if that is known. A holder
 * that goes on finds that out of step, and closes it. `is_running`: the machine was not stopped a
 * moment ago.
 */
void vms_guard_clear_breakpoints(const struct vms_guard *guard, bool is_running);
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
