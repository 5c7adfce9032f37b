/* SPDX-License-Identifier: MIT */
/* Reads the code of one function, in all its parts, from the guest's memory. */
#pragma once

#include "guest/code_facts.h"

#define VMS_CODE_PARTS 4

/* A part of a function: its body, or a part that the compiler has moved elsewhere. */
struct vms_code_part {
	uint64_t va, size; /* size in bytes */
	uint8_t *code;
	size_t n_read;	     /* bytes of it that could be read */
	GArray *special;     /* struct vms_special_insn by address */
	bool tells_warnings; /* `special` has all warnings; if false, any trap may be a warning */
};

struct vms_function_code {
	struct vms_guest *guest;
	struct vms_memory *memory;
	char *name; /* NULL if there is no symbol */
	struct vms_code_part parts[VMS_CODE_PARTS];
	unsigned n_parts;
};

/* Reads the function that contains `va`. Errors: UNREADABLE. */
bool vms_function_code_read(struct vms_function_code *function, struct vms_guest *guest,
			    struct vms_memory *memory, uint64_t va, GError **error);
void vms_function_code_clear(struct vms_function_code *function);
/*
 * Returns the part that contains `va`, or NULL if `va` is outside of the function. A part that was
 * moved elsewhere is read on first use.
 */
const struct vms_code_part *vms_function_code_part(struct vms_function_code *function, uint64_t va);
/* Returns the kernel's record about the instruction at `va`, or NULL. */
const struct vms_special_insn *vms_code_part_special(const struct vms_code_part *part, uint64_t va);
/* Returns the role of the function that begins at `va`, for control that goes there. */
enum vms_code_role vms_function_code_role(const struct vms_function_code *function, uint64_t va);
