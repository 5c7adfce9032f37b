/* SPDX-License-Identifier: MIT */
/*
 * What vmscope knows of a processor architecture: its registers, its page
 * tables, its frame-pointer convention, its instructions. One const struct of
 * operations per architecture; callers never name an architecture. All of it is for any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vmscope/declare.h>

VMS_BEGIN_DECLS

/* No architecture describes more registers than this. */
#define VMS_REGS_MAX 128

/* A register file. Which register an index names, the architecture tells. */
struct vms_regs {
	uint64_t value[VMS_REGS_MAX];
	uint64_t valid[VMS_REGS_MAX / 64]; /* bit i % 64 of word i / 64: value[i] is known */
};

static inline bool vms_regs_have(const struct vms_regs *regs, unsigned index)
{
	return index < VMS_REGS_MAX && (regs->valid[index / 64] >> index % 64 & 1);
}

static inline void vms_regs_set(struct vms_regs *regs, unsigned index, uint64_t value)
{
	regs->value[index] = value;
	regs->valid[index / 64] |= UINT64_C(1) << index % 64;
}

static inline void vms_regs_forget(struct vms_regs *regs, unsigned index)
{
	regs->valid[index / 64] &= ~(UINT64_C(1) << index % 64);
}

/* Gives a register that nobody knows the value that translation and other readers go on with. */
static inline void vms_regs_assume(struct vms_regs *regs, unsigned index, uint64_t value)
{
	regs->value[index] = value;
	vms_regs_forget(regs, index);
}

/* Takes over a register, known or assumed. */
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
	/* Not needed to walk page tables and stacks; a stub that wants it asked for is spared. */
	bool is_seldom;
};

/*
 * Reads guest memory, physical or virtual as the user of it says.
 * Returns false, with the buffer's content undefined, when any byte of the
 * range cannot be read.
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

/* How a vCPU executes: how wide its code is, and what its addresses count from. */
struct vms_code_mode {
	unsigned bits;	     /* of its code: 64, 32 or 16 */
	uint64_t code_base;  /* of the code segment: the next instruction is at this plus pc */
	uint64_t stack_base; /* of the stack segment, likewise */
	bool is_certain;     /* false: the known registers do not tell; this is the usual */
};

/* Entries of page tables that one question looks at: what any kernel needs, in a second or two. */
#define VMS_PAGE_STEPS (UINT64_C(1) << 26)

struct vms_arch {
	const char *name;     /* as `uname -m` names it */
	const char *gdb_name; /* as gdb's target descriptions name it */
	const char *alias;    /* another usual name, or NULL */
	const struct vms_reg_desc *regs;
	unsigned n_regs;
	unsigned pc, sp, fp; /* indices into a register file */

	/*
	 * Finds the page that maps `va` by walking the page tables that `regs`
	 * points to, through `phys`. With paging off, identity. False when not
	 * mapped or the tables cannot be read.
	 */
	bool (*translate)(const struct vms_regs *regs, const struct vms_reader *phys, uint64_t va,
			  struct vms_page *ret);
	/*
	 * Calls `each` for every mapped page from `va` up to and including `last`, in order, until
	 * it returns false. Tables may be built to keep a reader busy: it gives up after `*steps`
	 * entries of tables, which it counts down.
	 */
	void (*each_page)(const struct vms_regs *regs, const struct vms_reader *phys, uint64_t va,
			  uint64_t last, uint64_t *steps,
			  bool (*each)(const struct vms_page *page, void *data), void *data);
	/* The kernel's half of the address space (by the usual convention). */
	bool (*is_kernel_address)(uint64_t va);
	/* Is the vCPU in kernel mode, by its registers? Firmware is, in real mode too. */
	bool (*in_kernel)(const struct vms_regs *regs);
	/* Optional: without it code is always 64 bits wide, and addresses count from 0. */
	void (*code_mode)(const struct vms_regs *regs, struct vms_code_mode *ret);
	/*
	 * Optional: do addresses count from segments, and are those still to be asked for? They
	 * are seldom needed, and slow to ask for.
	 */
	bool (*lacks_segments)(const struct vms_regs *regs);
	/*
	 * Is the vCPU waiting in its halt instruction? `code` is the
	 * VMS_HALT_BYTES bytes that end just before the program counter.
	 */
	bool (*is_halted)(const struct vms_regs *regs, const uint8_t *code);
	/*
	 * Makes `regs` point to the kernel's own page tables where they point to a user's reduced
	 * ones (page table isolation); leaves them as they are elsewhere.
	 */
	void (*kernel_root)(struct vms_regs *regs, const struct vms_reader *phys);
	/* The paging mode in words, e.g. "5-level paging, 57-bit virtual addresses". */
	const char *(*paging_mode)(const struct vms_regs *regs);
	/*
	 * One frame outwards by the frame-pointer convention of 64-bit or 32-bit code. Changes pc,
	 * sp and fp of `regs`, which are addresses (see vms_arch_flatten) before and after; false
	 * when there is no caller to be found. Whether the new frame pointer leads on is for the
	 * next step to find out.
	 */
	bool (*step_frame_pointer)(struct vms_regs *regs, const struct vms_reader *virt);

	int capstone_arch, capstone_mode;
};

#define VMS_HALT_BYTES 4

extern const struct vms_arch vms_arch_x86_64;
extern const struct vms_arch vms_arch_aarch64;

/* The architecture that QEMU, `uname -m` or gdb calls `name`, or NULL. */
const struct vms_arch *vms_arch_by_name(const char *name);

/* The index of the register called `name`, or -1. */
int vms_arch_reg(const struct vms_arch *arch, const char *name);

/* How the vCPU with these registers executes. */
void vms_arch_code_mode(const struct vms_arch *arch, const struct vms_regs *regs,
			struct vms_code_mode *ret);
/* The virtual address of the next instruction, whatever segment it is in. */
uint64_t vms_arch_code_address(const struct vms_arch *arch, const struct vms_regs *regs);
/*
 * Turns pc, sp and fp into virtual addresses, where they are offsets in segments. A frame pointer
 * of 0 stays: there is no frame. To be done once.
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
	bool is_data; /* these bytes are no instruction */
};

/* No instruction is longer, in bytes. */
#define VMS_INSN_MAX 15

/*
 * Decodes `size` bytes of code that lie at `va`, and calls `each` for every instruction, until the
 * bytes end or `each` returns false. What is no instruction is given as data, ".byte 0x06". The
 * code is `bits` wide: 64, or on x86-64 also 32 or 16. Of code that is not in 64-bit mode, `base`
 * is where its segment begins: targets of jumps are addresses, not offsets in the segment.
 * Errors: UNSUPPORTED. For any thread.
 */
bool vms_disassemble(const struct vms_arch *arch, unsigned bits, uint64_t base, uint64_t va,
		     const uint8_t *code, size_t size,
		     bool (*each)(const struct vms_insn *insn, void *data), void *data,
		     GError **error);

VMS_END_DECLS
