/* SPDX-License-Identifier: MIT */
/*
 * The walk is one loop of steps outwards. It does not trust stack memory: every step must lead
 * further out on the same stack, or to one of a few other stacks, and the depth is limited.
 */
#include "unwind/cursor.h"

#include "unwind/copied_stack.h"
#include <string.h>

/*
 * How often a walk may change to another stack. Interrupts nest, each on a stack of its own:
 * softirq, hardirq, exception, NMI, machine check.
 */
#define STACK_SWITCHES 8
#define FRAME_LIMIT    (8u << 20) /* bytes of one frame; Linux's usual limit of a whole stack */
#define LOWEST_CODE    4096	  /* no code of user mode is at lower addresses */
#define USER_CODE_BITS 56	  /* no architecture has longer addresses in user mode */

const char *vms_walk_end_text(enum vms_walk_end end)
{
	static const char *const texts[VMS_WALK_N_ENDS] = {
		[VMS_WALK_ROOT] = "complete",
		[VMS_WALK_DEPTH] = "truncated",
		[VMS_WALK_UNREADABLE] = "unreadable stack",
		[VMS_WALK_NO_INFO] = "no unwind information",
		[VMS_WALK_BAD_FRAME] = "implausible frame",
	};
	return end < VMS_WALK_N_ENDS ? texts[end] : "unknown";
}

/* True if `pc` may be code that calls, or is called by, the code at `near`. */
static bool is_plausible_code(const struct vms_arch *arch, uint64_t pc, uint64_t near)
{
	if (arch->is_kernel_address(near))
		return arch->is_kernel_address(pc);
	return pc >= LOWEST_CODE && pc >> USER_CODE_BITS == 0;
}

/* True if `va` is mapped, but not executable. Code that is paged out is not mapped. */
static bool is_data(struct vms_cursor *cursor, uint64_t va)
{
	struct vms_page page;
	return vms_memory_translate(cursor->memory, va, &page) && !page.executable;
}

/*
 * Steps out of user code, and out of all code of a guest whose operating system is not known. Code
 * that is compiled without frame pointers may have any value in that register. So a value that
 * cannot be a frame pointer is VMS_WALK_NO_INFO, not VMS_WALK_BAD_FRAME.
 */
static bool step_frame_pointer(struct vms_cursor *cursor, enum vms_walk_end *end)
{
	const struct vms_arch *arch = cursor->arch;
	struct vms_regs *regs = &cursor->regs;
	uint64_t pc = regs->value[arch->pc], sp = regs->value[arch->sp], fp = regs->value[arch->fp];
	struct vms_code_mode mode;
	uint64_t word;

	vms_arch_code_mode(arch, regs, &mode);
	if (mode.bits == 16)
		*end = VMS_WALK_NO_INFO; /* near and far calls leave frames of different sizes */
	else if (fp == 0)
		*end = VMS_WALK_ROOT;
	else if (fp % (mode.bits / 8) != 0 || fp < sp || fp - sp > FRAME_LIMIT)
		*end = VMS_WALK_NO_INFO;
	else if (!cursor->virt.read(cursor->virt.data, fp, &word, mode.bits / 8))
		*end = VMS_WALK_UNREADABLE;
	else if (!arch->step_frame_pointer(regs, &cursor->virt))
		*end = VMS_WALK_ROOT;
	else if (!is_plausible_code(arch, regs->value[arch->pc], pc))
		*end = VMS_WALK_BAD_FRAME;
	else if (is_data(cursor, regs->value[arch->pc] - 1))
		*end = VMS_WALK_NO_INFO;
	else
		return cursor->is_return = true;
	return false;
}

static bool step_outwards(struct vms_cursor *cursor, const struct vms_kernel_unwinder *kernel,
			  enum vms_walk_end *end)
{
	if (kernel && !cursor->is_user)
		return kernel->step(cursor, end);
	return step_frame_pointer(cursor, end);
}

static const struct vms_kernel_unwinder *find_unwinder(const struct vms_arch *arch)
{
	static const struct vms_kernel_unwinder *const unwinders[] = {
		&vms_kernel_unwinder_x86_64,
		&vms_kernel_unwinder_aarch64,
	};
	for (size_t i = 0; i < G_N_ELEMENTS(unwinders); i++)
		if (unwinders[i]->arch == arch)
			return unwinders[i];
	return NULL;
}

static const struct vms_kernel_unwinder *find_kernel_unwinder(const struct vms_guest *guest,
							      const struct vms_arch *arch)
{
	return vms_guest_kind(guest) == VMS_GUEST_LINUX ? find_unwinder(arch) : NULL;
}

static void add_frame(struct vms_stack *stack, const struct vms_cursor *cursor)
{
	stack->frame[stack->n++] = (struct vms_frame) {
		.pc = cursor->regs.value[cursor->arch->pc],
		.sp = cursor->regs.value[cursor->arch->sp],
		.is_return = cursor->is_return,
		.is_user = cursor->is_user,
	};
	if (!cursor->is_user)
		stack->n_kernel++;
}

/* What is kept of a frame until the step out of it has been checked. */
struct origin {
	uint64_t sp;
	bool is_user, is_return;
};

/*
 * True if the step from `from` led outwards: to a higher stack pointer or to user mode. An
 * innermost function may have put nothing on the stack yet: then the stack pointer stays the same.
 * Any other step must be a change to another stack, and those are counted. So no walk goes on for
 * ever.
 */
static bool is_further_out(const struct vms_cursor *cursor, const struct origin *from,
			   unsigned *switches)
{
	uint64_t sp = cursor->regs.value[cursor->arch->sp];
	if (sp > from->sp || cursor->is_user != from->is_user ||
	    (sp == from->sp && !from->is_return && cursor->is_return))
		return true;
	return !from->is_user && ++*switches <= STACK_SWITCHES;
}

/* As vms_walk, with what `virt` gives as the memory of stacks. */
static void walk(struct vms_guest *guest, struct vms_memory *memory, struct vms_reader virt,
		 const struct vms_regs *regs, unsigned depth, struct vms_stack *ret)
{
	const struct vms_arch *arch = vms_machine_arch(vms_memory_machine(memory));
	const struct vms_kernel_unwinder *kernel = find_kernel_unwinder(guest, arch);
	struct vms_cursor cursor = {
		.guest = guest,
		.arch = arch,
		.memory = memory,
		.virt = virt,
		.regs = *regs,
		.is_user = !arch->in_kernel(regs),
	};
	struct origin from;
	unsigned switches = 0;

	vms_arch_flatten(arch, &cursor.regs);
	ret->n = ret->n_kernel = 0;
	ret->kernel_end = VMS_WALK_ROOT;
	add_frame(ret, &cursor);
	for (;;) {
		from = (struct origin) { cursor.regs.value[arch->sp], cursor.is_user,
					 cursor.is_return };
		if (!step_outwards(&cursor, kernel, &ret->end))
			break;
		if (!is_further_out(&cursor, &from, &switches)) {
			ret->end = VMS_WALK_BAD_FRAME;
			break;
		}
		if (ret->n >= MIN(depth, VMS_STACK_LIMIT)) {
			ret->end = VMS_WALK_DEPTH;
			from.is_user = cursor.is_user;
			break;
		}
		add_frame(ret, &cursor);
	}
	if (!from.is_user)
		ret->kernel_end = ret->end;
}

void vms_walk(struct vms_guest *guest, struct vms_memory *memory, const struct vms_regs *regs,
	      unsigned depth, struct vms_stack *ret)
{
	walk(guest, memory, vms_memory_reader(memory), regs, depth, ret);
}

/* ---- stacks that were copied --------------------------------------------- */

const uint8_t *vms_walk_registers(const struct vms_arch *arch, size_t *n)
{
	const struct vms_kernel_unwinder *unwinder = find_unwinder(arch);
	*n = unwinder ? unwinder->n_regs : 0;
	return unwinder ? unwinder->regs : NULL;
}

/* What a walk of a copied stack reads from. */
struct copied_source {
	struct vms_guest *guest;
	struct vms_memory *memory;
	const struct vms_copied_stack *stack;
};

/*
 * Code is read from the guest, as it does not change. All else may have changed since the stack was
 * copied, so what was not copied cannot be read.
 */
static bool read_copied(void *data, uint64_t va, void *buf, size_t size)
{
	const struct copied_source *source = data;
	for (size_t i = 0; i < G_N_ELEMENTS(source->stack->parts); i++) {
		const struct vms_stack_part *part = &source->stack->parts[i];
		if (va < part->va || va - part->va > part->size ||
		    size > part->size - (va - part->va))
			continue;
		memcpy(buf, part->bytes + (va - part->va), size);
		return true;
	}
	return vms_guest_is_kernel_text(source->guest, va) &&
	       vms_memory_read(source->memory, va, buf, size);
}

void vms_walk_copied(struct vms_guest *guest, struct vms_memory *memory,
		     const struct vms_copied_stack *stack, unsigned depth, struct vms_stack *ret)
{
	struct copied_source source = { guest, memory, stack };
	const struct vms_reader virt = { read_copied, &source };
	walk(guest, memory, virt, &stack->regs, depth, ret);
}
