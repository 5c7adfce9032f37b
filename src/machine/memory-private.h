/* SPDX-License-Identifier: MIT */
/* Copies of memory that is read at once while a vCPU is held, such as stacks. */
#pragma once

#include <vmscope/memory.h>

/*
 * Reads up to `size` bytes from `va` on, all at once where the machine can do that: up to the first
 * page that is not mapped or cannot be read. Returns their number. At most 64 KiB.
 */
size_t vms_memory_read_start(struct vms_memory *memory, uint64_t va, void *buf, size_t size);
/*
 * Reads virtual memory if all of it has come along with a brief hold. Does not pin the vCPU for it.
 */
bool vms_memory_read_prefetched(struct vms_memory *memory, uint64_t va, void *buf, size_t size);
/*
 * Asks for memory to come along with the next brief hold of the vCPU. Nothing happens for memory of
 * the whole machine, and for what is not mapped.
 */
void vms_memory_prefetch(struct vms_memory *memory, uint64_t va, size_t size);
