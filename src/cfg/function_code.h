/* SPDX-License-Identifier: MIT */
/* The code of one function: its parts, as they are in the memory of the guest. */
#pragma once

#include "guest/code_facts.h"

#define VMS_CODE_PARTS 4

/* A part of a function: its body, or what the compiler moved away. */
struct vms_code_part {
	uint64_t va, size; /* size in bytes */
	uint8_t *code;
	size_t n_read;	     /* bytes of it that could be read */
	GArray *special;     /* struct vms_special_insn by address */
	bool tells_warnings; /* false: any trap of it may be a warning */
};

struct vms_function_code {
	struct vms_guest *guest;
	struct vms_memory *memory;
	char *name; /* NULL if no symbol tells it */
	struct vms_code_part parts[VMS_CODE_PARTS];
	unsigned n_parts;
};

/* Reads the function that `va` lies in. Errors: UNREADABLE. */
bool vms_function_code_read(struct vms_function_code *function, struct vms_guest *guest,
			    struct vms_memory *memory, uint64_t va, GError **error);
void vms_function_code_clear(struct vms_function_code *function);
/*
 * Returns the part that `va` lies in, or NULL if it is outside of the function. A part that was
 * moved away is read when it is first asked for.
 */
const struct vms_code_part *vms_function_code_part(struct vms_function_code *function, uint64_t va);
/* Returns what the kernel has recorded of the instruction at `va` of a part, or NULL. */
const struct vms_special_insn *vms_code_part_special(const struct vms_code_part *part, uint64_t va);
/* Tells what it means to go to `va`. */
enum vms_code_role vms_function_code_role(const struct vms_function_code *function, uint64_t va);
