/* SPDX-License-Identifier: MIT */
/*
 * VirtualBox's core files, format version 6 (its DBGFCoreWrite and include/VBox/vmm/dbgfcorefmt.h).
 * EI_VERSION is EV_CURRENT, as ELF demands; VirtualBox itself writes 0.
 */
#include "dump/layout.h"
#include "dump/notes.h"
#include "machine/core/vbox_format.h"
#include <stdlib.h>

#define CORE_VERSION  0x07000000U /* of a VirtualBox that writes this format: 7.0.0 */
#define CORE_REVISION 0
#define NOTE_ALIGN    8

static void add_segment(struct vms_dump_layout *layout, const struct vms_range *range)
{
	bool has_data = range->kind != VMS_RANGE_MMIO;
	Elf64_Phdr segment = {
		.p_type = PT_LOAD,
		.p_flags = PF_R,
		.p_offset = has_data ? vms_dump_layout_offset(layout, range->pa) : 0,
		.p_paddr = range->pa,
		.p_filesz = has_data ? range->size : 0,
		.p_memsz = range->size,
	};
	g_array_append_val(layout->segments, segment);
}

static int compare_segments(const void *a, const void *b)
{
	uint64_t x = ((const Elf64_Phdr *)a)->p_paddr, y = ((const Elf64_Phdr *)b)->p_paddr;
	return x < y ? -1 : x > y;
}

void vms_dump_vbox_segments(struct vms_dump_layout *layout)
{
	const struct vms_dump_state *state = layout->state;
	size_t n;
	const struct vms_range *ranges = vms_machine_ranges(state->machine, &n);
	for (guint i = 0; i < state->memory->len; i++)
		add_segment(layout, &g_array_index(state->memory, struct vms_range, i));
	for (size_t i = 0; i < n; i++) {
		if (ranges[i].kind == VMS_RANGE_MMIO)
			add_segment(layout, &ranges[i]);
	}
	g_array_sort(layout->segments, compare_segments);
}

static void add_note(GByteArray *notes, const char *name, uint32_t type, const void *content,
		     size_t size)
{
	vms_dump_add_note(notes, name, strlen(name), type, content, size, NOTE_ALIGN);
}

GByteArray *vms_dump_vbox_notes(const struct vms_dump_state *state,
				const struct vms_dump_outcome *outcome)
{
	GByteArray *notes = g_byte_array_new();
	const uint32_t descriptor[] = {
		GUINT32_TO_LE(VMS_VBOX_MAGIC),
		GUINT32_TO_LE(VMS_VBOX_FORMAT_6),
		GUINT32_TO_LE(24),
		GUINT32_TO_LE(CORE_VERSION),
		GUINT32_TO_LE(CORE_REVISION),
		GUINT32_TO_LE(state->vcpus->len),
	};
	add_note(notes, VMS_VBOX_CORE, VMS_VBOX_CORE_TYPE, descriptor, sizeof(descriptor));
	for (guint i = 0; i < state->vcpus->len; i++) {
		const struct vms_dump_vcpu *vcpu =
			&g_array_index(state->vcpus, struct vms_dump_vcpu, i);
		g_autofree uint8_t *content =
			vms_note_encode(state->arch, VMS_NOTE_VBOX_6, &vcpu->regs);
		add_note(notes, VMS_VBOX_CPU, VMS_VBOX_CPU_TYPE, content,
			 state->arch->notes[VMS_NOTE_VBOX_6].size);
	}
	vms_dump_add_own_note(notes, state, outcome);
	return notes;
}
