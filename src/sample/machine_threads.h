/* SPDX-License-Identifier: MIT */
/* The threads of a machine's process on its host, and the role of each: "vCPU 0", "main loop". */
#pragma once

#include "capture/fxt.h"
#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Of a thread that executes several vCPUs in turns, as under TCG with "thread=single". */
#define VMS_SEVERAL_VCPUS UINT32_MAX

struct vms_machine_threads {
	uint32_t pid;	     /* of the machine's process; 0: unknown */
	GHashTable *vcpus;   /* thread to number of its vCPU, plus one; 0: several */
	GHashTable *names;   /* thread to its name */
	GPtrArray *roles;    /* every role that was asked for, once */
	GHashTable *indices; /* of a role in `roles`, plus one */
};

void vms_machine_threads_init(struct vms_machine_threads *threads);
void vms_machine_threads_clear(struct vms_machine_threads *threads);

/* Notes that a thread of process `pid` executes a vCPU. */
void vms_machine_threads_add_vcpu(struct vms_machine_threads *threads, uint64_t vcpu, uint64_t pid,
				  uint64_t tid);
/* Notes the name of a thread, if the record has one. */
void vms_machine_threads_read_name(struct vms_machine_threads *threads,
				   const struct vms_fxt_record *record);
/* Gets the vCPU of a thread, or VMS_SEVERAL_VCPUS. False if the thread executes no vCPU. */
bool vms_machine_threads_vcpu(const struct vms_machine_threads *threads, uint32_t tid,
			      uint32_t *ret);
/*
 * Returns the index in `roles` of a thread's role. -1 if the thread is of another process, and of
 * no worker of the kernel for this one.
 */
int vms_machine_threads_role(struct vms_machine_threads *threads, uint32_t pid, uint32_t tid);
