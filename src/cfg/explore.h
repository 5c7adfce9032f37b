/* SPDX-License-Identifier: MIT */
/* Finds all instructions of a function that can be reached from its first one. */
#pragma once

#include "cfg/branch.h"
#include "cfg/function_code.h"
#include <vmscope/cfg.h>

#define VMS_NO_STEP UINT32_MAX

/*
 * An instruction that can be reached. Bytes that are no instruction are a step of size 0, which
 * ends a block.
 */
struct vms_cfg_step {
	struct vms_insn insn;
	bool begins_block;
	bool ends_block;
	enum vms_block_end end; /* if it ends a block */
	bool goes_on;		/* control may continue at the next instruction */
	uint64_t target;	/* of its jump within the function; 0: none */
	uint64_t fixup;		/* where the function continues after a fault of it; 0: nowhere */
	uint64_t leaves_to;	/* see struct vms_block */
	uint64_t table, n_entries;
	guint first_target, n_targets; /* of a switch, in `targets` */
	uint32_t before;	       /* index of the step from which it was first reached */
};

struct vms_exploration {
	GArray *steps;	   /* struct vms_cfg_step, in the order in which they were found */
	GHashTable *by_va; /* address to index + 1 */
	GArray *targets;   /* uint64_t */
};

/* Fills `ret`, which the caller clears by vms_exploration_clear. Errors: UNSUPPORTED. */
bool vms_explore(struct vms_function_code *function, uint64_t va,
		 const struct vms_cfg_options *options, struct vms_exploration *ret,
		 GError **error);
void vms_exploration_clear(struct vms_exploration *exploration);
/* Returns the index of the step at `va`, or VMS_NO_STEP. */
uint32_t vms_exploration_find(const struct vms_exploration *exploration, uint64_t va);
