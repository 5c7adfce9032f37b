/* SPDX-License-Identifier: MIT */
/*
 * Control flow graphs: the basic blocks of a function of the guest, and where control goes from
 * each. A graph is made from the code in the guest's memory, which differs from that in the file,
 * because a kernel patches itself. A graph is a plain value: it never changes, and can be used when
 * machine and guest are gone.
 *
 * One thread makes a graph. After that, any thread may read it.
 */
#pragma once

#include <vmscope/guest.h>

VMS_BEGIN_DECLS

typedef struct vms_cfg vms_cfg;

/* How a block ends. */
enum vms_block_end {
	VMS_BLOCK_NEXT,	       /* control continues in one block */
	VMS_BLOCK_CONDITIONAL, /* it continues in one of two, or leaves the function by a jump */
	VMS_BLOCK_INDIRECT,    /* the target of its jump is in a register or memory: see `table` */
	VMS_BLOCK_EXIT,	       /* it leaves the function, or does not continue */
	VMS_BLOCK_CUT, /* its next bytes cannot be read or decoded, or the limit is reached */
	VMS_BLOCK_N_ENDS,
};
/* "next", "conditional", "indirect", "exit" or "cut". */
const char *vms_block_end_name(enum vms_block_end end);

enum vms_edge_kind {
	VMS_EDGE_NEXT,	 /* to the next block in memory */
	VMS_EDGE_JUMP,	 /* by a direct jump */
	VMS_EDGE_SWITCH, /* by an entry of a switch table */
	VMS_EDGE_FAULT,	 /* if an instruction of the block faults, the kernel continues there */
	VMS_EDGE_N_KINDS,
};
/* "next", "jump", "switch" or "fault". */
const char *vms_edge_kind_name(enum vms_edge_kind kind);

struct vms_edge {
	size_t block; /* index of the block that control goes to */
	enum vms_edge_kind kind;
};

/*
 * A sequence of instructions that is entered only at its begin. The graph owns the arrays. An empty
 * array is NULL.
 */
struct vms_block {
	uint64_t va;
	uint64_t size; /* bytes */
	uint64_t last; /* address of its last instruction */
	enum vms_block_end end;
	const struct vms_insn *insns; /* by address; `n_insns` is 0 only if the block is CUT */
	size_t n_insns;
	const struct vms_edge *edges; /* sorted by kind; no two with the same kind and block */
	size_t n_edges;
	uint64_t leaves_to; /* address outside of the function that it jumps to; 0: not known */
	uint64_t table;	    /* address of the switch table that its jump reads; 0: not known */
	uint64_t n_entries; /* of that table */
};

/* Set `size`, and members that are not used to 0. */
struct vms_cfg_options {
	size_t size;	       /* sizeof(struct vms_cfg_options) */
	bool calls_end_blocks; /* the instruction after a call begins a block */
	unsigned bits;	       /* width of x86 code: 16, 32 or 64 (0: 64) */
	uint64_t code_base;    /* base of the code segment, for code that is not 64-bit code */
};

/*
 * Makes the graph of the function that contains `va`. It includes parts that the compiler has moved
 * elsewhere (NAME.cold). If there is no symbol, the function begins at `va`. Uses the facts that a
 * kernel has about its own code: which calls never return, which traps are warnings, where it
 * continues after a fault. If a kernel's table of warnings cannot be found, every trap counts as a
 * warning. Reads `memory`; the guest may run. `options` may be NULL. Errors: INVALID_ARGUMENT
 * (bits), UNREADABLE (no code at `va`, or it was freed after the boot), UNSUPPORTED (no decoder).
 */
struct vms_cfg *vms_cfg_new(struct vms_guest *guest, struct vms_memory *memory, uint64_t va,
			    const struct vms_cfg_options *options, GError **error);
struct vms_cfg *vms_cfg_ref(struct vms_cfg *cfg);
void vms_cfg_unref(struct vms_cfg *cfg);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_cfg, vms_cfg_unref)

/* Returns the function's name, or NULL. The graph owns it. */
const char *vms_cfg_name(const struct vms_cfg *cfg);
/* Returns the blocks by address, `*n` of them, at least one. The graph owns them. */
const struct vms_block *vms_cfg_blocks(const struct vms_cfg *cfg, size_t *n);
/* Returns the index of the block at which the function begins. */
size_t vms_cfg_entry(const struct vms_cfg *cfg);

enum vms_cfg_order {
	VMS_CFG_UP,   /* by address */
	VMS_CFG_DOWN, /* by address, the last first */
	VMS_CFG_DEPTH_FIRST,
	VMS_CFG_BREADTH_FIRST,
};
/*
 * Calls `each` for every block, until it returns false. The last two orders begin at the entry, and
 * follow the edges of a block in their order, so they visit only blocks that edges lead to.
 */
void vms_cfg_each(const struct vms_cfg *cfg, enum vms_cfg_order order,
		  bool (*each)(size_t block, void *data), void *data);

VMS_END_DECLS
