/* SPDX-License-Identifier: MIT */
/*
 * A Linux guest: what its parts (kallsyms, BTF, ORC, tasks, modules …) share. Each part is one
 * file with a header of its own. It has its own state behind a pointer here, and finds what it
 * needs through the symbols and types. A part that cannot be understood stays NULL and says why in
 * the log; the rest works. Functions that take the guest as `system` (void *) are operations: see
 * guest/operations.h.
 *
 * Threads: `lock` guards what changes after detection (modules, processes). All else is
 * constant then.
 */
#pragma once

#include "guest/linux/btf.h"
#include "guest/linux/orc.h"
#include "guest/linux/stamp.h"
#include <vmscope/guest.h>

struct vms_kernel_image;

struct vms_linux {
	struct vms_machine *machine;
	const struct vms_arch *arch;
	/* Kernel memory through the kernel's own page tables; for the detecting thread, or under
	 * lock. */
	struct vms_memory *memory;
	bool has_own_tables;		   /* not those that a vCPU used when it was found */
	struct vms_symbolizer *symbolizer; /* what its addresses are called */
	struct vms_symbol_table *symbols;  /* kallsyms of the kernel itself */
	uint64_t image, image_end;	   /* where the kernel is mapped: _text, _end */
	const struct vms_kernel_image *read_image; /* its bytes, while it is detected; or NULL */
	struct {
		uint64_t begin, end;
	} text[2], /* its code, and what is code only while it boots; empty where unknown */
		entry_text;
	uint64_t image_pa; /* aarch64: physical address of the image's begin; 0: unknown */
	struct {
		uint64_t va; /* atomic, set last; 0: not seen yet */
		uint64_t size;
	} trampoline;		 /* trampoline.c: code of the image that runs at another address */
	uint64_t pt_regs_record; /* aarch64: offset of the frame record in struct pt_regs */
	GHashTable *variables; /* hidden.c: addresses by name, as uint64_t; NULL: none are hidden */
	char *banner, *release, *version, *hostname;
	const char *found_by;
	uint64_t kaslr_offset;
	char *vmcoreinfo; /* its text, or NULL */
	char *missing;	  /* what this kernel has and could not be read, for a message; or NULL */

	struct vms_btf *btf;		       /* btf.c */
	struct vms_orc *orc;		       /* orc.c: the kernel's own table */
	struct vms_symbol_table *bpf;	       /* bpf.c: compiled BPF programs; NULL: none known */
	struct vms_stamp bpf_stamp;	       /* bpf.c: of the list of these */
	struct vms_linux_modules *modules;     /* module.c */
	struct vms_linux_tasks *tasks;	       /* task.c: offsets and the per-CPU bases */
	struct vms_linux_processes *processes; /* process.c: processes and their areas */
	GMutex lock;
};

/* Notes that a part of the kernel is there and could not be read; looking again may help. */
void vms_linux_note_missing(struct vms_linux *guest, const char *what);
/* Address of a kernel symbol, or of a variable found otherwise; false when none has that name. */
bool vms_linux_symbol(const struct vms_linux *guest, const char *name, uint64_t *ret);
/* Reads what the kernel never changes: of its image it is at hand while the guest is detected. */
bool vms_linux_read_constant(const struct vms_linux *guest, uint64_t va, void *buf, size_t size);
