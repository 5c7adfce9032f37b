/* SPDX-License-Identifier: MIT */
/* ELF notes of core files, as bytes. */
#pragma once

#include "dump/sink.h"

/* Limit in bytes of the text on unreadable memory in our own note. */
#define VMS_DUMP_UNREADABLE_TEXT 65536

/*
 * Adds one note. Its name and its content are padded to `align` bytes. `owner_size` is the size of
 * the name: Linux and QEMU count its NUL, VirtualBox does not.
 */
void vms_dump_add_note(GByteArray *notes, const char *owner, size_t owner_size, uint32_t type,
		       const void *content, size_t size, size_t align);
/*
 * Makes the notes of the layouts ELF and KDUMP: our own note, NT_PRSTATUS of every vCPU, QEMU's
 * note of every vCPU, VMCOREINFO. `outcome` is as in vms_dump_add_own_note.
 */
GByteArray *vms_dump_notes(const struct vms_dump_state *state,
			   const struct vms_dump_outcome *outcome);
/*
 * True if the notes of the file's layout show a value for this register although it is not known.
 * The value is 0, or the usual one (core_arch.h). Readers other than ours take it for the true one.
 */
bool vms_dump_is_made_up(const struct vms_dump_state *state, const struct vms_dump_vcpu *vcpu,
			 unsigned reg);
/*
 * Adds our own note, VMSCOPE (machine/core/vmscope_note.h). `outcome` may be NULL, to learn the
 * size before the outcome is known: then the note is shorter by at most VMS_DUMP_UNREADABLE_TEXT.
 */
void vms_dump_add_own_note(GByteArray *notes, const struct vms_dump_state *state,
			   const struct vms_dump_outcome *outcome);
