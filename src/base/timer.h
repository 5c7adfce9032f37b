/* SPDX-License-Identifier: MIT */
/* A timer with a thread of its own. */
#pragma once

#include <glib.h>
#include <stdint.h>

struct vms_timer;

/*
 * Makes a timer that is not set yet. Whenever it expires, its thread calls `expired`, which may set
 * it again. `name` is the thread's. Errors: IO.
 */
struct vms_timer *vms_timer_new(const char *name, void (*expired)(void *data), void *data,
				GError **error);
/* Waits until a running call of `expired` has returned. Not from `expired`. NULL is allowed. */
void vms_timer_free(struct vms_timer *timer);
/* Makes the timer expire once, in `ns` nanoseconds; 0: never. For any thread. One system call.
 * NULL is allowed: nothing is done. */
void vms_timer_set(struct vms_timer *timer, uint64_t ns);
