/* SPDX-License-Identifier: MIT */
/* Finds the names that somebody may have meant who wrote one that is not known. */
#pragma once

#include <glib.h>
#include <stdbool.h>

#define VMS_NEAREST_MAX 3

struct vms_nearest {
	const char *wanted;
	struct {
		char *name;
		size_t distance;
	} best[VMS_NEAREST_MAX];
	size_t n;
};

/* Begins a search. `wanted` must stay. */
void vms_nearest_begin(struct vms_nearest *nearest, const char *wanted);
/* Offers a name. It is copied if it is among the nearest. */
void vms_nearest_add(struct vms_nearest *nearest, const char *name);
/*
 * Ends the search. Returns what to append to a message: " (did you mean a, b or c?)" or "". Newly
 * allocated.
 */
char *vms_nearest_end(struct vms_nearest *nearest);
