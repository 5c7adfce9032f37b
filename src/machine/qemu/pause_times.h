/* SPDX-License-Identifier: MIT */
/* Keeps when a machine stood still. Times are in ns of CLOCK_MONOTONIC, and never go back. */
#pragma once

#include <glib.h>
#include <stdint.h>

struct vms_pause {
	uint64_t begin_ns;
	uint64_t end_ns;    /* UINT64_MAX while it goes on */
	uint64_t before_ns; /* how long all pauses before this one lasted */
};

struct vms_pauses {
	GArray *pauses; /* struct vms_pause; NULL: none */
};

void vms_pauses_clear(struct vms_pauses *pauses);
/* Note that the machine was stopped, or resumed. A note that changes nothing is ignored. */
void vms_pauses_begin(struct vms_pauses *pauses, uint64_t time_ns);
void vms_pauses_end(struct vms_pauses *pauses, uint64_t time_ns);
/* How long, in ns, the machine had stood still in all at `time_ns`. */
uint64_t vms_pauses_until(const struct vms_pauses *pauses, uint64_t time_ns);
