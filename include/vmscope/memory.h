/* SPDX-License-Identifier: MIT */
/*
 * Virtual memory: guest memory as the page tables of one register set show it.
 * While the whole machine is held, translations and pages are cached; the cache
 * is dropped as soon as the machine runs. A memory of one vCPU does so while that vCPU is held: it
 * shows each page as it was when it was first read in this hold, whatever other vCPUs write since.
 * Not shared between threads.
 */
#pragma once

#include <vmscope/machine.h>

G_BEGIN_DECLS

typedef struct vms_memory vms_memory;

/*
 * Keeps a reference to the machine. `regs` is copied. Where they point to a user's reduced page
 * tables (page table isolation) the kernel's are used, which show both halves.
 */
struct vms_memory *vms_memory_new(struct vms_machine *machine, const struct vms_regs *regs);
void vms_memory_free(struct vms_memory *memory);

/* Makes it the memory of one vCPU (see above), or of the whole machine, which it is at first. */
void vms_memory_set_vcpu(struct vms_memory *memory, int vcpu);
/*
 * Sees to it that a vCPU which is glanced at (vms_machine_glance) does not go on while more is
 * read; reading what did not come along does the same. False: it has gone on already, and nothing
 * else can be read.
 */
bool vms_memory_stay(struct vms_memory *memory);
/* Looks through the page tables of other registers from now on. */
void vms_memory_set_regs(struct vms_memory *memory, const struct vms_regs *regs);
const struct vms_regs *vms_memory_regs(const struct vms_memory *memory);
struct vms_machine *vms_memory_machine(struct vms_memory *memory);

/* Reads virtual memory. False when any byte is not mapped or not readable. */
bool vms_memory_read(struct vms_memory *memory, uint64_t va, void *buf, size_t size);
/* Little-endian integers. */
bool vms_memory_read_u64(struct vms_memory *memory, uint64_t va, uint64_t *ret);
bool vms_memory_read_u32(struct vms_memory *memory, uint64_t va, uint32_t *ret);
/*
 * A NUL-terminated string of at most `size` - 1 bytes, cut there; false when
 * nothing could be read. Bytes that no terminal should see become '?'.
 */
bool vms_memory_read_string(struct vms_memory *memory, uint64_t va, char *buf, size_t size);
bool vms_memory_translate(struct vms_memory *memory, uint64_t va, struct vms_page *ret);
/*
 * Calls `each` for every mapped page from `va` to `last`, until it returns false or `*steps`
 * entries of page tables were looked at, which it counts down: VMS_PAGE_STEPS are many.
 */
void vms_memory_each_page(struct vms_memory *memory, uint64_t va, uint64_t last, uint64_t *steps,
			  bool (*each)(const struct vms_page *page, void *data), void *data);
/* This memory as a reader; valid as long as the memory. */
struct vms_reader vms_memory_reader(struct vms_memory *memory);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_memory, vms_memory_free)

G_END_DECLS
