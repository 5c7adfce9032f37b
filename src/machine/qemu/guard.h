/* SPDX-License-Identifier: MIT */
/*
 * The watchdog: a small process beside this one that lets a held machine run on
 * when this one dies, by whatever signal, or is stopped while it holds.
 *
 * It is a child in a session of its own that signals no exit, so neither a
 * program's own waiting nor its terminal or process group have to do with it.
 */
#pragma once

#include "machine/qemu/stream.h"

struct vms_guard;

/*
 * Starts a guard for a QEMU: it speaks QMP on `qmp`, or on a new connection to
 * the same address, and removes the gdb stub whose chardev is `chardev`, unless that is NULL.
 */
struct vms_guard *vms_guard_new_qmp(const struct vms_stream *qmp, const char *chardev,
				    GError **error);
/* Starts a guard for a bare gdb stub, to whose client the stream belongs. */
struct vms_guard *vms_guard_new_gdb(const struct vms_stream *gdb, GError **error);
/*
 * Ends the guard. What is still held then, or left of the stub, is cleaned up by
 * it: for that it may live on for a while.
 */
void vms_guard_free(struct vms_guard *guard);

/* To be told before a stub is added, and after it has been removed. */
void vms_guard_set_stub(struct vms_guard *guard, bool added);
/* To be told before the machine is stopped. Starts the guard again if it was killed. */
bool vms_guard_hold(struct vms_guard *guard, GError **error);
/* To be told after the machine was resumed. False when the guard had released it before. */
bool vms_guard_release(struct vms_guard *guard);
/* Has the guard released what was held? */
bool vms_guard_has_released(const struct vms_guard *guard);
