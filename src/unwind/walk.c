/* SPDX-License-Identifier: MIT */
/*
 * The walk is one loop of steps outwards. It does not trust stack memory: every step must lead
 * further out on the same stack, or to one of a few other stacks, and the depth is limited.
 */
#include "unwind/cursor.h"

#include "unwind/copied_stack.h"
#include "unwind/kernel_half.h"
#include "unwind/user_frame.h"
#include <string.h>

/*
 * How often a walk may change to another stack. Interrupts nest, each on a stack of its own:
 * softirq, hardirq, exception, NMI, machine check.
 */
#define STACK_SWITCHES 8

const char *vms_walk_end_text(enum vms_walk_end end)
{
	static const char *const texts[VMS_WALK_N_ENDS] = {
		[VMS_WALK_ROOT] = "complete",
		[VMS_WALK_DEPTH] = "truncated",
		[VMS_WALK_UNREADABLE] = "unreadable stack",
		[VMS_WALK_NO_INFO] = "no unwind information",
		[VMS_WALK_BAD_FRAME] = "implausible frame",
		[VMS_WALK_NO_TABLE] = "unwind table not in memory",
		[VMS_WALK_GOROUTINE] = "callers on a goroutine's stack",
	};
	return end < VMS_WALK_N_ENDS ? texts[end] : "unknown";
}

static bool step_outwards(struct vms_cursor *cursor, const struct vms_kernel_unwinder *kernel,
			  enum vms_walk_end *end)
{
	if (kernel && !cursor->is_user)
		return kernel->step(cursor, end);
	return vms_step_user_frame(cursor, end);
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
	/* A signal's handler may have a stack of its own. */
	return (!from->is_user || cursor->is_after_signal) && ++*switches <= STACK_SWITCHES;
}

/* Adds the frame that the cursor is at, and those that lead there. `user`: see vms_walk_to_user. */
static bool walk(struct vms_cursor *cursor, unsigned depth, struct vms_regs *user,
		 struct vms_stack *ret)
{
	const struct vms_arch *arch = cursor->arch;
	const struct vms_kernel_unwinder *kernel = find_kernel_unwinder(cursor->guest, arch);
	struct origin from;
	unsigned switches = 0;

	for (;;) {
		if (user && cursor->is_user) {
			*user = cursor->regs;
			ret->end = VMS_WALK_ROOT;
			return true;
		}
		if (ret->n >= MIN(depth, VMS_STACK_LIMIT)) {
			ret->end = VMS_WALK_DEPTH;
			from.is_user = cursor->is_user;
			break;
		}
		add_frame(ret, cursor);
		from = (struct origin) { cursor->regs.value[arch->sp], cursor->is_user,
					 cursor->is_return };
		if (!step_outwards(cursor, kernel, &ret->end))
			break;
		if (!is_further_out(cursor, &from, &switches)) {
			ret->end = VMS_WALK_BAD_FRAME;
			break;
		}
	}
	if (!from.is_user)
		ret->kernel_end = ret->end;
	return false;
}

static struct vms_cursor make_cursor(struct vms_guest *guest, struct vms_memory *memory,
				     struct vms_reader virt, const struct vms_regs *regs)
{
	const struct vms_arch *arch = vms_machine_arch(vms_memory_machine(memory));
	struct vms_cursor cursor = {
		.guest = guest,
		.arch = arch,
		.memory = memory,
		.virt = virt,
		.regs = *regs,
		.is_user = !arch->in_kernel(regs),
	};
	vms_arch_flatten(arch, &cursor.regs);
	return cursor;
}

static void clear_stack(struct vms_stack *stack)
{
	stack->n = stack->n_kernel = 0;
	stack->kernel_end = stack->end = VMS_WALK_ROOT;
}

void vms_walk(struct vms_guest *guest, struct vms_memory *memory, const struct vms_regs *regs,
	      unsigned depth, struct vms_stack *ret)
{
	struct vms_cursor cursor = make_cursor(guest, memory, vms_memory_reader(memory), regs);
	clear_stack(ret);
	walk(&cursor, depth, NULL, ret);
}

bool vms_walk_to_user(struct vms_guest *guest, struct vms_memory *memory,
		      const struct vms_regs *regs, unsigned depth, struct vms_stack *ret,
		      struct vms_regs *user)
{
	struct vms_cursor cursor = make_cursor(guest, memory, vms_memory_reader(memory), regs);
	clear_stack(ret);
	return walk(&cursor, depth, user, ret);
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
	uint64_t read_end; /* behind the highest byte of the copy that was read; 0: none was */
};

/*
 * Code is read from the guest, as it does not change. All else may have changed since the stack was
 * copied, so what was not copied cannot be read.
 */
static bool read_copied(void *data, uint64_t va, void *buf, size_t size)
{
	struct copied_source *source = data;
	for (size_t i = 0; i < G_N_ELEMENTS(source->stack->parts); i++) {
		const struct vms_stack_part *part = &source->stack->parts[i];
		if (va < part->va || va - part->va > part->size ||
		    size > part->size - (va - part->va))
			continue;
		memcpy(buf, part->bytes + (va - part->va), size);
		source->read_end = MAX(source->read_end, va + size);
		return true;
	}
	return vms_guest_is_kernel_text(source->guest, va) &&
	       vms_memory_read(source->memory, va, buf, size);
}

/* `user`: see vms_walk_copied_to_user; NULL: user frames are walked, too. */
static bool walk_copied(struct vms_guest *guest, struct vms_memory *memory,
			const struct vms_copied_stack *stack, unsigned depth, struct vms_stack *ret,
			struct vms_regs *user)
{
	struct copied_source source = { guest, memory, stack, 0 };
	const struct vms_reader virt = { read_copied, &source };
	struct vms_cursor cursor = make_cursor(guest, memory, virt, &stack->regs);
	clear_stack(ret);
	return walk(&cursor, depth, user, ret);
}

void vms_walk_copied(struct vms_guest *guest, struct vms_memory *memory,
		     const struct vms_copied_stack *stack, unsigned depth, struct vms_stack *ret)
{
	walk_copied(guest, memory, stack, depth, ret, NULL);
}

bool vms_walk_copied_to_user(struct vms_guest *guest, struct vms_memory *memory,
			     const struct vms_copied_stack *stack, unsigned depth,
			     struct vms_stack *ret, struct vms_regs *user)
{
	return walk_copied(guest, memory, stack, depth, ret, user);
}

uint64_t vms_walk_copied_user(struct vms_guest *guest, struct vms_memory *memory,
			      const struct vms_process *process,
			      const struct vms_copied_stack *stack, unsigned depth,
			      struct vms_stack *ret)
{
	struct copied_source source = { guest, memory, stack, 0 };
	const struct vms_reader virt = { read_copied, &source };
	/* The registers were flattened when the kernel's frames were walked. */
	struct vms_cursor cursor = {
		.guest = guest,
		.arch = vms_machine_arch(vms_memory_machine(memory)),
		.memory = memory,
		.virt = virt,
		.regs = stack->regs,
		.is_user = true,
		.process = process,
	};
	walk(&cursor, depth, NULL, ret);
	return source.read_end;
}
