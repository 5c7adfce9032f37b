/* SPDX-License-Identifier: MIT */
#include "calls/stacks.h"

#include "calls/functions.h"
#include <vmscope/log.h>

#define BYTES_LIMIT (64u << 20) /* of all stacks */

G_STATIC_ASSERT(VMS_STACK_LIMIT <= VMS_AGENT_MAX_STACK);

/* ---- one stack -------------------------------------------------------- */

/* Returns the start of the frame's function. If that is not known, an address in the function. */
static uint64_t find_function_start(struct vms_guest *guest, const struct vms_frame *frame)
{
	struct vms_location location;
	uint64_t va = frame->pc - frame->is_return;
	if (vms_guest_locate(guest, NULL, va, &location) && location.symbol)
		return location.start;
	return frame->pc;
}

/* Returns the slot of a frame. `caller` is the next frame outwards, or NULL. */
static uint64_t find_frame_slot(const struct vms_calls_abi *abi, const struct vms_frame *frame,
				const struct vms_frame *caller)
{
	if (caller && caller->is_return)
		return caller->sp + (uint64_t)abi->call_slot;
	if (caller && frame->is_return)
		return frame->sp + (uint64_t)abi->entry_slot;
	return frame->sp;
}

void vms_calls_append_frames(struct vms_guest *guest, const struct vms_calls_abi *abi,
			     const struct vms_stack *walked, GByteArray *ret)
{
	const struct vms_frame *caller = NULL;
	for (unsigned i = walked->n; i-- > 0; caller = &walked->frame[i]) {
		const struct vms_frame *frame = &walked->frame[i];
		const struct vms_agent_frame open = {
			.slot = find_frame_slot(abi, frame, caller),
			.function = find_function_start(guest, frame),
			.is_user = frame->is_user,
		};
		g_byte_array_append(ret, (const guint8 *)&open, sizeof(open));
	}
}

/* ---- all stacks ------------------------------------------------------- */

struct stacks {
	struct vms_guest *guest;
	const struct vms_calls_abi *abi;
	struct vms_memory *memory;
	uint64_t switch_function; /* 0 if not known */
	struct vms_stack walked;
	GByteArray *bytes;
};

static void walk_stack(struct stacks *stacks, const struct vms_regs *regs)
{
	vms_memory_set_regs(stacks->memory, regs);
	vms_walk(stacks->guest, stacks->memory, regs, VMS_AGENT_MAX_STACK - 1, &stacks->walked);
}

/* Appends the header of a stack. Returns its offset in the bytes. */
static guint begin_stack(struct stacks *stacks, uint64_t task, uint32_t vcpu)
{
	const struct vms_agent_stack stack = { .task = task, .vcpu = vcpu };
	guint at = stacks->bytes->len;
	g_byte_array_append(stacks->bytes, (const guint8 *)&stack, sizeof(stack));
	return at;
}

/* Sets the number of frames in the header. Removes a stack with no frames, or with too many. */
static void end_stack(struct stacks *stacks, guint at)
{
	guint bytes = stacks->bytes->len - at - sizeof(struct vms_agent_stack);
	uint32_t n = bytes / sizeof(struct vms_agent_frame);
	if (n == 0 || n > VMS_AGENT_MAX_STACK || stacks->bytes->len > BYTES_LIMIT) {
		g_byte_array_set_size(stacks->bytes, at);
		return;
	}
	memcpy(stacks->bytes->data + at + offsetof(struct vms_agent_stack, n), &n, sizeof(n));
}

/* Appends the call of the function that switches tasks: each task that does not run is in it. */
static void add_switch_frame(struct stacks *stacks)
{
	const struct vms_agent_frame pending = {
		.slot = stacks->walked.frame[0].sp + (uint64_t)stacks->abi->call_slot,
		.function = stacks->switch_function,
	};
	if (stacks->switch_function)
		g_byte_array_append(stacks->bytes, (const guint8 *)&pending, sizeof(pending));
}

/*
 * True if the task with these registers has run. A new task is at the begin of a function that
 * nobody has called.
 */
static bool has_run(struct stacks *stacks, const struct vms_regs *regs)
{
	struct vms_location location;
	return vms_guest_locate(stacks->guest, NULL, regs->value[stacks->abi->arch->pc],
				&location) &&
	       location.symbol && location.offset > 0;
}

/* Adds the stack of a task that does not run. The stacks of running tasks come from the vCPUs. */
static void add_task(struct stacks *stacks, const struct vms_task *task)
{
	struct vms_regs regs;
	if (!vms_guest_task_regs(stacks->guest, task, &regs, NULL) || !has_run(stacks, &regs))
		return;
	walk_stack(stacks, &regs);
	guint at = begin_stack(stacks, task->va, UINT32_MAX);
	vms_calls_append_frames(stacks->guest, stacks->abi, &stacks->walked, stacks->bytes);
	add_switch_frame(stacks);
	end_stack(stacks, at);
}

static bool add_vcpu(struct stacks *stacks, unsigned vcpu, GError **error)
{
	struct vms_regs regs;
	struct vms_task task;
	if (!vms_machine_regs(vms_guest_machine(stacks->guest), vcpu, &regs, error))
		return false;
	walk_stack(stacks, &regs);
	/* If the guest's kernel is not known, a single frame may be no function at all. */
	if (vms_guest_kind(stacks->guest) == VMS_GUEST_NONE && stacks->walked.n < 2)
		return true;
	bool known = vms_guest_current(stacks->guest, stacks->memory, &regs, &task);
	guint at = begin_stack(stacks, known ? task.va : 0, vcpu);
	vms_calls_append_frames(stacks->guest, stacks->abi, &stacks->walked, stacks->bytes);
	end_stack(stacks, at);
	return true;
}

static void add_tasks(struct stacks *stacks)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(GArray) tasks = vms_guest_tasks(stacks->guest, NULL, &error);
	if (!tasks)
		vms_log(VMS_LOG_INFO, "open calls of tasks that do not run are not known: %s",
			error->message);
	for (guint i = 0; tasks && i < tasks->len; i++)
		add_task(stacks, &g_array_index(tasks, struct vms_task, i));
}

GByteArray *vms_calls_list_stacks(struct vms_guest *guest, const struct vms_calls_abi *abi,
				  GError **error)
{
	struct vms_machine *machine = vms_guest_machine(guest);
	struct vms_regs regs;
	if (!vms_machine_regs(machine, 0, &regs, error))
		return NULL;
	g_autoptr(vms_memory) memory = vms_memory_new(machine, &regs);
	g_autoptr(GByteArray) bytes = g_byte_array_new();
	g_autofree struct stacks *stacks = g_new0(struct stacks, 1);
	*stacks = (struct stacks) {
		.guest = guest,
		.abi = abi,
		.memory = memory,
		.bytes = bytes,
	};
	vms_calls_find_function(guest, abi->switch_function, &stacks->switch_function);
	for (unsigned i = 0; i < vms_machine_vcpus(machine); i++)
		if (!add_vcpu(stacks, i, error))
			return NULL;
	if (vms_guest_kind(guest) == VMS_GUEST_LINUX)
		add_tasks(stacks);
	return g_steal_pointer(&bytes);
}
