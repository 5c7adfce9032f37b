/* SPDX-License-Identifier: MIT */
/*
 * The symbolizer: what addresses are called. It looks in tables that it was told before, and asks
 * nobody. So the addresses of a sample record can be named when its guest is gone.
 *
 * Threads: several may name, note and tell of mappings at once. Symbol files are added, and the
 * kernel's image is told, before anybody names. Strings stay as long as the symbolizer, but for
 * those of loaded code that was not noted: they stay until vms_symbolizer_load is called again.
 */
#pragma once

#include <vmscope/address_space.h>

VMS_BEGIN_DECLS

typedef struct vms_symbolizer vms_symbolizer;

/* Without any names. */
struct vms_symbolizer *vms_symbolizer_new(void);
struct vms_symbolizer *vms_symbolizer_ref(struct vms_symbolizer *symbolizer);
void vms_symbolizer_unref(struct vms_symbolizer *symbolizer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_symbolizer, vms_symbolizer_unref)

/* ---- naming ----------------------------------------------------------- */

/* What an address is called. Strings are owned by the symbolizer. */
struct vms_location {
	const char *symbol; /* NULL when no symbol is known */
	const char *module; /* kernel module, mapped file or symbol file; NULL: the kernel itself */
	uint64_t offset;    /* from the symbol; from the file's begin where symbol is NULL */
	uint64_t start;	    /* address of the symbol, where there is one */
	uint64_t size;	    /* bytes of the symbol */
	uint64_t part;	    /* address of the kernel module's part that it is in, or 0 */
	const char *source; /* source file, or NULL */
	unsigned line;
};
/*
 * Names `va`, an address of `space`: a process's, VMS_KERNEL_SPACE or VMS_NO_SPACE. `code`: the
 * number of loaded kernel code that the address was noted with, 0 where it was not. False when
 * nothing at all is known of the address.
 */
bool vms_symbolizer_locate(struct vms_symbolizer *symbolizer, uint32_t space, uint32_t code,
			   uint64_t va, struct vms_location *ret);
/* Whose address space it is; NULL for the kernel's, and beyond the last. Owned by the symbolizer.
 */
const struct vms_process *vms_symbolizer_process(struct vms_symbolizer *symbolizer, uint32_t space);
/* What is mapped at `va` of a process's address space; strings and symbols are the symbolizer's. */
bool vms_symbolizer_mapping(struct vms_symbolizer *symbolizer, uint32_t space, uint64_t va,
			    struct vms_mapping *ret);
/*
 * Modules and BPF programs come and go. Whoever keeps a kernel address `va` to name it later notes
 * it: the number of the loaded code that it lies in now, 0 where it is the kernel's own or nothing
 * is known of it. The symbolizer keeps the names of what was noted (64 MiB of them at most, 0
 * beyond).
 */
uint32_t vms_symbolizer_note_code(struct vms_symbolizer *symbolizer, uint64_t va);

/* ---- telling it what is there ----------------------------------------- */

/*
 * Adds an address space. `process` is copied but for its index: what is returned has it, and stays
 * as long as the symbolizer.
 */
const struct vms_process *vms_symbolizer_add_space(struct vms_symbolizer *symbolizer,
						   const struct vms_process *process);
/*
 * Something is mapped in `space` (one that was added, or VMS_KERNEL_SPACE), instead of what any of
 * these addresses were before. Copies the strings, references the symbols. What is not there any
 * more stays known until another is mapped in its place. 65536 mappings of a space are kept.
 */
void vms_symbolizer_map(struct vms_symbolizer *symbolizer, uint32_t space,
			const struct vms_mapping *mapping);
/*
 * All the code that is loaded into the kernel now, instead of what was loaded before; in any order,
 * with symbols by address. References the symbols. What the kernel has for ever comes first where
 * both have an address.
 */
void vms_symbolizer_load(struct vms_symbolizer *symbolizer, const struct vms_mapping *loaded,
			 size_t n);
/*
 * Adds a symbol file, placed by its bias: for addresses without a name, in all spaces, and for
 * lines. `is_kernel`: it is the kernel's own. Takes ownership.
 */
void vms_symbolizer_add_file(struct vms_symbolizer *symbolizer, struct vms_symbol_file *file,
			     bool is_kernel);
/*
 * The same text, to stay as long as the symbolizer; "[file]" instead when it keeps 64 MiB of names
 * already.
 */
const char *vms_symbolizer_intern(struct vms_symbolizer *symbolizer, const char *name);

VMS_END_DECLS
