/* SPDX-License-Identifier: MIT */
/* Takes what a core file tells of a machine besides its memory. */
#pragma once

#include "dump/sink.h"

/* Registers a clear function for g_auto. */
typedef struct vms_dump_state vms_dump_state;

/*
 * What is known before the machine is held: its memory map. Errors: UNSUPPORTED (the map or the
 * architecture is unknown).
 */
bool vms_dump_state_init(struct vms_dump_state *state, struct vms_machine *machine,
			 const struct vms_dump_options *options, GError **error);
/*
 * Registers, threads and the kernel's address space. The machine is held, until `until_ns`
 * (CLOCK_MONOTONIC) at most: TIMEOUT then. `state` refers to texts of `guest`.
 */
bool vms_dump_state_take(struct vms_dump_state *state, struct vms_guest *guest, uint64_t until_ns,
			 GError **error);
/* Index of the first range of memory that ends after `pa`. */
guint vms_dump_state_find(const struct vms_dump_state *state, uint64_t pa);
void vms_dump_state_clear(struct vms_dump_state *state);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(vms_dump_state, vms_dump_state_clear)
