/* SPDX-License-Identifier: MIT */
/*
 * The layout of a processor's registers in the notes of core files. There is one table for each
 * architecture and kind of note, for both reading and writing.
 */
#pragma once

#include "base/bytes.h"
#include <vmscope/arch.h>

enum vms_note_kind {
	/*
	 * "CORE" NT_PRSTATUS: struct elf_prstatus of Linux. gs_base is not decoded: Linux writes
	 * the user's value there, even for a CPU in kernel mode (ELF_CORE_COPY_REGS of
	 * arch/x86/include/asm/elf.h).
	 */
	VMS_NOTE_PRSTATUS,
	VMS_NOTE_QEMU,	 /* "QEMU" 0: QEMUCPUState of QEMU's target/i386/arch_dump.c */
	VMS_NOTE_VBOX_6, /* "VBCPU" of format version 6, and of 5, which lacks TSC_AUX */
	VMS_NOTE_VBOX_5,
	VMS_NOTE_VBOX_2010, /* "VBOXCPU", "VBCPU": CPUMCTX of VirtualBox 3 and 4; read only */
	VMS_NOTE_KINDS
};

/* The place of a register in a note's content. */
struct vms_note_field {
	uint16_t reg, offset;
	uint8_t size; /* bytes */
	/* Segment attributes as the high half of a descriptor, mixed with base and limit (QEMU). */
	bool is_descriptor;
	/*
	 * Must not be read: the core of a Linux kernel has the thread's value of user mode there.
	 * Other writers have the vCPU's value, but that is in another note too.
	 */
	bool write_only;
};

/* A value in a note's content that does not depend on registers. */
struct vms_note_constant {
	uint16_t offset;
	uint8_t size;  /* bytes */
	bool is_magic; /* a note without this value is not of this kind */
	uint64_t value;
};

struct vms_note_layout {
	size_t size;	 /* bytes of the content; 0: the architecture has no such note */
	size_t min_size; /* the minimum when reading: older writers write less */
	const struct vms_note_field *fields;
	size_t n_fields;
	const struct vms_note_constant *constants;
	size_t n_constants;
};

struct vms_core_arch {
	const struct vms_arch *arch;
	uint16_t elf_machine; /* EM_… */
	struct vms_note_layout notes[VMS_NOTE_KINDS];
	size_t prstatus_pid; /* offset of pr_pid, a u32, in PRSTATUS */
	/*
	 * Adds plausible values for unknown registers that readers of a note need. NULL: there are
	 * none.
	 */
	void (*assume)(struct vms_regs *regs);
};

extern const struct vms_core_arch vms_core_x86_64;
extern const struct vms_core_arch vms_core_aarch64;

/* Return the tables of an architecture, or NULL if it is not supported. */
const struct vms_core_arch *vms_core_arch_of(const struct vms_arch *arch);
const struct vms_core_arch *vms_core_arch_of_elf(uint16_t elf_machine);

/*
 * Adds the registers in a note's content to `regs`. False if the content is too short, or the note
 * is not of this kind.
 */
bool vms_note_decode(const struct vms_core_arch *arch, enum vms_note_kind kind,
		     struct vms_bytes content, struct vms_regs *regs);
/* True if decoding a note of this kind gives the register. */
bool vms_note_tells(const struct vms_core_arch *arch, enum vms_note_kind kind, unsigned reg);
/*
 * Makes a note's content, of the layout's size, newly allocated. An unknown register gets the value
 * that the architecture assumes, or 0.
 */
uint8_t *vms_note_encode(const struct vms_core_arch *arch, enum vms_note_kind kind,
			 const struct vms_regs *regs);
