/* SPDX-License-Identifier: MIT */
/*
 * Stacks at hits. Where the hit happens, a program collects registers and copies the stack: some
 * values, the raw ones. When the hit has come to vmscope, the stack is walked, and one value takes
 * their place: a struct vms_flow_stack_head and its frames.
 */
#pragma once

#include "unwind/copied_stack.h"
#include <vmscope/flow.h>

/* Bytes of a value at most. */
#define VMS_FLOW_STACK_SIZE                                                                        \
	(sizeof(struct vms_flow_stack_head) +                                                      \
	 VMS_STACK_DEFAULT * sizeof(struct vms_flow_stack_frame))

/* How a value begins. Numbers are little-endian, as all of it may be in a file. */
struct vms_flow_stack_head {
	uint32_t kernel_end, end; /* enum vms_walk_end */
};

#define VMS_FLOW_STACK_RETURN (1u << 0) /* flags: see struct vms_frame */
#define VMS_FLOW_STACK_USER   (1u << 1)
struct vms_flow_stack_frame {
	uint64_t pc;
	uint32_t code, flags;
};

/* Returns how many raw values a stack has. 0: stacks of this architecture cannot be copied. */
unsigned vms_flow_stack_raw(const struct vms_arch *arch);
/* Appends operations that collect the raw values to an array of struct vms_op. */
void vms_flow_stack_collect(const struct vms_arch *arch, const struct vms_guest *guest,
			    GArray *ops);
/*
 * Decodes a value. Addresses of code that was loaded have numbers only if the value was made by
 * this process. False: these bytes are no stack.
 */
bool vms_flow_stack_decode(const void *bytes, size_t size, struct vms_stack *ret);
/* Appends the frames of a stack from the innermost outwards, with ";" between them. */
void vms_flow_stack_format(struct vms_symbolizer *symbolizer, const struct vms_stack *stack,
			   GString *out);

/* Walks the stacks of a flow's hits. For one thread at a time. */
typedef struct vms_flow_walker vms_flow_walker;

/*
 * Makes a walker of a guest, which must outlive it. NULL: nothing is known of the guest's kernel,
 * so no stack can be walked.
 */
struct vms_flow_walker *vms_flow_walker_new(struct vms_guest *guest);
void vms_flow_walker_free(struct vms_flow_walker *walker);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_flow_walker, vms_flow_walker_free)
/*
 * Copies values to `out`, with stacks walked: `stacks` are the numbers of their first raw values,
 * rising, an array of unsigned. `kernel_only`: frames of programs are left out, if there are
 * others. `walker` may be NULL: then each stack is a value that is not known. False: the values are
 * not whole.
 */
bool vms_flow_walk_stacks(struct vms_flow_walker *walker, const struct vms_arch *arch,
			  const GArray *stacks, bool kernel_only, const uint8_t *values,
			  size_t size, GByteArray *out);
