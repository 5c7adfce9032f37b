/* SPDX-License-Identifier: MIT */
/*
 * A processor architecture: its registers, its page tables, its frame-pointer convention and its
 * instructions. Each architecture is one constant struct of operations. Callers never name an
 * architecture. All of this is for any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vmscope/declare.h>

VMS_BEGIN_DECLS

/* No architecture describes more registers than this. */
#define VMS_REGS_MAX 128

/* A register file. The architecture says which register an index means (vms_arch.regs). */
struct vms_regs {
	uint64_t value[VMS_REGS_MAX];
	uint64_t valid[VMS_REGS_MAX / 64]; /* bit i % 64 of word i / 64: value[i] is known */
};

/* True if the value of the register is known. */
static inline bool vms_regs_have(const struct vms_regs *regs, unsigned index)
{
	return index < VMS_REGS_MAX && (regs->valid[index / 64] >> index % 64 & 1);
}

/* Sets a register to a known value. */
static inline void vms_regs_set(struct vms_regs *regs, unsigned index, uint64_t value)
{
	regs->value[index] = value;
	regs->valid[index / 64] |= UINT64_C(1) << index % 64;
}

/* Makes a register unknown. */
static inline void vms_regs_forget(struct vms_regs *regs, unsigned index)
{
	regs->valid[index / 64] &= ~(UINT64_C(1) << index % 64);
}

/*
 * Sets a register to an assumed value. Address translation and other readers use it, but the
 * register stays unknown.
 */
static inline void vms_regs_assume(struct vms_regs *regs, unsigned index, uint64_t value)
{
	regs->value[index] = value;
	vms_regs_forget(regs, index);
}

/* Copies a register. A known value stays known, an assumed one stays assumed. */
static inline void vms_regs_copy(struct vms_regs *to, const struct vms_regs *from, unsigned index)
{
	if (vms_regs_have(from, index))
		vms_regs_set(to, index, from->value[index]);
	else
		vms_regs_assume(to, index, from->value[index]);
}

struct vms_reg_desc {
	const char *name; /* as gdb names it */
	unsigned bits;
	/*
	 * True if page tables and stacks can be walked without it. A stub that sends it only on
	 * request is not asked for it then.
	 */
	bool is_seldom;
};

/*
 * Reads guest memory. `addr` is physical or virtual, as the function that takes the reader says.
 * False if any byte of the range cannot be read; `buf` is undefined then.
 */
struct vms_reader {
	bool (*read)(void *data, uint64_t addr, void *buf, size_t size);
	void *data;
};

/* One translation: the page that holds a virtual address. */
struct vms_page {
	uint64_t va;   /* first virtual address of the page */
	uint64_t pa;   /* its guest-physical address */
	uint64_t size; /* bytes: 4 KiB, 2 MiB, 1 GiB … */
	bool writable;
	bool user; /* accessible to user mode */
	bool executable;
};

/* How a vCPU executes: the width of its code, and where its segments begin. */
struct vms_code_mode {
	unsigned bits;	     /* width of its code: 64, 32 or 16 */
	uint64_t code_base;  /* of the code segment: the next instruction is at code_base + pc */
	uint64_t stack_base; /* of the stack segment: the stack's top is at stack_base + sp */
	bool is_certain;     /* false if the registers do not tell it, and it is the usual mode */
};

/* A register, or a part of one that has its own name, as eax is the low half of rax. */
struct vms_reg_part {
	unsigned index;
	unsigned shift, bits; /* where the part is */
};

/* Limit of page-table entries per request: enough for any kernel, and read in a second or two. */
#define VMS_PAGE_STEPS (UINT64_C(1) << 26)

#define VMS_ARGUMENTS_MAX 8

struct vms_arch {
	const char *name;     /* as `uname -m` names it */
	const char *gdb_name; /* as gdb's target descriptions name it */
	const char *alias;    /* another usual name, or NULL */
	const struct vms_reg_desc *regs;
	unsigned n_regs;
	unsigned pc, sp, fp; /* their indices in a register file */
	/*
	 * Registers of the first integer arguments of a function of the kernel, and of its result.
	 */
	unsigned arguments[VMS_ARGUMENTS_MAX], n_arguments, result;
	/* Finds the part of a register that has this name. False: it is not the name of a part. */
	bool (*find_part)(const char *name, struct vms_reg_part *ret);
	unsigned space; /* index of the register that tells address spaces apart */

	/*
	 * Finds the page that maps `va`. Walks the page tables that `regs` point to, and reads them
	 * through `phys`. With paging off, `pa` is `va`. False if `va` is not mapped, or the tables
	 * cannot be read.
	 */
	bool (*translate)(const struct vms_regs *regs, const struct vms_reader *phys, uint64_t va,
			  struct vms_page *ret);
	/*
	 * Calls `each` for every mapped page from `va` up to and including `last`, in order, until
	 * it returns false. A guest may build tables that keep a reader busy, so the walk ends
	 * after `*steps` entries of tables. It counts `*steps` down.
	 */
	void (*each_page)(const struct vms_regs *regs, const struct vms_reader *phys, uint64_t va,
			  uint64_t last, uint64_t *steps,
			  bool (*each)(const struct vms_page *page, void *data), void *data);
	/* True if `va` is in the kernel's half of the address space, by the usual convention. */
	bool (*is_kernel_address)(uint64_t va);
	/* True if the vCPU is in kernel mode by its registers. Firmware is, even in real mode. */
	bool (*in_kernel)(const struct vms_regs *regs);
	/* Gets how the vCPU executes. NULL if code is always 64-bit code without segments. */
	void (*code_mode)(const struct vms_regs *regs, struct vms_code_mode *ret);
	/*
	 * True if addresses are offsets in segments, but `regs` do not have the segments yet. They
	 * are seldom needed and slow to read. NULL if there are no segments.
	 */
	bool (*lacks_segments)(const struct vms_regs *regs);
	/*
	 * True if the vCPU is waiting in its halt instruction. `code` has the VMS_HALT_BYTES bytes
	 * that end just before the program counter.
	 */
	bool (*is_halted)(const struct vms_regs *regs, const uint8_t *code);
	/*
	 * True if the vCPU is where a reset puts it. It executes nothing then: others have to start
	 * all but the first, which would have gone on at once.
	 */
	bool (*is_at_reset)(const struct vms_regs *regs);
	/*
	 * Makes `regs` point to the kernel's own page tables if they point to a user's reduced
	 * tables (page table isolation). Leaves other registers as they are.
	 */
	void (*kernel_root)(struct vms_regs *regs, const struct vms_reader *phys);
	/* Returns the paging mode in words, e.g. "5-level paging, 57-bit virtual addresses". */
	const char *(*paging_mode)(const struct vms_regs *regs);
	/*
	 * Steps one frame outwards by the frame-pointer convention of 64-bit or 32-bit code.
	 * Changes pc, sp and fp of `regs`, which are virtual addresses before and after (see
	 * vms_arch_flatten). False if no caller is found. The new frame pointer is not checked:
	 * the next step does that.
	 */
	bool (*step_frame_pointer)(struct vms_regs *regs, const struct vms_reader *virt);
	/*
	 * Steps out of the innermost function if the frame pointer is still, or again, its
	 * caller's: at the function's first and last instructions, and in one that makes no frame.
	 * Changes pc and sp, otherwise as above. False if the code does not show that it is so.
	 */
	bool (*step_frameless)(struct vms_regs *regs, const struct vms_reader *virt);

	unsigned breakpoint_size; /* bytes of code that a breakpoint takes */
	int capstone_arch, capstone_mode;
};

#define VMS_HALT_BYTES 4

extern const struct vms_arch vms_arch_x86_64;
extern const struct vms_arch vms_arch_aarch64;

/* Returns the architecture that QEMU, `uname -m` or gdb calls `name`, or NULL. */
const struct vms_arch *vms_arch_by_name(const char *name);

/* Returns the index of the register called `name`, or -1. */
int vms_arch_reg(const struct vms_arch *arch, const char *name);

/* Finds the register, or the part of one, that is called `name`. */
bool vms_arch_reg_part(const struct vms_arch *arch, const char *name, struct vms_reg_part *ret);

/* Gets how the vCPU with these registers executes. */
void vms_arch_code_mode(const struct vms_arch *arch, const struct vms_regs *regs,
			struct vms_code_mode *ret);
/* Returns the virtual address of the next instruction, with its segment's base added. */
uint64_t vms_arch_code_address(const struct vms_arch *arch, const struct vms_regs *regs);
/*
 * Turns pc, sp and fp into virtual addresses if they are offsets in segments. A frame pointer of 0
 * stays 0: there is no frame. Call it only once for the same registers.
 */
void vms_arch_flatten(const struct vms_arch *arch, struct vms_regs *regs);

/* One decoded instruction. */
struct vms_insn {
	uint64_t va;
	unsigned size; /* bytes */
	uint8_t bytes[16];
	char text[192];		/* mnemonic and operands */
	uint64_t branch_target; /* of a direct jump or call, else 0 */
	bool is_return;
	bool is_data; /* these bytes are not an instruction */
};

/* The bytes of the longest instruction. */
#define VMS_INSN_MAX 15

/*
 * Decodes `size` bytes of code at `va`, and calls `each` for every instruction until the bytes end
 * or `each` returns false. Bytes that are not an instruction are given as data, ".byte 0x06". The
 * code is `bits` wide: 64, or on x86-64 also 32 or 16. If it is not 64-bit code, its segment begins
 * at `base`. Targets of jumps are virtual addresses, not offsets in the segment. Errors:
 * UNSUPPORTED. For any thread.
 */
bool vms_disassemble(const struct vms_arch *arch, unsigned bits, uint64_t base, uint64_t va,
		     const uint8_t *code, size_t size,
		     bool (*each)(const struct vms_insn *insn, void *data), void *data,
		     GError **error);

VMS_END_DECLS
