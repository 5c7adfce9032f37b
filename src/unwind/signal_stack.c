/* SPDX-License-Identifier: MIT */
/*
 * Linux puts a struct ucontext on the handler's stack (asm/sigframe.h, asm/ucontext.h), at an
 * address that depends on how much state the processor has. The struct tells where the handler's
 * stack begins and how long it is: it is known by lying there itself.
 */
#include "unwind/signal_stack.h"
#include <string.h>

#define SP_LIMIT   (UINT64_C(1) << 56) /* no address of user mode is longer */
#define SIZE_LIMIT (16u << 20)	       /* bytes of a handler's stack; usually some KiB */

/* uc_stack of struct ucontext. */
struct alternate_stack {
	uint64_t begin;
	uint32_t flags, unused;
	uint64_t size;
};
#define FLAGS (UINT32_C(1) | UINT32_C(1) << 31) /* SS_ONSTACK, SS_AUTODISARM */

/* Returns how far the saved stack pointer is behind uc_stack, or 0. */
static size_t find_sp_offset(const struct vms_arch *arch)
{
	return arch == &vms_arch_x86_64 ? 144 : arch == &vms_arch_aarch64 ? 416 : 0;
}

bool vms_find_interrupted_stack(const struct vms_arch *arch, const struct vms_stack_part *part,
				uint64_t *sp)
{
	const size_t sp_offset = find_sp_offset(arch), size = sp_offset + sizeof(*sp);
	for (size_t at = 0; sp_offset && part->size >= size && at <= part->size - size; at += 8) {
		struct alternate_stack stack;
		memcpy(&stack, part->bytes + at, sizeof(stack));
		stack.begin = GUINT64_FROM_LE(stack.begin);
		stack.size = GUINT64_FROM_LE(stack.size);
		/* It wraps around below the begin. */
		if (stack.size > SIZE_LIMIT || part->va + at - stack.begin >= stack.size ||
		    (GUINT32_FROM_LE(stack.flags) & ~FLAGS))
			continue;
		memcpy(sp, part->bytes + at + sp_offset, sizeof(*sp));
		*sp = GUINT64_FROM_LE(*sp);
		if (*sp - stack.begin > stack.size && *sp < SP_LIMIT && *sp % 8 == 0)
			return true;
	}
	return false;
}
