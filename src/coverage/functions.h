/* SPDX-License-Identifier: MIT */
/*
 * The functions that covered blocks lie in. They are found while the guest runs: the code of
 * modules, and what the kernel has for its start alone, may be gone later.
 */
#pragma once

#include <vmscope/cfg.h>

/* A function, or a part of one that the compiler has moved away (NAME.cold). */
struct vms_coverage_function {
	const char *name, *module; /* kept by the table; `module` NULL: the kernel */
	uint64_t va, size;
	GArray *blocks;	 /* uint32_t: numbers of blocks that lie in it, ascending */
	uint64_t *graph; /* where the blocks of its control flow graph begin, or NULL */
	uint32_t n_graph;
	bool was_asked; /* for its graph */
};

typedef struct vms_coverage_functions vms_coverage_functions;

/* `guest` must outlive it, and may be exchanged for another one. */
struct vms_coverage_functions *vms_coverage_functions_new(struct vms_guest *guest);
void vms_coverage_functions_free(struct vms_coverage_functions *functions);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_coverage_functions, vms_coverage_functions_free)

/*
 * Adds a block to the functions that it lies in, as the guest is known now. False: nothing is known
 * of its first byte.
 */
bool vms_coverage_functions_add(struct vms_coverage_functions *functions, uint32_t block,
				uint64_t va, uint32_t size);
/* True if there are functions whose graph was not asked for. */
bool vms_coverage_functions_lack_graphs(const struct vms_coverage_functions *functions);
/* Makes the graphs of all functions that lack one, from memory as it is now. */
void vms_coverage_functions_make_graphs(struct vms_coverage_functions *functions,
					struct vms_memory *memory);
/*
 * Adds all functions that the guest is known to have, those of loaded modules included. To be
 * called last.
 */
void vms_coverage_functions_add_others(struct vms_coverage_functions *functions);
/* Returns all functions, struct vms_coverage_function *, in no order. It owns them. */
const GPtrArray *vms_coverage_functions_all(const struct vms_coverage_functions *functions);
/* True if the function is a part that was moved away from another one. */
bool vms_coverage_function_is_part(const struct vms_coverage_function *function);
