/* SPDX-License-Identifier: MIT */
#include "flow/stack.h"

#include "capture/capture.h"
#include "guest/follower.h"
#include "guest/kernel_code.h"
#include "guest/unwind_info.h"
#include <string.h>

_Static_assert(sizeof(struct vms_flow_stack_frame) == 16, "a frame has no padding");

/* ---- walking ----------------------------------------------------------------------------- */

struct vms_flow_walker {
	struct vms_guest *guest;
	struct vms_memory *memory; /* of the kernel */
	struct vms_regs regs;	   /* to translate the kernel's addresses */
	struct vms_stack stack;	   /* of the hit */
	struct vms_user_copy user; /* of the hit */
	uint32_t space;		   /* of the program's frames */
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

/* Walks the kernel's frames. True if a program's frames follow, whose registers are `*user`. */
static bool walk_kernel(struct vms_flow_walker *walker, const struct vms_copied_stack *copied,
			struct vms_regs *user)
{
	bool is_user;
	for (unsigned tries = 0;; tries++) {
		is_user = vms_walk_copied_to_user(walker->guest, walker->memory, copied,
						  VMS_STACK_DEFAULT, &walker->stack, user);
		if (tries || !is_code_outdated(walker) || !vms_guest_refresh(walker->guest, NULL))
			break;
	}
	vms_capture_note_code(walker->guest, &walker->stack);
	return is_user;
}

/*
 * Walks the program's frames. If the copy does not begin at the stack pointer that the kernel's
 * frames lead to, it is of something else: the walk ends at the first frame then.
 */
static void walk_user(struct vms_flow_walker *walker, const struct vms_arch *arch,
		      const struct vms_stack_raw *raw, const struct vms_regs *regs)
{
	struct vms_user_copy *copy = &walker->user;
	const bool is_its = raw->user.va == regs->value[arch->sp];
	copy->process = raw->has_process ? vms_guest_process(walker->guest, &raw->task) : NULL;
	copy->regs = *regs;
	copy->size = is_its ? MIN(raw->user.size, VMS_USER_COPY_SIZE) : 0;
	memcpy(copy->bytes, raw->user.bytes, copy->size);
	walker->space = copy->process ? copy->process->index : VMS_NO_SPACE;
	if (copy->process) {
		vms_capture_finish(walker->guest, walker->memory, VMS_STACK_DEFAULT, copy,
				   &walker->stack);
		vms_guest_read_files(walker->guest);
		return;
	}
	const struct vms_copied_stack copied = {
		.regs = *regs, .parts = { { regs->value[arch->sp], copy->bytes, copy->size } }
	};
	vms_walk_copied_user(walker->guest, walker->memory, NULL, &copied, VMS_STACK_DEFAULT,
			     &walker->stack);
}

static void append_value(GByteArray *out, enum vms_value_status status, const GByteArray *bytes)
{
	const struct vms_value_head head = { (uint16_t)status, (uint16_t)(bytes ? bytes->len : 0) };
	g_byte_array_append(out, (const guint8 *)&head, sizeof(head));
	if (bytes)
		g_byte_array_append(out, bytes->data, bytes->len);
}

static void append_stack(const struct vms_flow_walker *walker, bool user_only, GByteArray *out)
{
	const struct vms_stack *stack = &walker->stack;
	const unsigned first = user_only ? stack->n_kernel : 0;
	const struct vms_flow_stack_head head = {
		GUINT32_TO_LE((uint32_t)stack->kernel_end),
		GUINT32_TO_LE((uint32_t)stack->end),
	};
	g_autoptr(GByteArray) bytes = g_byte_array_sized_new(VMS_FLOW_STACK_SIZE);
	g_byte_array_append(bytes, (const guint8 *)&head, sizeof(head));
	for (unsigned i = first; i < stack->n; i++) {
		const struct vms_frame *from = &stack->frame[i];
		const struct vms_flow_stack_frame frame = {
			GUINT64_TO_LE(from->pc),
			GUINT32_TO_LE(from->is_user ? walker->space : from->code),
			GUINT32_TO_LE((from->is_return ? VMS_FLOW_STACK_RETURN : 0) |
				      (from->is_user ? VMS_FLOW_STACK_USER : 0)),
		};
		g_byte_array_append(bytes, (const guint8 *)&frame, sizeof(frame));
	}
	append_value(out, VMS_VALUE_KNOWN, bytes);
}

/* Takes the raw values of a stack, walks it, and appends the stack as one value. */
static bool convert_stack(struct vms_flow_walker *walker, const struct vms_arch *arch,
			  struct vms_taken *values, GByteArray *out)
{
	struct vms_stack_raw raw = { 0 };
	struct vms_regs user;
	if (walker)
		raw.kernel.regs = walker->regs;
	if (!vms_stack_raw_take(values, arch, &raw))
		return false;
	if (!walker || !vms_regs_have(&raw.kernel.regs, arch->pc) ||
	    !vms_regs_have(&raw.kernel.regs, arch->sp)) {
		append_value(out, VMS_VALUE_UNREADABLE, NULL);
		return true;
	}
	if (walk_kernel(walker, &raw.kernel, &user) && raw.frames != VMS_STACK_KERNEL)
		walk_user(walker, arch, &raw, &user);
	append_stack(walker, raw.frames == VMS_STACK_USER, out);
	return true;
}

bool vms_flow_walk_stacks(struct vms_flow_walker *walker, const struct vms_arch *arch,
			  const GArray *stacks, const uint8_t *values, size_t size, GByteArray *out)
{
	/* Values of no bytes may be NULL. */
	struct vms_taken left = { values, size ? values + size : values };
	const unsigned n_raw = vms_stack_raw_count(arch);
	unsigned number = 0;
	for (guint i = 0; i < stacks->len; i++) {
		const unsigned first = g_array_index(stacks, unsigned, i);
		const uint8_t *const begin = left.at, *bytes;
		struct vms_value_head head;
		for (; number < first; number++)
			if (!vms_taken_value(&left, &head, &bytes))
				return false;
		g_byte_array_append(out, begin, (guint)(left.at - begin));
		if (!convert_stack(walker, arch, &left, out))
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

static bool locate_frame(struct vms_symbolizer *symbolizer, const struct vms_frame *frame,
			 struct vms_location *ret)
{
	return symbolizer &&
	       vms_symbolizer_locate(symbolizer, frame->is_user ? frame->code : VMS_KERNEL_SPACE,
				     frame->is_user ? 0 : frame->code, frame->pc - frame->is_return,
				     ret) &&
	       ret->symbol;
}

static void format_frame(struct vms_symbolizer *symbolizer, const struct vms_frame *frame,
			 GString *out)
{
	struct vms_location location = { 0 };
	if (locate_frame(symbolizer, frame, &location))
		g_string_append_printf(out, "%s+0x%" G_GINT64_MODIFIER "x", location.symbol,
				       location.offset + frame->is_return);
	else
		g_string_append_printf(out, "0x%" G_GINT64_MODIFIER "x", frame->pc);
	if (location.module && frame->is_user) {
		g_autofree char *file = g_path_get_basename(location.module);
		g_string_append_printf(out, " (%s, user)", file);
	} else if (frame->is_user) {
		g_string_append(out, " (user)");
	} else if (location.module) {
		g_string_append_printf(out, " (%s)", location.module);
	}
}

void vms_flow_stack_format(struct vms_symbolizer *symbolizer, const struct vms_stack *stack,
			   GString *out)
{
	for (unsigned i = 0; i < stack->n; i++) {
		if (i)
			g_string_append_c(out, ';');
		format_frame(symbolizer, &stack->frame[i], out);
	}
	const enum vms_walk_end end =
		stack->kernel_end != VMS_WALK_ROOT ? stack->kernel_end : stack->end;
	if (end != VMS_WALK_ROOT)
		g_string_append_printf(out, ";[%s]", vms_walk_end_text(end));
}

bool vms_flow_value_stack(const struct vms_flow_value *value, struct vms_stack *ret)
{
	return value->status == VMS_FLOW_KNOWN &&
	       vms_flow_stack_decode(value->bytes, value->size, ret);
}
