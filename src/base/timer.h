/* SPDX-License-Identifier: MIT */
/* A timer with a thread of its own. */
#pragma once

#include <glib.h>
#include <stdint.h>

struct vms_timer;

/*
 * `expired` is called from the timer's thread, whenever the timer that was set has run down; it may
 * set the timer again. Errors: IO.
 */
struct vms_timer *vms_timer_new(const char *name, void (*expired)(void *data), void *data,
				GError **error);
/* Waits for a call that is under way. Not from the timer's thread. NULL is allowed. */
void vms_timer_free(struct vms_timer *timer);
/* Lets the timer run down once in `ns` nanoseconds; 0: never. From any thread; one system call. */
void vms_timer_set(struct vms_timer *timer, uint64_t ns);
