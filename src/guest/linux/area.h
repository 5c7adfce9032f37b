/* SPDX-License-Identifier: MIT */
/*
 * Memory areas of a process (struct vm_area_struct): which one an address lies in, and which file
 * backs it. Reads guest memory, keeps nothing.
 */
#pragma once

#include "guest/linux/linux.h"

#define VMS_AREA_NAME_SIZE 4096 /* PATH_MAX */

struct vms_areas;

struct vms_area {
	uint64_t start, end; /* addresses; the end is outside */
	uint64_t file;	     /* address of its struct file; 0: anonymous memory */
	uint64_t offset;     /* in the file, of the start; 0 without a file */
	uint64_t va;	     /* of its struct vm_area_struct */
	bool executable;
};

/* Offsets; NULL when the kernel's types do not tell. */
struct vms_areas *vms_areas_new(const struct vms_linux *guest);
void vms_areas_free(struct vms_areas *areas);

/* The area of the process with memory descriptor `mm` that `va` lies in. */
bool vms_areas_find(const struct vms_areas *areas, struct vms_memory *memory, uint64_t mm,
		    uint64_t va, struct vms_area *ret);
/* The first one that ends beyond `va`. */
bool vms_areas_next(const struct vms_areas *areas, struct vms_memory *memory, uint64_t mm,
		    uint64_t va, struct vms_area *ret);
/* A number that is another for another file, as long as both are there; 0 without a file. */
uint64_t vms_areas_file(const struct vms_areas *areas, struct vms_memory *memory,
			const struct vms_area *area);
/*
 * Writes what backs an area: the path of a file from the root of all file systems; or "[heap]",
 * "[stack]", "[vdso]" … as /proc/PID/maps shows them, or "[anon]".
 */
void vms_areas_name(const struct vms_areas *areas, struct vms_memory *memory, uint64_t mm,
		    const struct vms_area *area, char name[VMS_AREA_NAME_SIZE]);
/*
 * A number that changes when areas of a process come or go, as far as two cheap reads can tell: an
 * area exchanged for another of the same size goes unnoticed.
 */
uint64_t vms_areas_stamp(const struct vms_areas *areas, struct vms_memory *memory, uint64_t mm);
