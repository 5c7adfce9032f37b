/* SPDX-License-Identifier: MIT */
/* A task of the guest, read when a vCPU switched to it. A plain value. */
#pragma once

#include <stdint.h>

struct task {
	uint64_t va; /* of its task_struct; the task's key; 0: no task is known */
	uint64_t mm; /* of its mm_struct; 0: a kernel thread */
	uint32_t tid, pid;
	char name[16];
};
