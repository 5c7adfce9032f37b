/* SPDX-License-Identifier: MIT */
/* Takes all that a core file has of a machine besides the content of its memory. */
#pragma once

#include "dump/sink.h"

/* This name is for g_auto. */
typedef struct vms_dump_state vms_dump_state;

/*
 * Begins a state with what is known before the machine is held: its memory map. The caller calls
 * vms_dump_state_clear in any case. Errors: UNSUPPORTED (the map or the architecture is unknown).
 */
bool vms_dump_state_init(struct vms_dump_state *state, struct vms_machine *machine,
			 const struct vms_dump_options *options, GError **error);
/*
 * Takes registers, threads and the kernel's address space. The caller holds the machine. `guest`
 * must outlive `state`, which refers to its texts. Errors: TIMEOUT (it was not done by `until_ns`,
 * CLOCK_MONOTONIC), and those of the machine.
 */
bool vms_dump_state_take(struct vms_dump_state *state, struct vms_guest *guest, uint64_t until_ns,
			 GError **error);
/* Returns the index of the first range of memory that ends after `pa`. */
guint vms_dump_state_find(const struct vms_dump_state *state, uint64_t pa);
void vms_dump_state_clear(struct vms_dump_state *state);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(vms_dump_state, vms_dump_state_clear)
