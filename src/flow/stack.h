/* SPDX-License-Identifier: MIT */
/*
 * Stacks at hits. vmscope walks a stack from its raw values, and replaces them by one value: a
 * struct vms_flow_stack_head and its frames.
 */
#pragma once

#include "flow/stack_raw.h"

/* Largest size of a value in bytes. */
#define VMS_FLOW_STACK_SIZE                                                                        \
	(sizeof(struct vms_flow_stack_head) +                                                      \
	 VMS_STACK_DEFAULT * sizeof(struct vms_flow_stack_frame))

/* The head of a value. Numbers are little-endian, because values are also saved in files. */
struct vms_flow_stack_head {
	uint32_t kernel_end, end; /* enum vms_walk_end */
};

#define VMS_FLOW_STACK_RETURN (1u << 0) /* flags: see struct vms_frame */
#define VMS_FLOW_STACK_USER   (1u << 1)
struct vms_flow_stack_frame {
	uint64_t pc;
	uint32_t code; /* of the kernel: see struct vms_frame; of a program: its address space */
	uint32_t flags;
};

/*
 * Decodes a value. The numbers of loaded code are only valid in the process that made the value.
 * False if the bytes are not a stack.
 */
bool vms_flow_stack_decode(const void *bytes, size_t size, struct vms_stack *ret);
/* Appends the frames of a stack from the innermost outwards, with ";" between them. */
void vms_flow_stack_format(struct vms_symbolizer *symbolizer, const struct vms_stack *stack,
			   GString *out);

/* Walks the stacks of a flow's hits. For one thread at a time. */
typedef struct vms_flow_walker vms_flow_walker;

/*
 * Makes a walker of a guest, which must outlive it. NULL if the guest's kernel is not known, so
 * that no stack can be walked.
 */
struct vms_flow_walker *vms_flow_walker_new(struct vms_guest *guest);
void vms_flow_walker_free(struct vms_flow_walker *walker);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_flow_walker, vms_flow_walker_free)
/*
 * Copies values to `out`, and walks the stacks among them. `stacks` is an array of unsigned: the
 * numbers of the first raw values of each stack, in ascending order. If `walker` is NULL, stacks
 * become unknown values. False if values are missing. Files of programs are read: not for a thread
 * that holds the machine.
 */
bool vms_flow_walk_stacks(struct vms_flow_walker *walker, const struct vms_arch *arch,
			  const GArray *stacks, const uint8_t *values, size_t size,
			  GByteArray *out);
