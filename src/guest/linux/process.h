/* SPDX-License-Identifier: MIT */
/* Processes that were seen, and what is known of their memory areas. */
#pragma once

#include "guest/linux/linux.h"
#include "guest/processes.h"

struct vms_linux_processes *vms_linux_processes_new(struct vms_linux *guest);
void vms_linux_processes_free(struct vms_linux_processes *processes);
/* See the functions of these names in guest.h and processes.h. */
const struct vms_process *vms_linux_process(void *system, const struct vms_task *task);
void vms_linux_note_address(void *system, struct vms_memory *memory,
			    const struct vms_process *process, uint64_t va);
void vms_linux_read_files(void *system);
bool vms_linux_enter_process(void *system, struct vms_memory *memory,
			     const struct vms_process *process);
bool vms_linux_user_code(void *system, struct vms_memory *memory, const struct vms_process *process,
			 uint64_t va, struct vms_mapping *ret);
bool vms_linux_next_code(void *system, uint64_t mm, uint64_t va, unsigned *areas,
			 struct vms_mapping *ret);
uint64_t vms_linux_mappings_stamp(void *system, uint64_t mm);
