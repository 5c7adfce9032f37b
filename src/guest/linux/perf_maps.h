/* SPDX-License-Identifier: MIT */
/*
 * Names of code that programs make at run time, by the maps that they write for perf
 * (symbol/perf_map.h): /tmp/perf-PID.map as the process sees it, with its own PID namespace's
 * number, read from the page cache.
 *
 * Threads: any thread may use it.
 */
#pragma once

#include "guest/linux/linux.h"

struct vms_perf_maps;

/* Finds the offsets. NULL if the kernel's types do not tell. */
struct vms_perf_maps *vms_perf_maps_new(struct vms_linux *guest);
void vms_perf_maps_free(struct vms_perf_maps *maps);
/*
 * Notes that the process of address space `space` executes code without a file. `task` is its
 * struct task_struct. For a held guest: it reads nothing.
 */
void vms_perf_maps_note(struct vms_perf_maps *maps, uint32_t space, uint64_t task, uint32_t pid,
			uint64_t mm);
/*
 * Reads the maps of the processes that were noted, if they are new or have grown, and tells the
 * symbolizer. A map that is large is read ever more rarely. Not for a held guest.
 */
void vms_perf_maps_read(struct vms_perf_maps *maps);
