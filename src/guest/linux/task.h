/* SPDX-License-Identifier: MIT */
/* Tasks: threads of the guest's processes and of its kernel. */
#pragma once

#include "guest/linux/linux.h"
#include "guest/processes.h"

/* Finds the offsets. NULL if the kernel's types do not tell where tasks are. */
struct vms_linux_tasks *vms_linux_tasks_new(struct vms_linux *guest);
void vms_linux_tasks_free(struct vms_linux_tasks *tasks);
/* See the functions of these names in guest.h and processes.h. */
size_t vms_linux_ancestors(void *system, struct vms_memory *memory, const struct vms_regs *regs,
			   uint32_t *pids, size_t limit);
bool vms_linux_current(void *system, struct vms_memory *memory, const struct vms_regs *regs,
		       struct vms_task *ret);
GArray *vms_linux_tasks_list(void *system, GError **loss, GError **error);
bool vms_linux_task_regs(void *system, const struct vms_task *task, struct vms_regs *ret,
			 GError **error);
bool vms_linux_add_current(const void *system, GArray *ops);
bool vms_linux_task_layout(const void *system, struct vms_task_layout *ret);
bool vms_linux_task_has(void *system, uint64_t task, uint32_t pid, uint64_t mm);
bool vms_linux_task_wait(void *system, uint64_t task, struct vms_task_wait *ret);
bool vms_linux_is_sleep_code(const void *system, uint64_t pc);
/* Returns the physical address of the page tables of a process's `mm`, or 0. */
uint64_t vms_linux_page_tables(const struct vms_linux *guest, struct vms_memory *memory,
			       uint64_t mm);
/*
 * False if no program has begun in an address space: its task is executing execve(2), and what it
 * has of user registers belongs to the program before (load_elf_binary() in fs/binfmt_elf.c).
 */
bool vms_linux_has_program(const struct vms_linux *guest, struct vms_memory *memory, uint64_t mm);
