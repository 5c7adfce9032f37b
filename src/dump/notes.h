/* SPDX-License-Identifier: MIT */
/* ELF notes of core files, as bytes. */
#pragma once

#include "dump/sink.h"

/* What our own note says of unreadable memory has at most so many bytes. */
#define VMS_DUMP_UNREADABLE_TEXT 65536

/*
 * Adds one note, whose name and content are padded to `align`. Linux and QEMU count the name's NUL
 * in `owner_size`, VirtualBox does not.
 */
void vms_dump_add_note(GByteArray *notes, const char *owner, size_t owner_size, uint32_t type,
		       const void *content, size_t size, size_t align);
/*
 * The notes of the layouts ELF and KDUMP: ours, NT_PRSTATUS of every vCPU, QEMU's of every vCPU,
 * VMCOREINFO. `outcome` as below.
 */
GByteArray *vms_dump_notes(const struct vms_dump_state *state,
			   const struct vms_dump_outcome *outcome);
/*
 * Do the notes of the file's layout show a value of this register, though it is not known? Readers
 * other than ours take it for the register's: 0, or what is usual (core_arch.h).
 */
bool vms_dump_is_made_up(const struct vms_dump_state *state, const struct vms_dump_vcpu *vcpu,
			 unsigned reg);
/*
 * Our own note, VMSCOPE (machine/core/vmscope_note.h). Without `outcome` it is shorter by at most
 * VMS_DUMP_UNREADABLE_TEXT.
 */
void vms_dump_add_own_note(GByteArray *notes, const struct vms_dump_state *state,
			   const struct vms_dump_outcome *outcome);
