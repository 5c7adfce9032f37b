/* SPDX-License-Identifier: MIT */
/*
 * A guest's RAM where it lies in the address space of the process that runs the
 * guest, read from there without the guest's or the process's doing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A range of guest-physical memory and its place in the process. */
struct vms_ram_part {
	uint64_t pa, size;
	uint64_t hva;
};

struct vms_ram {
	pid_t pid;
	struct vms_ram_part *parts; /* sorted by pa, not overlapping */
	size_t n_parts;
};

/* False when any byte is outside of the parts, or the process does not let it be read. */
bool vms_ram_read(const struct vms_ram *ram, uint64_t pa, void *buf, size_t size);
