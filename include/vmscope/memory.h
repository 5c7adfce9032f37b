/* SPDX-License-Identifier: MIT */
/*
 * Virtual memory: guest memory as the page tables of one set of registers show it. It caches
 * translations and pages while the whole machine is held. A release makes the cache void. The
 * memory of one vCPU caches while that vCPU is held: it shows each page as it was when it was first
 * read in this hold, whatever other vCPUs have written since. Only one thread may use a memory.
 */
#pragma once

#include <vmscope/machine.h>

VMS_BEGIN_DECLS

typedef struct vms_memory vms_memory;

/*
 * Makes the memory of the whole machine as `regs` show it. Keeps a reference to the machine, and
 * copies `regs`. If these point to the reduced page tables of a user (page table isolation), the
 * kernel's are used instead, which show both halves.
 */
struct vms_memory *vms_memory_new(struct vms_machine *machine, const struct vms_regs *regs);
void vms_memory_free(struct vms_memory *memory);

/* Makes it the memory of one vCPU (see above), or of the whole machine (VMS_ALL_VCPUS). */
void vms_memory_set_vcpu(struct vms_memory *memory, int vcpu);
/*
 * Marks that who reads by it takes samples: nothing that it leads to waits for a disk. What is not
 * in memory is fetched by vms_guest_read_files, for later samples.
 */
void vms_memory_set_urgent(struct vms_memory *memory);
bool vms_memory_is_urgent(const struct vms_memory *memory);
/*
 * Pins a vCPU that is held briefly (vms_machine_hold_briefly): it stays held until it is released.
 * Reading memory that was not prefetched does the same. False if the vCPU has gone on already: then
 * only prefetched memory can be read.
 */
bool vms_memory_pin(struct vms_memory *memory);
/* Uses the page tables of other registers from now on. `regs` is copied. */
void vms_memory_set_regs(struct vms_memory *memory, const struct vms_regs *regs);
const struct vms_regs *vms_memory_regs(const struct vms_memory *memory);
/*
 * Makes reading cost steps of a budget, of which it takes a reference. When that is used up,
 * nothing can be read. NULL, as at the begin: reading is free, as it must be for samples.
 */
void vms_memory_set_budget(struct vms_memory *memory, struct vms_budget *budget);
struct vms_budget *vms_memory_budget(const struct vms_memory *memory);
struct vms_machine *vms_memory_machine(struct vms_memory *memory);

/* Reads virtual memory. False if any byte is not mapped or cannot be read. */
bool vms_memory_read(struct vms_memory *memory, uint64_t va, void *buf, size_t size);
/* Read a little-endian integer. */
bool vms_memory_read_u64(struct vms_memory *memory, uint64_t va, uint64_t *ret);
bool vms_memory_read_u32(struct vms_memory *memory, uint64_t va, uint32_t *ret);
/*
 * Reads a NUL-terminated string, and cuts it after `size` - 1 bytes. Bytes that must not reach a
 * terminal become '?'. False if nothing could be read.
 */
bool vms_memory_read_string(struct vms_memory *memory, uint64_t va, char *buf, size_t size);
/* Finds the page that a virtual address is mapped to. False if it is not mapped. */
bool vms_memory_translate(struct vms_memory *memory, uint64_t va, struct vms_page *ret);
/*
 * Calls `each` for every mapped page from `va` to `last`, until that returns false. It looks at no
 * more than `*steps` entries of page tables, and counts `*steps` down: VMS_PAGE_STEPS are many.
 */
void vms_memory_each_page(struct vms_memory *memory, uint64_t va, uint64_t last, uint64_t *steps,
			  bool (*each)(const struct vms_page *page, void *data), void *data);
/* A reader of this memory. It is valid as long as the memory. */
struct vms_reader vms_memory_reader(struct vms_memory *memory);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_memory, vms_memory_free)

VMS_END_DECLS
