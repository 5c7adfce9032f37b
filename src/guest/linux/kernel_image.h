/* SPDX-License-Identifier: MIT */
/* Where a kernel's image is mapped, and its bytes. */
#pragma once

#include "base/bytes.h"
#include <vmscope/memory.h>

/* What of Linux depends on the architecture. */
struct vms_linux_arch {
	const struct vms_arch *arch;
	uint64_t image_first, image_last; /* addresses that the kernel's image may be mapped at */
	uint64_t link_text;		  /* where _text is when KASLR does not move it */
	const char *root_symbol;	  /* the kernel's own root page table */
	/* Makes `regs` use the page tables at `pa`: the kernel's own, or those of a task. */
	void (*set_root)(struct vms_regs *regs, uint64_t pa);
	void (*set_task_root)(struct vms_regs *regs, uint64_t pa);
	/* Registers that show the kernel's memory, made from VMCOREINFO alone. */
	bool (*regs_from_vmcoreinfo)(const char *vmcoreinfo, struct vms_regs *ret);
	/* Do these registers say which page tables a vCPU uses? */
	bool (*has_root)(const struct vms_regs *regs);
	/* Makes `regs` use the page tables that `kernel` uses. */
	void (*share_root)(const struct vms_regs *kernel, struct vms_regs *regs);
	/* Makes `regs` those of the CPU with this per-CPU base. */
	void (*set_percpu_base)(struct vms_regs *regs, uint64_t base);
};

extern const struct vms_linux_arch vms_linux_x86_64;
extern const struct vms_linux_arch vms_linux_aarch64;

/* NULL when Linux is not known on this architecture. */
const struct vms_linux_arch *vms_linux_arch_of(const struct vms_arch *arch);

/*
 * The pages that the kernel's image is mapped by, as an array of struct vms_page in ascending
 * order; NULL when none are. For a held machine: page tables of a process may vanish. `*steps` as
 * vms_memory_each_page takes it: all that is tried for one guest shares them.
 */
GArray *vms_kernel_image_map(struct vms_memory *memory, const struct vms_linux_arch *arch,
			     uint64_t *steps);

/*
 * The physical address of `va`, by those pages; false when it is in none of them. The kernel does
 * not move, so this is right when the page tables that told it are long gone.
 */
bool vms_kernel_image_translate(const GArray *pages, uint64_t va, uint64_t *ret);

struct vms_kernel_image {
	uint64_t va;
	struct vms_bytes bytes; /* what is not mapped or not readable is zero */
	bool is_complete;	/* all that is mapped could be read */
};
/* Reads the image. The machine may run: the kernel does not move in physical memory. */
void vms_kernel_image_read(struct vms_machine *machine, const GArray *pages,
			   struct vms_kernel_image *ret);
void vms_kernel_image_clear(struct vms_kernel_image *image);
