/* SPDX-License-Identifier: MIT */
/* ELF notes of core files, as bytes. */
#pragma once

#include "dump/sink.h"

/*
 * Adds one note. namesz counts the NUL and all is padded to 4, as Linux and QEMU have it.
 */
void vms_dump_add_note(GByteArray *notes, const char *owner, uint32_t type, const void *content,
		       size_t size);
/*
 * The notes of the layouts ELF and KDUMP that the state alone tells: NT_PRSTATUS of every vCPU,
 * QEMU's of every vCPU, VMCOREINFO.
 */
GByteArray *vms_dump_state_notes(const struct vms_dump_state *state);
/* Our own note, VMSCOPE (machine/core/vmscope_note.h). */
void vms_dump_add_own_note(GByteArray *notes, const struct vms_dump_state *state,
			   const struct vms_dump_outcome *outcome);
