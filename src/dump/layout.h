/* SPDX-License-Identifier: MIT */
/*
 * Layouts of core files that are ELF: headers, notes, memory. They differ in the segments that
 * they list and in their notes (layout.c, vbox.c); elf.c writes the file.
 */
#pragma once

#include "dump/sink.h"
#include <elf.h>

struct vms_dump_layout {
	const struct vms_dump_state *state;
	/* Where each range of the state's memory lies in the file, from the begin of all memory. */
	uint64_t *offsets;
	uint64_t size;	  /* bytes of all memory in the file */
	GArray *segments; /* Elf64_Phdr; p_offset counts from the begin of all memory, too */
};

/* Where the memory at `pa` lies. */
uint64_t vms_dump_layout_offset(const struct vms_dump_layout *layout, uint64_t pa);

/*
 * layout.c: for gdb, crash, drgn and makedumpfile: physical memory, at kernel addresses as far as
 * the kernel maps it directly, and once more where else the kernel maps it.
 */
void vms_dump_elf_segments(struct vms_dump_layout *layout);

/* vbox.c: VirtualBox's format version 6. */
void vms_dump_vbox_segments(struct vms_dump_layout *layout);
GByteArray *vms_dump_vbox_notes(const struct vms_dump_state *state,
				const struct vms_dump_outcome *outcome);
