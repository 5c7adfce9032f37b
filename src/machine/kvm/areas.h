/* SPDX-License-Identifier: MIT */
/*
 * Where a monitor may have mapped its guest's memory, and which part of it may be where for the
 * guest: guesses, that only the guest's own page tables can prove (prove_map.h).
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <vmscope/machine.h>

#define VMS_KVM_SEGMENTS_MAX 16
/* Guest-physical address from which memory goes on that has no place below 4 GiB. */
#define VMS_KVM_HIGH_PA (UINT64_C(1) << 32)

/* A piece of a monitor's memory, contiguous for the guest but perhaps not in the process. */
struct vms_kvm_area {
	uint64_t size;
	unsigned n; /* segments */
	struct {
		uint64_t hva, size;
	} segments[VMS_KVM_SEGMENTS_MAX];
};

/*
 * Lists what may be guest memory, the largest first, from the text of /proc/PID/maps: anonymous
 * memory and files that are mapped writable. Parts of one file that are mapped apart from each
 * other are one area, in the order of the file. Returns an array of struct vms_kvm_area.
 */
GArray *vms_kvm_list_areas(const char *maps);

/* A guess: sorted, without overlaps. */
struct vms_kvm_guess {
	unsigned n;
	struct vms_ram_place places[2 * VMS_KVM_SEGMENTS_MAX];
};

/*
 * Lists what the memory map may be for the layouts that monitors have: an array of struct
 * vms_kvm_guess. Memory below 4 GiB ends where the monitor's devices begin, and goes on at 4 GiB.
 */
GArray *vms_kvm_list_guesses(const GArray *areas);
