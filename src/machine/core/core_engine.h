/* SPDX-License-Identifier: MIT */
/*
 * The engine for core files. There are two kinds of files: ELF files have memory in ranges (elf.c),
 * kdump files have it page by page (kdump.c). Both have ELF notes (notes.c).
 */
#pragma once

#include "machine/core/core_arch.h"
#include "machine/core/core_file.h"
#include "machine/core/extent.h"
#include "machine/engine.h"

/* Limits. Unless stated otherwise, a file beyond a limit is refused. */
#define VMS_CORE_SEGMENTS_MAX	(UINT32_C(1) << 20)
#define VMS_CORE_NOTES_MAX	(UINT64_C(64) << 20) /* bytes of all notes */
#define VMS_CORE_VCPUS_MAX	8192
#define VMS_CORE_NOTE_MAX	32768 /* notes; further ones count as damage */
#define VMS_CORE_VMCOREINFO_MAX 65536 /* bytes of its text */
#define VMS_CORE_FACTS_MAX	64    /* lines of the writer's note */
#define VMS_CORE_DAMAGE_MAX	64    /* lines; further ones are only counted */

struct vms_core_vcpu {
	struct vms_regs regs;
	uint32_t tid; /* pr_pid; 0 if the file has none */
};

/* The content of the writer's note about a vCPU (vmscope_note.h). */
struct vms_core_noted_vcpu {
	struct vms_regs known;
	uint64_t unknown[VMS_REGS_MAX / 64]; /* bits as in `valid` of struct vms_regs */
};

struct vms_kdump; /* kdump.c */

struct vms_core_machine {
	struct vms_machine machine;
	struct vms_core core;
	struct vms_core_file *file;
	const struct vms_core_arch *arch;
	GArray *vcpus;		       /* struct vms_core_vcpu */
	guint n_notes[VMS_NOTE_KINDS]; /* notes that were read: note n of a kind is of vCPU n */
	enum vms_note_kind vbox;       /* kind of VirtualBox's notes */
	GArray *parts;		       /* struct vms_extent, by physical address; NULL for kdump */
	GArray *noted_ranges;	       /* struct vms_range: from the writer's note, unchecked */
	GArray *noted_vcpus;	       /* struct vms_core_noted_vcpu, by vCPU */
	struct vms_kdump *kdump;       /* NULL for ELF */
	char *vmcoreinfo;
	GStringChunk *strings;
	size_t more_damage; /* lines that were left out */
};

/* Sets the error "cannot read FILE: …". Returns false. */
bool vms_core_refuse(const struct vms_core_machine *core, enum vms_error code, GError **error,
		     const char *format, ...) G_GNUC_PRINTF(4, 5);
/* Adds a line to `core.damage`, cleaned for a terminal. */
void vms_core_damage(struct vms_core_machine *core, const char *format, ...) G_GNUC_PRINTF(2, 3);

/*
 * elf.c. vms_core_elf_is is true if the file is an ELF core. vms_core_elf_open reads headers and
 * notes, and fills parts, ranges and core.
 */
bool vms_core_elf_is(const struct vms_core_file *file);
bool vms_core_elf_open(struct vms_core_machine *core, GError **error);
bool vms_core_elf_read(struct vms_core_machine *core, uint64_t pa, void *buf, size_t size);
void vms_core_elf_next_data(struct vms_core_machine *core, uint64_t pa, uint64_t end,
			    uint64_t *begin, uint64_t *stop);

/* kdump.c: the same for kdump-compressed files. Any number of threads may read at once. */
bool vms_core_kdump_is(const struct vms_core_file *file);
bool vms_core_kdump_open(struct vms_core_machine *core, GError **error);
bool vms_core_kdump_read(struct vms_core_machine *core, uint64_t pa, void *buf, size_t size);
void vms_core_kdump_next_data(struct vms_core_machine *core, uint64_t pa, uint64_t end,
			      uint64_t *begin, uint64_t *stop);
void vms_core_kdump_free(struct vms_kdump *kdump);

/*
 * notes.c: reads a block of ELF notes at `file_offset`: vCPUs, VMCOREINFO, the writer's facts.
 * Malformed notes are damage, not an error. `align` is p_align of the segment: 8, otherwise 4 is
 * used.
 */
void vms_core_notes(struct vms_core_machine *core, struct vms_bytes notes, uint64_t file_offset,
		    uint64_t align);
/* Sets the text of VMCOREINFO, unless it was set before. */
void vms_core_vmcoreinfo(struct vms_core_machine *core, struct vms_bytes text);
/* True if there is a note of this owner. */
bool vms_core_has_note(const struct vms_core_machine *core, const char *owner);
/*
 * writer_note.c: reads the text of a note of our own. The notes that make vCPUs may follow later,
 * so registers are kept until vms_core_adopt_noted_vcpus copies them to the vCPUs.
 */
void vms_core_writer_note(struct vms_core_machine *core, struct vms_bytes text);
void vms_core_adopt_noted_vcpus(struct vms_core_machine *core);
