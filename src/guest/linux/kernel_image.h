/* SPDX-License-Identifier: MIT */
/* A kernel's image: where it is mapped, and its bytes. */
#pragma once

#include "base/bytes.h"
#include <vmscope/memory.h>

/* What differs in Linux between architectures. */
struct vms_linux_arch {
	const struct vms_arch *arch;
	uint64_t image_first, image_last; /* addresses that the kernel's image may be mapped at */
	uint64_t link_text;		  /* address of _text if KASLR does not move it */
	const char *root_symbol;	  /* name of the kernel's own root page table */
	/* Make `regs` use the page tables at `pa`: the kernel's own, or those of a task. */
	void (*set_root)(struct vms_regs *regs, uint64_t pa);
	void (*set_task_root)(struct vms_regs *regs, uint64_t pa);
	/* Makes registers from VMCOREINFO alone through which kernel memory can be read. */
	bool (*regs_from_vmcoreinfo)(const char *vmcoreinfo, struct vms_regs *ret);
	/* True if these registers tell which page tables a vCPU uses. */
	bool (*has_root)(const struct vms_regs *regs);
	/* Makes `regs` use the page tables that `kernel` uses. */
	void (*share_root)(const struct vms_regs *kernel, struct vms_regs *regs);
	/* Makes `regs` those of the CPU with the per-CPU base `base`. */
	void (*set_percpu_base)(struct vms_regs *regs, uint64_t base);
	/* Returns the size of the pages that these registers' tables lead to, in bytes. */
	uint64_t (*page_size)(const struct vms_regs *regs);
};

extern const struct vms_linux_arch vms_linux_x86_64;
extern const struct vms_linux_arch vms_linux_aarch64;

/* Returns NULL if Linux is not known on this architecture. */
const struct vms_linux_arch *vms_linux_arch_of(const struct vms_arch *arch);

/*
 * Returns the pages that map the kernel's image, as an array of struct vms_page in ascending order;
 * NULL if there are none. The machine should be held: page tables of a process may vanish. `*steps`
 * is that of vms_memory_each_page. All attempts to find one guest share it.
 */
GArray *vms_kernel_image_map(struct vms_memory *memory, const struct vms_linux_arch *arch,
			     uint64_t *steps);

/*
 * Gives the physical address of `va` by those pages. False if it lies in none of them. The kernel
 * does not move, so the result stays true when the page tables are gone.
 */
bool vms_kernel_image_translate(const GArray *pages, uint64_t va, uint64_t *ret);

struct vms_kernel_image {
	uint64_t va;
	struct vms_bytes bytes; /* zero where memory is not mapped or not readable */
	bool is_complete;	/* all mapped memory could be read */
};
/* Reads the image. The machine may run: the kernel does not move in physical memory. */
void vms_kernel_image_read(struct vms_machine *machine, const GArray *pages,
			   struct vms_kernel_image *ret);
void vms_kernel_image_clear(struct vms_kernel_image *image);
