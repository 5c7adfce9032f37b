/* SPDX-License-Identifier: MIT */
/*
 * The watchdog: a small process beside this one that lets a held machine run on when this one dies,
 * by whatever signal, is stopped while it holds, or holds for longer than it said. What it has to
 * do it tries for as long as that very QEMU lives.
 *
 * It is a child in a session of its own that signals no exit, so neither a program's own waiting
 * nor its terminal or process group have to do with it; where that is allowed, it leaves the tool's
 * control group, too.
 */
#pragma once

#include "machine/host/hold.h"
#include "machine/host/identity.h"
#include "machine/qemu/stream.h"

struct vms_guard;

/*
 * Starts a guard for a QEMU: it speaks QMP on `qmp`, or on a new connection to the same address, if
 * that leads to the same process; `process` is nobody's identity where it is not seen. It removes
 * the gdb stub whose chardev, and the descriptor whose name, is `label`. What both processes know
 * lies in a file that is called `label`, where there is a folder for that (record.h).
 */
struct vms_guard *vms_guard_new_qmp(const struct vms_stream *qmp,
				    const struct vms_host_identity *process, const char *label,
				    GError **error);
/* Starts a guard for a bare gdb stub, to whose client the stream belongs. */
struct vms_guard *vms_guard_new_gdb(const struct vms_stream *gdb, GError **error);
/* The stub has QEMU's monitor: by that the machine is let go on, since it looks at the state first.
 */
void vms_guard_set_monitor(struct vms_guard *guard);
/*
 * Ends the guard. What is still held then, or left of the stub, is cleaned up by
 * it: for that it may live on for a while. It is waited for, unless `is_late`: QEMU does not answer
 * now, so that it cannot end soon.
 */
void vms_guard_free(struct vms_guard *guard, bool is_late);

/* What it shares with this process. */
struct vms_hold *vms_guard_hold(struct vms_guard *guard);
/* Starts the guard again if it was killed. To be called before the machine is stopped. */
bool vms_guard_check(struct vms_guard *guard, GError **error);
/*
 * After the watchdog has let go what was held (VMS_HOLD_TAKEN): waits until it has written what it
 * has to say to the connection.
 */
void vms_guard_wait(struct vms_guard *guard);
