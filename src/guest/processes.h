/* SPDX-License-Identifier: MIT */
/* Processes of a guest, for a call trace: which memory belongs to whom, and what is mapped. */
#pragma once

#include <vmscope/guest.h>

/*
 * Offsets of members of a task_struct, named as in struct vms_task: pid, tgid, mm, comm;
 * `group_leader`, which points to the task_struct of the process; and `stack`, which points to the
 * lowest byte of the task's kernel stack of `stack_size` bytes. That is 0 if the kernel does not
 * tell. While the task executes the kernel, the program's stack pointer is saved at `user_sp` in
 * that stack; 0: not known.
 */
#define VMS_USUAL_TASK_STACK 16384u /* bytes, if the kernel does not tell */
struct vms_task_layout {
	uint32_t tid, pid, mm, comm, group_leader, stack, stack_size, user_sp;
};
/* False if the kernel has no types. The answer stays the same once the guest is recognised. */
bool vms_guest_task_layout(const struct vms_guest *guest, struct vms_task_layout *ret);
/*
 * Appends operations of a probe's program (probe/program.h) to an array of struct vms_op. They
 * leave the address of the task that the vCPU runs on the stack. False if the guest has no tasks.
 */
bool vms_guest_add_current(const struct vms_guest *guest, GArray *ops);
/*
 * True if the task_struct at `task` belongs to process `pid` and has the address space `mm` now.
 * False also if it cannot be read. Any thread may call it.
 */
bool vms_guest_task_has(struct vms_guest *guest, uint64_t task, uint32_t pid, uint64_t mm);

/*
 * Reads the path of a task's control group, as /proc/PID/cgroup shows it, newly allocated. About
 * ten reads of guest memory. NULL if it is not known. For any thread.
 */
char *vms_guest_task_cgroup(struct vms_guest *guest, const struct vms_task *task);

/*
 * Reads the process ids of the ancestors of the task that a held vCPU runs, its parent's first, at
 * most `limit`. `memory` uses the page tables of that vCPU's `regs`. Returns how many there are, up
 * to the guest's first process; 0 if they cannot be read.
 */
size_t vms_guest_ancestors(struct vms_guest *guest, struct vms_memory *memory,
			   const struct vms_regs *regs, uint32_t *pids, size_t limit);

/* Whether a thread runs, and what tells that it has run in between. */
struct vms_task_wait {
	uint32_t pid, tid; /* whose task_struct it is */
	char state;	   /* as in struct vms_task */
	bool is_on_cpu;	   /* a CPU runs it, or is about to switch to it or away from it */
	uint64_t switches; /* how often it was switched away from */
	uint32_t cpu;	   /* the CPU that it ran on last; 0 if that is not known */
};
/*
 * Reads the state of the thread at `task`, an address from vms_guest_tasks. The guest may run. If
 * neither of two reads finds it on a CPU, and both find the same number of switches, then it has
 * not run in between, and its stack is what it was. False if it cannot be read, or if the kernel
 * does not tell all of it. Any thread may call it.
 */
bool vms_guest_task_wait(struct vms_guest *guest, uint64_t task, struct vms_task_wait *ret);
/*
 * True if the kernel code at `pc` only puts threads to sleep: schedule, mutex_lock and the like,
 * which /proc/PID/wchan skips, too.
 */
bool vms_guest_is_sleep_code(const struct vms_guest *guest, uint64_t pc);

/* Largest number of areas of an address space: the kernel's default limit. */
#define VMS_AREAS_LIMIT (1u << 16)
/*
 * Reads the first mapping with code that ends beyond `va` in the address space `mm` (that of a
 * struct vms_task). The guest may run; then the result may be torn. `*areas` is the number of areas
 * of any kind that may still be read, and is counted down: set it to VMS_AREAS_LIMIT once for a
 * whole list. False if there is no such mapping or it cannot be read. The guest's symbolizer owns
 * `ret->name`, and the guest `ret->binary`. Any thread may call it.
 */
bool vms_guest_next_code(struct vms_guest *guest, uint64_t mm, uint64_t va, unsigned *areas,
			 struct vms_mapping *ret);
/*
 * Returns a number that changes when mappings of `mm` come or go, as far as two cheap reads can
 * tell. Any thread may call it.
 */
uint64_t vms_guest_mappings_stamp(struct vms_guest *guest, uint64_t mm);
