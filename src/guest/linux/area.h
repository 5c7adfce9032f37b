/* SPDX-License-Identifier: MIT */
/*
 * Memory areas of a process (struct vm_area_struct): which area an address lies in, and which file
 * backs it. These functions read guest memory each time, and keep nothing.
 */
#pragma once

#include "guest/linux/linux.h"

#define VMS_AREA_NAME_SIZE 4096 /* PATH_MAX */

struct vms_areas;

struct vms_area {
	uint64_t start, end; /* addresses; the end is outside */
	uint64_t file;	     /* address of its struct file; 0: anonymous memory */
	uint64_t offset;     /* of the start, in bytes of the file; 0 without a file */
	uint64_t va;	     /* address of its struct vm_area_struct */
	bool executable;
};

/* Finds the offsets in the kernel's structures. NULL if the kernel's types do not tell. */
struct vms_areas *vms_areas_new(const struct vms_linux *guest);
void vms_areas_free(struct vms_areas *areas);

/*
 * Finds the area that `va` lies in, of the process with the memory descriptor `mm`. False if there
 * is none or it cannot be read.
 */
bool vms_areas_find(const struct vms_areas *areas, struct vms_memory *memory, uint64_t mm,
		    uint64_t va, struct vms_area *ret);
/* Finds the first area that ends beyond `va`. */
bool vms_areas_next(const struct vms_areas *areas, struct vms_memory *memory, uint64_t mm,
		    uint64_t va, struct vms_area *ret);
/* Returns a number that two files never share while both exist; 0 without a file. */
uint64_t vms_areas_file(const struct vms_areas *areas, struct vms_memory *memory,
			const struct vms_area *area);
/*
 * Writes what backs an area. For a file, this is its path from the root of all file systems. Other
 * areas are called "[heap]", "[stack]", "[vdso]" … as in /proc/PID/maps, or "[anon]".
 */
void vms_areas_name(const struct vms_areas *areas, struct vms_memory *memory, uint64_t mm,
		    const struct vms_area *area, char name[VMS_AREA_NAME_SIZE]);
/*
 * Returns a number that changes when areas of a process come or go, as far as two cheap reads can
 * tell. It stays the same if an area is replaced by another of the same size.
 */
uint64_t vms_areas_stamp(const struct vms_areas *areas, struct vms_memory *memory, uint64_t mm);
