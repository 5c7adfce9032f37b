/* SPDX-License-Identifier: MIT */
/*
 * How a processor's registers are laid out in the notes of core files. One table per architecture
 * and kind of note serves reading and writing.
 */
#pragma once

#include "base/bytes.h"
#include <vmscope/arch.h>

enum vms_note_kind {
	/*
	 * "CORE" NT_PRSTATUS: struct elf_prstatus of Linux. Decoding leaves out gs_base: Linux
	 * writes the user's there, also of a CPU in kernel mode (ELF_CORE_COPY_REGS of
	 * arch/x86/include/asm/elf.h).
	 */
	VMS_NOTE_PRSTATUS,
	VMS_NOTE_QEMU,	 /* "QEMU" 0: QEMUCPUState of QEMU's target/i386/arch_dump.c */
	VMS_NOTE_VBOX_6, /* "VBCPU" of format version 6, and of 5, which lacks TSC_AUX */
	VMS_NOTE_VBOX_5,
	VMS_NOTE_VBOX_2010, /* "VBOXCPU", "VBCPU": CPUMCTX of VirtualBox 3 and 4; read only */
	VMS_NOTE_KINDS
};

/* A register's place in a note's content. */
struct vms_note_field {
	uint16_t reg, offset;
	uint8_t size; /* bytes */
	/* QEMU has segment attributes as the high half of a descriptor, mixed with base and limit.
	 */
	bool is_descriptor;
	/*
	 * Not to be read: a Linux kernel's own core has the thread's value of user mode there,
	 * others have the vCPU's, and that in another note, too.
	 */
	bool write_only;
};

/* What a note's content has at a place whatever the registers are. */
struct vms_note_constant {
	uint16_t offset;
	uint8_t size;  /* bytes */
	bool is_magic; /* it is no such note without it */
	uint64_t value;
};

struct vms_note_layout {
	size_t size;	 /* bytes of the content; 0: the architecture has no such note */
	size_t min_size; /* of what is read: older writers know less */
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
	 * Adds plausible values of registers that nobody knows, and a note's readers need. NULL:
	 * there are none.
	 */
	void (*assume)(struct vms_regs *regs);
};

extern const struct vms_core_arch vms_core_x86_64;
extern const struct vms_core_arch vms_core_aarch64;

/* NULL for one that is not known. */
const struct vms_core_arch *vms_core_arch_of(const struct vms_arch *arch);
const struct vms_core_arch *vms_core_arch_of_elf(uint16_t elf_machine);

/*
 * Adds what a note's content tells to `regs`. False when it is shorter than the layout, or not
 * such a note.
 */
bool vms_note_decode(const struct vms_core_arch *arch, enum vms_note_kind kind,
		     struct vms_bytes content, struct vms_regs *regs);
/* Does reading a note of this kind tell the register? */
bool vms_note_tells(const struct vms_core_arch *arch, enum vms_note_kind kind, unsigned reg);
/*
 * A note's content, of the layout's size, newly allocated. Registers that are not known are what
 * the architecture assumes, else 0.
 */
uint8_t *vms_note_encode(const struct vms_core_arch *arch, enum vms_note_kind kind,
			 const struct vms_regs *regs);
