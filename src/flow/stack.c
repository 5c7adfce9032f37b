/* SPDX-License-Identifier: MIT */
#include "flow/stack.h"

#include "capture/capture.h"
#include "guest/follower.h"
#include "guest/kernel_code.h"
#include "guest/processes.h"
#include "guest/unwind_info.h"
#include "probe/program_writer.h"
#include <string.h>

/*
 * Bytes that are copied from the stack pointer upwards: the size of a kernel's stack. TASK_BYTES is
 * the size of the second part, the end of the task's stack. It is copied if the vCPU uses another
 * stack, which interrupts and exceptions have.
 */
#define STACK_BYTES	16384u
#define TASK_BYTES	8192u
#define USUAL_TASK_SIZE 16384u

/* The raw values after those of registers. */
enum { RAW_STACK, RAW_TASK_VA, RAW_TASK, N_RAW };

_Static_assert(sizeof(struct vms_flow_stack_frame) == 16, "a frame has no padding");

unsigned vms_flow_stack_raw(const struct vms_arch *arch)
{
	size_t n;
	return vms_walk_registers(arch, &n) ? (unsigned)n + N_RAW : 0;
}

/* ---- where the hit happens ------------------------------------------------------------- */

/* Leaves the address of the lowest byte of the current task's stack. */
static void push_task_stack(const struct vms_guest *guest, uint32_t offset, GArray *ops)
{
	vms_guest_add_current(guest, ops);
	vms_program_load(ops, sizeof(uint64_t), offset);
}

/*
 * Leaves the address of the part of the task's stack that is copied. The address becomes unknown,
 * by a division by 0, if the vCPU uses this stack already, or if it executes a program.
 */
static void push_task_part(const struct vms_arch *arch, const struct vms_guest *guest, GArray *ops)
{
	struct vms_task_layout layout;
	if (!vms_guest_task_layout(guest, &layout) || !layout.stack) {
		vms_program_push(ops, 0);
		vms_program_push(ops, 0);
		vms_program_do(ops, VMS_OP_DIVIDE);
		return;
	}
	const uint32_t size = layout.stack_size ? layout.stack_size : USUAL_TASK_SIZE;
	push_task_stack(guest, layout.stack, ops);
	vms_program_push(ops, size - MIN(size, TASK_BYTES));
	vms_program_do(ops, VMS_OP_ADD);
	vms_program_push(ops, size);
	vms_program_register(ops, arch->sp);
	push_task_stack(guest, layout.stack, ops);
	vms_program_do(ops, VMS_OP_SUBTRACT);
	vms_program_do(ops, VMS_OP_LESS_OR_EQUAL); /* size <= sp - stack */
	vms_program_register(ops, arch->sp);
	vms_program_push(ops, 63);
	vms_program_do(ops, VMS_OP_SHIFT_RIGHT);
	vms_program_do(ops, VMS_OP_AND);
	vms_program_do(ops, VMS_OP_DIVIDE);
}

void vms_flow_stack_collect(const struct vms_arch *arch, const struct vms_guest *guest, GArray *ops)
{
	size_t n;
	const uint8_t *regs = vms_walk_registers(arch, &n);
	for (size_t i = 0; i < n; i++) {
		vms_program_register(ops, regs[i]);
		vms_program_add(ops, VMS_OP_COLLECT, sizeof(uint64_t), 0);
	}
	vms_program_register(ops, arch->sp);
	vms_program_add(ops, VMS_OP_COLLECT_READABLE, STACK_BYTES, 0);
	push_task_part(arch, guest, ops); /* no register has the address, so it is collected, too */
	vms_program_do(ops, VMS_OP_DUPLICATE);
	vms_program_add(ops, VMS_OP_COLLECT, sizeof(uint64_t), 0);
	vms_program_add(ops, VMS_OP_COLLECT_READABLE, TASK_BYTES, 0);
}

/* ---- values that come ------------------------------------------------------------------- */

/* Values that are taken one after another. */
struct taken {
	const uint8_t *at, *end;
};

static bool take_value(struct taken *values, struct vms_value_head *head, const uint8_t **bytes)
{
	if ((size_t)(values->end - values->at) < sizeof(*head))
		return false;
	memcpy(head, values->at, sizeof(*head));
	*bytes = values->at + sizeof(*head);
	if (head->size > (size_t)(values->end - *bytes))
		return false;
	values->at = *bytes + head->size;
	return true;
}

/* Takes a number. Sets it to 0 and `*is_known` to false if it could not be read. */
static bool take_number(struct taken *values, uint64_t *ret, bool *is_known)
{
	struct vms_value_head head;
	const uint8_t *bytes;
	*ret = 0;
	if (!take_value(values, &head, &bytes))
		return false;
	*is_known = head.size == sizeof(*ret);
	if (*is_known)
		memcpy(ret, bytes, sizeof(*ret));
	return true;
}

static bool take_part(struct taken *values, uint64_t va, struct vms_stack_part *ret)
{
	struct vms_value_head head;
	if (!take_value(values, &head, &ret->bytes))
		return false;
	ret->va = va;
	ret->size = head.size;
	return true;
}

/* Takes the raw values of a stack. `copied->regs` has the other registers already. */
static bool take_stack(struct taken *values, const struct vms_arch *arch,
		       struct vms_copied_stack *copied)
{
	size_t n;
	const uint8_t *regs = vms_walk_registers(arch, &n);
	bool is_known;
	uint64_t value;
	for (size_t i = 0; i < n; i++) {
		if (!take_number(values, &value, &is_known))
			return false;
		if (is_known)
			vms_regs_set(&copied->regs, regs[i], value);
		else
			vms_regs_assume(&copied->regs, regs[i], 0);
	}
	return take_part(values, copied->regs.value[arch->sp], &copied->parts[0]) &&
	       take_number(values, &value, &is_known) &&
	       take_part(values, value, &copied->parts[1]);
}

/* ---- walking ----------------------------------------------------------------------------- */

struct vms_flow_walker {
	struct vms_guest *guest;
	struct vms_memory *memory; /* of the kernel */
	struct vms_regs regs;	   /* to translate the kernel's addresses */
	struct vms_stack stack;	   /* of the hit */
};

struct vms_flow_walker *vms_flow_walker_new(struct vms_guest *guest)
{
	struct vms_regs regs;
	if (!vms_guest_kernel_regs(guest, &regs))
		return NULL;
	struct vms_flow_walker *walker = g_new0(struct vms_flow_walker, 1);
	walker->guest = guest;
	walker->regs = regs;
	walker->memory = vms_memory_new(vms_guest_machine(guest), &regs);
	return walker;
}

void vms_flow_walker_free(struct vms_flow_walker *walker)
{
	if (!walker)
		return;
	vms_memory_free(walker->memory);
	g_free(walker);
}

/* True if the stack has loaded code of the kernel, and the loaded code has changed since. */
static bool is_code_outdated(const struct vms_flow_walker *walker)
{
	const struct vms_stack *stack = &walker->stack;
	for (unsigned i = 0; i < stack->n_kernel; i++)
		if (vms_guest_code_changed(walker->guest, walker->memory,
					   stack->frame[i].pc - stack->frame[i].is_return))
			return true;
	return false;
}

static void walk_stack(struct vms_flow_walker *walker, const struct vms_copied_stack *copied)
{
	vms_walk_copied(walker->guest, walker->memory, copied, VMS_STACK_DEFAULT, &walker->stack);
	if (is_code_outdated(walker) && vms_guest_refresh(walker->guest, NULL))
		vms_walk_copied(walker->guest, walker->memory, copied, VMS_STACK_DEFAULT,
				&walker->stack);
	vms_capture_note_code(walker->guest, &walker->stack);
}

static void append_value(GByteArray *out, enum vms_value_status status, const GByteArray *bytes)
{
	const struct vms_value_head head = { (uint16_t)status, (uint16_t)(bytes ? bytes->len : 0) };
	g_byte_array_append(out, (const guint8 *)&head, sizeof(head));
	if (bytes)
		g_byte_array_append(out, bytes->data, bytes->len);
}

static void append_stack(GByteArray *out, const struct vms_stack *stack, bool kernel_only)
{
	const bool is_cut = kernel_only && stack->n_kernel > 0;
	const unsigned n = is_cut ? stack->n_kernel : stack->n;
	const struct vms_flow_stack_head head = {
		GUINT32_TO_LE((uint32_t)stack->kernel_end),
		GUINT32_TO_LE((uint32_t)(is_cut ? stack->kernel_end : stack->end)),
	};
	g_autoptr(GByteArray) bytes = g_byte_array_sized_new(VMS_FLOW_STACK_SIZE);
	g_byte_array_append(bytes, (const guint8 *)&head, sizeof(head));
	for (unsigned i = 0; i < n; i++) {
		const struct vms_frame *from = &stack->frame[i];
		const struct vms_flow_stack_frame frame = {
			GUINT64_TO_LE(from->pc),
			GUINT32_TO_LE(from->code),
			GUINT32_TO_LE((from->is_return ? VMS_FLOW_STACK_RETURN : 0) |
				      (from->is_user ? VMS_FLOW_STACK_USER : 0)),
		};
		g_byte_array_append(bytes, (const guint8 *)&frame, sizeof(frame));
	}
	append_value(out, VMS_VALUE_KNOWN, bytes);
}

/* Takes the raw values of a stack, walks it, and appends the stack as one value. */
static bool convert_stack(struct vms_flow_walker *walker, const struct vms_arch *arch,
			  bool kernel_only, struct taken *values, GByteArray *out)
{
	struct vms_copied_stack copied = { 0 };
	if (walker)
		copied.regs = walker->regs;
	if (!take_stack(values, arch, &copied))
		return false;
	if (!walker || !vms_regs_have(&copied.regs, arch->pc) ||
	    !vms_regs_have(&copied.regs, arch->sp)) {
		append_value(out, VMS_VALUE_UNREADABLE, NULL);
		return true;
	}
	walk_stack(walker, &copied);
	append_stack(out, &walker->stack, kernel_only);
	return true;
}

bool vms_flow_walk_stacks(struct vms_flow_walker *walker, const struct vms_arch *arch,
			  const GArray *stacks, bool kernel_only, const uint8_t *values,
			  size_t size, GByteArray *out)
{
	/* Values of no bytes may be NULL. */
	struct taken left = { values, size ? values + size : values };
	const unsigned n_raw = vms_flow_stack_raw(arch);
	unsigned number = 0;
	for (guint i = 0; i < stacks->len; i++) {
		const unsigned first = g_array_index(stacks, unsigned, i);
		const uint8_t *const begin = left.at, *bytes;
		struct vms_value_head head;
		for (; number < first; number++)
			if (!take_value(&left, &head, &bytes))
				return false;
		g_byte_array_append(out, begin, (guint)(left.at - begin));
		if (!convert_stack(walker, arch, kernel_only, &left, out))
			return false;
		number += n_raw;
	}
	g_byte_array_append(out, left.at, (guint)(left.end - left.at));
	return true;
}

/* ---- values --------------------------------------------------------------------------------- */

bool vms_flow_stack_decode(const void *bytes, size_t size, struct vms_stack *ret)
{
	struct vms_flow_stack_head head;
	struct vms_flow_stack_frame frame;
	const uint8_t *at = bytes;
	if (size < sizeof(head) || (size - sizeof(head)) % sizeof(frame) != 0 ||
	    size > VMS_FLOW_STACK_SIZE)
		return false;
	memcpy(&head, at, sizeof(head));
	ret->kernel_end = (enum vms_walk_end)GUINT32_FROM_LE(head.kernel_end);
	ret->end = (enum vms_walk_end)GUINT32_FROM_LE(head.end);
	ret->n = ret->n_kernel = 0;
	for (at += sizeof(head); at < (const uint8_t *)bytes + size; at += sizeof(frame)) {
		memcpy(&frame, at, sizeof(frame));
		const uint32_t flags = GUINT32_FROM_LE(frame.flags);
		const bool is_user = flags & VMS_FLOW_STACK_USER;
		ret->frame[ret->n++] = (struct vms_frame) {
			.pc = GUINT64_FROM_LE(frame.pc),
			.is_return = flags & VMS_FLOW_STACK_RETURN,
			.is_user = is_user,
			.code = GUINT32_FROM_LE(frame.code),
		};
		ret->n_kernel += !is_user;
	}
	return ret->kernel_end < VMS_WALK_N_ENDS && ret->end < VMS_WALK_N_ENDS;
}

static void format_frame(struct vms_symbolizer *symbolizer, const struct vms_frame *frame,
			 GString *out)
{
	struct vms_location location;
	if (frame->is_user || !symbolizer ||
	    !vms_symbolizer_locate(symbolizer, VMS_KERNEL_SPACE, frame->code,
				   frame->pc - frame->is_return, &location) ||
	    !location.symbol) {
		g_string_append_printf(out, "0x%" G_GINT64_MODIFIER "x%s", frame->pc,
				       frame->is_user ? " (user)" : "");
		return;
	}
	g_string_append_printf(out, "%s+0x%" G_GINT64_MODIFIER "x", location.symbol,
			       location.offset + frame->is_return);
	if (location.module)
		g_string_append_printf(out, " (%s)", location.module);
}

void vms_flow_stack_format(struct vms_symbolizer *symbolizer, const struct vms_stack *stack,
			   GString *out)
{
	for (unsigned i = 0; i < stack->n; i++) {
		if (i)
			g_string_append_c(out, ';');
		format_frame(symbolizer, &stack->frame[i], out);
	}
	if (stack->kernel_end != VMS_WALK_ROOT)
		g_string_append_printf(out, ";[%s]", vms_walk_end_text(stack->kernel_end));
}

bool vms_flow_value_stack(const struct vms_flow_value *value, struct vms_stack *ret)
{
	return value->status == VMS_FLOW_KNOWN &&
	       vms_flow_stack_decode(value->bytes, value->size, ret);
}
