/* SPDX-License-Identifier: MIT */
/*
 * A Linux guest: what its parts (kallsyms, BTF, ORC, tasks, modules …) share. Each part is one file
 * with a header of its own. A pointer here leads to the part's state. A part finds what it needs
 * through symbols and types. If a part cannot be understood, its pointer stays NULL, the log says
 * why, and the other parts work. Functions that take the guest as `system` (void *) are operations:
 * see guest/operations.h.
 *
 * Threads: after detection, `lock` guards what changes (modules, processes). All else is constant
 * then.
 */
#pragma once

#include "guest/linux/btf.h"
#include "guest/linux/change_stamp.h"
#include "guest/linux/orc.h"
#include <vmscope/guest.h>

struct vms_kernel_image;

struct vms_linux {
	struct vms_machine *machine;
	const struct vms_arch *arch;
	struct vms_memory *memory;		   /* kernel memory; after detection under `lock` */
	struct vms_budget *budget;		   /* of `memory`; likewise */
	bool has_own_tables;			   /* `memory` uses the kernel's own page tables */
	struct vms_symbolizer *symbolizer;	   /* names addresses */
	struct vms_symbol_table *symbols;	   /* kallsyms, of the kernel without its modules */
	uint64_t image, image_end;		   /* where the kernel is mapped: _text, _end */
	const struct vms_kernel_image *read_image; /* its bytes during detection, else NULL */
	struct {
		uint64_t begin, end; /* both 0 if unknown */
	} text[2],		     /* its code, and code that is freed after boot */
		entry_text;	     /* code that enters and leaves the kernel */
	uint64_t image_pa; /* aarch64: physical address where the image begins; 0: unknown */
	struct {
		uint64_t va; /* atomic, set last; 0: not seen yet */
		uint64_t size;
	} trampoline;		 /* trampoline.c: code of the image, mapped a second time */
	uint64_t pt_regs_record; /* aarch64: offset of the frame record in struct pt_regs */
	GHashTable *variables;	 /* unlisted_symbols.c: name to uint64_t address; NULL if none are
				    missing */
	char *banner, *release, *version, *hostname;
	const char *found_by;
	uint64_t kaslr_offset;
	uint64_t page_size; /* bytes of a page as the kernel counts them: its PAGE_SIZE */
	char *vmcoreinfo;   /* its text, or NULL */
	char *missing;	    /* a message about parts that could not be read, or NULL */

	struct vms_btf *btf;			 /* btf.c */
	struct vms_linux_types *types;		 /* types.c: NULL until they are asked for */
	struct vms_orc *orc;			 /* orc.c: the kernel's own table */
	struct vms_symbol_table *bpf;		 /* bpf.c: compiled BPF programs; NULL if unknown */
	struct vms_stamp bpf_stamp;		 /* bpf.c: stamp of their list */
	struct vms_linux_modules *modules;	 /* module.c */
	struct vms_linux_tasks *tasks;		 /* task.c: offsets and the per-CPU bases */
	struct vms_linux_task_facts *task_facts; /* task_facts.c: NULL without types */
	struct vms_page_cache *page_cache;	 /* page_cache.c: bytes of files */
	struct vms_linux_processes *processes;	 /* process.c: processes and their areas */
	GMutex lock;
};

/* Adds to `missing` that a part of the kernel could not be read. Detecting it again may help. */
void vms_linux_note_missing(struct vms_linux *guest, const char *what);
/* Gives the address of a kernel symbol or unlisted variable. False if there is no such name. */
bool vms_linux_symbol(const struct vms_linux *guest, const char *name, uint64_t *ret);
/* Reads memory that the kernel never changes. During detection it comes from `read_image`. */
bool vms_linux_read_constant(const struct vms_linux *guest, uint64_t va, void *buf, size_t size);
