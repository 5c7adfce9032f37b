/* SPDX-License-Identifier: MIT */
/*
 * The functions that contain covered blocks. They are found while the guest runs, because the code
 * of modules and the kernel's code for its start may be gone later.
 */
#pragma once

#include <vmscope/cfg.h>

/* A function, or a part of one that the compiler has moved elsewhere (NAME.cold). */
struct vms_coverage_function {
	const char *name, *module; /* owned by the table; `module` NULL: the kernel */
	uint64_t va, size;
	GArray *blocks;	 /* uint32_t: numbers of the blocks in it, ascending */
	uint64_t *graph; /* addresses of the blocks of its control flow graph, or NULL */
	uint32_t n_graph;
};

typedef struct vms_coverage_functions vms_coverage_functions;

/* `guest` must outlive the functions. It may be recognised again in between. */
struct vms_coverage_functions *vms_coverage_functions_new(struct vms_guest *guest);
void vms_coverage_functions_free(struct vms_coverage_functions *functions);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_coverage_functions, vms_coverage_functions_free)

/*
 * Adds a block to the functions that contain it, by what is known of the guest now. False if no
 * function of its first byte is known.
 */
bool vms_coverage_functions_add(struct vms_coverage_functions *functions, uint32_t block,
				uint64_t va, uint32_t size);
/* True if there are functions whose graph was not made yet. */
bool vms_coverage_functions_lack_graphs(const struct vms_coverage_functions *functions);
/* Makes the graphs of these functions, from the current memory. */
void vms_coverage_functions_make_graphs(struct vms_coverage_functions *functions,
					struct vms_memory *memory);
/*
 * Adds all other functions of the guest, including those of loaded modules. Must be called last.
 */
void vms_coverage_functions_add_others(struct vms_coverage_functions *functions);
/* Returns all functions, struct vms_coverage_function *, unsorted. The table owns them. */
const GPtrArray *vms_coverage_functions_all(const struct vms_coverage_functions *functions);
/* True if this is a part of a function that was moved elsewhere. */
bool vms_coverage_function_is_part(const struct vms_coverage_function *function);
