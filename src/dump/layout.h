/* SPDX-License-Identifier: MIT */
/*
 * Layouts of core files that are ELF files: headers, notes, memory. The layouts differ in their
 * segments and notes (layout.c, vbox.c). elf.c writes the file.
 */
#pragma once

#include "dump/sink.h"
#include <elf.h>

struct vms_dump_layout {
	const struct vms_dump_state *state;
	/* All offsets count from the begin of the memory in the file. */
	uint64_t *offsets; /* of each range of the state's memory */
	uint64_t size;	   /* bytes of all memory in the file */
	GArray *segments;  /* Elf64_Phdr; p_offset is such an offset */
};

/* Returns the offset of the memory at `pa`. */
uint64_t vms_dump_layout_offset(const struct vms_dump_layout *layout, uint64_t pa);

/*
 * Adds the segments of the layout for gdb, crash, drgn and makedumpfile (layout.c). They list the
 * physical memory once, with its kernel address if the direct map has it. Then they list it again
 * for all other kernel addresses at which it is mapped.
 */
void vms_dump_elf_segments(struct vms_dump_layout *layout);

/* Make the segments and the notes of VirtualBox's format version 6 (vbox.c). */
void vms_dump_vbox_segments(struct vms_dump_layout *layout);
GByteArray *vms_dump_vbox_notes(const struct vms_dump_state *state,
				const struct vms_dump_outcome *outcome);
