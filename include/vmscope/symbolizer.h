/* SPDX-License-Identifier: MIT */
/*
 * The symbolizer names addresses. It only uses tables that were added before. So the addresses of a
 * sample record can be named after its guest has ended.
 *
 * Several threads may name, note and map at once. Symbol files and the kernel's image must be added
 * before the first address is named. Strings live as long as the symbolizer. Only those of loaded
 * code that was not noted are void after the next vms_symbolizer_load.
 */
#pragma once

#include <vmscope/address_space.h>

VMS_BEGIN_DECLS

typedef struct vms_symbolizer vms_symbolizer;

/* Makes an empty symbolizer. */
struct vms_symbolizer *vms_symbolizer_new(void);
struct vms_symbolizer *vms_symbolizer_ref(struct vms_symbolizer *symbolizer);
void vms_symbolizer_unref(struct vms_symbolizer *symbolizer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_symbolizer, vms_symbolizer_unref)

/* ---- naming ----------------------------------------------------------- */

/* The name and place of an address. The symbolizer owns the strings. */
struct vms_location {
	const char *symbol; /* NULL if no symbol is known */
	const char *module; /* kernel module, mapped file or symbol file; NULL for the kernel */
	uint64_t offset;    /* from the symbol, or from the file's begin if `symbol` is NULL */
	uint64_t start;	    /* address of the symbol, if there is one */
	uint64_t size;	    /* bytes of the symbol */
	uint64_t part;	    /* address of the part of the kernel module that has it, or 0 */
	const char *source; /* source file, or NULL */
	unsigned line;
};
/*
 * Names `va`, an address of `space`, which is a process's, VMS_KERNEL_SPACE or VMS_NO_SPACE. `code`
 * is the number from vms_symbolizer_note_code, or 0 if the address was not noted. False if nothing
 * is known of the address.
 */
bool vms_symbolizer_locate(struct vms_symbolizer *symbolizer, uint32_t space, uint32_t code,
			   uint64_t va, struct vms_location *ret);
/*
 * Returns the process of an address space. NULL for the kernel's, and for a number that was not
 * given out. The symbolizer owns it.
 */
const struct vms_process *vms_symbolizer_process(struct vms_symbolizer *symbolizer, uint32_t space);
/* Gets what is mapped at `va` of a process. The symbolizer owns its strings and symbols. */
bool vms_symbolizer_mapping(struct vms_symbolizer *symbolizer, uint32_t space, uint64_t va,
			    struct vms_mapping *ret);
/*
 * Notes the loaded code that the kernel address `va` lies in now, and returns its number. Modules
 * and BPF programs come and go, so call this to name the address later. Returns 0 if the address is
 * in the kernel's image, or nothing is known of it. The symbolizer keeps the names of noted code,
 * 64 MiB of them at most. Beyond that it returns 0.
 */
uint32_t vms_symbolizer_note_code(struct vms_symbolizer *symbolizer, uint64_t va);

/* ---- adding address spaces, mappings and files ------------------------ */

/*
 * Adds an address space. Copies `process` except for its index. Returns the copy with the index of
 * the new space. It lives as long as the symbolizer.
 */
const struct vms_process *vms_symbolizer_add_space(struct vms_symbolizer *symbolizer,
						   const struct vms_process *process);
/*
 * Adds a mapping to `space`, which was added before or is VMS_KERNEL_SPACE. It replaces what was
 * mapped at any of its addresses. Copies the strings and references the symbols. A mapping that is
 * gone from the process stays known until another one replaces it. A space keeps 65536 mappings at
 * most.
 */
void vms_symbolizer_map(struct vms_symbolizer *symbolizer, uint32_t space,
			const struct vms_mapping *mapping);
/*
 * Sets all the code that is loaded into the kernel now, in place of what was loaded before. It may
 * be in any order, with symbols by address. References the symbols. If an address is also in the
 * kernel's image, the image names it.
 */
void vms_symbolizer_load(struct vms_symbolizer *symbolizer, const struct vms_mapping *loaded,
			 size_t n);
/*
 * Adds a symbol file with its bias. It provides lines, and names for addresses without another
 * name, in all spaces. `is_kernel` is true for the kernel's own file. Takes ownership of `file`.
 */
void vms_symbolizer_add_file(struct vms_symbolizer *symbolizer, struct vms_symbol_file *file,
			     bool is_kernel);
/*
 * Returns a copy of `name` that lives as long as the symbolizer, or "[file]" if that keeps 64 MiB
 * of names already.
 */
const char *vms_symbolizer_intern(struct vms_symbolizer *symbolizer, const char *name);

VMS_END_DECLS
