/* SPDX-License-Identifier: MIT */
/* What is told of tasks beside who they are: processor time, command line, control group. */
#pragma once

#include "guest/linux/cgroup.h"
#include "guest/linux/task.h"

struct vms_linux_task_facts;

/* Finds the offsets. What the kernel's types do not tell stays unknown. NULL without any types. */
struct vms_linux_task_facts *vms_linux_task_facts_new(const struct vms_linux *guest);
void vms_linux_task_facts_free(struct vms_linux_task_facts *facts);
/* See vms_guest_task_facts. */
bool vms_linux_task_facts(void *system, const struct vms_task *task, struct vms_task_facts *ret);
/* See vms_guest_task_cgroup. */
char *vms_linux_task_cgroup(void *system, const struct vms_task *task);
/* Returns the container of a task (guest/container.h), newly allocated. The caller holds the lock.
 */
char *vms_linux_container(struct vms_linux *guest, uint64_t task);
