/* SPDX-License-Identifier: MIT */
/* vmscope stack: shows what every vCPU executes, or where a thread executes or waits. */
#include "capture/capture.h"
#include "commands.h"
#include "values.h"

/* A walked stack. It is printed after the guest runs again. */
struct walked {
	unsigned id; /* vCPU or thread */
	struct vms_task task;
	const struct vms_process *process; /* NULL if unknown */
	struct vms_stack stack;
};

/* Walks the stack from `regs` on. `task` runs or waits there; it is NULL if unknown. */
static void walk_stack(struct session *session, unsigned id, const struct vms_task *task,
		       const struct vms_regs *regs, struct vms_memory *memory, GPtrArray *stacks)
{
	struct walked *walked = g_new0(struct walked, 1);
	g_ptr_array_add(stacks, walked);
	walked->id = id;
	if (task) {
		walked->task = *task;
		walked->process = vms_guest_process(session->guest, task);
	}
	vms_capture_stack(session->guest, memory, walked->process, regs, VMS_STACK_LIMIT,
			  &walked->stack);
}

static bool walk_vcpu(struct session *session, unsigned vcpu, GPtrArray *stacks, GError **error)
{
	struct vms_regs regs;
	struct vms_task task;
	if (!vms_machine_regs(session->machine, vcpu, &regs, error))
		return false;
	g_autoptr(vms_memory) memory = vms_memory_new(session->machine, &regs);
	bool known = vms_guest_current(session->guest, memory, &regs, &task);
	walk_stack(session, vcpu, known ? &task : NULL, &regs, memory, stacks);
	return true;
}

static bool walk_vcpus(struct session *session, const char *cpu, GPtrArray *stacks, GError **error)
{
	unsigned first, last;
	bool done = session_vcpus(session, cpu, &first, &last, error);
	for (unsigned i = first; done && i <= last; i++)
		done = walk_vcpu(session, i, stacks, error);
	return done;
}

/* Gets the registers of the vCPU that runs the task. False if none runs it. */
static bool get_running_regs(struct session *session, const struct vms_task *task,
			     struct vms_regs *ret)
{
	const unsigned n = vms_machine_vcpus(session->machine);
	for (unsigned i = 0; i < n && vms_machine_regs(session->machine, i, ret, NULL); i++) {
		struct vms_task current;
		g_autoptr(vms_memory) memory = vms_memory_new(session->machine, ret);
		if (vms_guest_current(session->guest, memory, ret, &current) &&
		    current.va == task->va)
			return true;
	}
	return false;
}

static bool walk_task(struct session *session, unsigned tid, GPtrArray *stacks, GError **error)
{
	g_autoptr(GError) loss = NULL;
	g_autoptr(GArray) tasks = vms_guest_tasks(session->guest, &loss, error);
	if (!tasks)
		return false;
	for (size_t i = 0; i < tasks->len; i++) {
		const struct vms_task *task = &g_array_index(tasks, struct vms_task, i);
		struct vms_regs regs;
		if (task->tid != tid)
			continue;
		if (!get_running_regs(session, task, &regs) &&
		    !vms_guest_task_regs(session->guest, task, &regs, error))
			return false;
		g_autoptr(vms_memory) memory = vms_memory_new(session->machine, &regs);
		walk_stack(session, tid, task, &regs, memory, stacks);
		return true;
	}
	if (loss)
		g_propagate_error(error, g_steal_pointer(&loss));
	else
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "no thread %u in this guest: \"vmscope ps\" lists them", tid);
	return false;
}

static void print_stack(struct session *session, const struct walked *walked, bool is_task)
{
	GString *out = session->out;
	const struct vms_process *process = walked->process;
	g_string_append_printf(out, "%s %u", is_task ? "thread" : "vCPU", walked->id);
	if (process)
		g_string_append_printf(out, ": %s (%u)", process->comm, process->pid);
	g_string_append_c(out, '\n');
	for (unsigned i = 0; i < walked->stack.n; i++) {
		const struct vms_frame *frame = &walked->stack.frame[i];
		struct vms_location location;
		session_locate(session, process, frame->pc, frame->is_return, &location);
		g_autofree char *name = session_name(&location);
		g_string_append_printf(out, "  #%-3u 0x%016" G_GINT64_MODIFIER "x  %s\n", i,
				       frame->pc, name);
	}
	if (walked->stack.end != VMS_WALK_ROOT)
		g_string_append_printf(out, "       [%s]\n", vms_walk_end_text(walked->stack.end));
}

static void add_stack_rows(struct session *session, struct vms_table *table,
			   const struct walked *walked)
{
	const struct vms_process *process = walked->process;
	for (unsigned i = 0; i < walked->stack.n; i++) {
		const struct vms_frame *frame = &walked->stack.frame[i];
		struct vms_location location;
		const bool has_place =
			session_locate(session, process, frame->pc, frame->is_return, &location);
		bool last = i == walked->stack.n - 1;
		vms_table_add(table, (uint64_t)walked->id, (uint64_t)walked->task.pid,
			      (uint64_t)walked->task.tid, process ? process->comm : NULL,
			      (uint64_t)i, frame->pc, frame->is_user ? "user" : "kernel",
			      location.symbol, has_place ? location.offset : VMS_TABLE_UNKNOWN,
			      location.module, location.source,
			      location.source ? (uint64_t)location.line : VMS_TABLE_UNKNOWN,
			      last ? vms_walk_end_text(walked->stack.end) : NULL);
	}
}

static void output_stacks(struct session *session, GPtrArray *stacks, bool is_task)
{
	const struct vms_column columns[] = { { is_task ? "thread" : "vcpu", VMS_COLUMN_NUMBER },
					      { "pid", VMS_COLUMN_NUMBER },
					      { "tid", VMS_COLUMN_NUMBER },
					      { "comm", VMS_COLUMN_TEXT },
					      { "frame", VMS_COLUMN_NUMBER },
					      { "address", VMS_COLUMN_ADDRESS },
					      { "mode", VMS_COLUMN_TEXT },
					      { "symbol", VMS_COLUMN_TEXT },
					      { "offset", VMS_COLUMN_NUMBER },
					      { "module", VMS_COLUMN_TEXT },
					      { "source", VMS_COLUMN_TEXT },
					      { "line", VMS_COLUMN_NUMBER },
					      { "end", VMS_COLUMN_TEXT },
					      { NULL } };
	g_autoptr(vms_table) table = vms_table_new(columns);
	for (size_t i = 0; i < stacks->len; i++) {
		if (session->json)
			add_stack_rows(session, table, stacks->pdata[i]);
		else
			print_stack(session, stacks->pdata[i], is_task);
	}
	if (session->json)
		session_table(session, table);
}

static bool run_stack(struct session *session, int argc, char **argv, GError **error)
{
	g_autofree char *cpu = NULL, *task = NULL;
	const GOptionEntry options[] = {
		{ "cpu", 0, 0, G_OPTION_ARG_STRING, &cpu, "Only vCPU N", "N" },
		{ "task", 0, 0, G_OPTION_ARG_STRING, &task,
		  "Where thread TID of the guest executes or waits", "TID" },
		{ NULL }
	};
	unsigned tid = 0;
	if (!session_parse(session, options, &argc, &argv, 0, 0, error) ||
	    !value_unsigned("--task", task, 0, G_MAXINT, &tid, error))
		return false;
	if (cpu && task) {
		usage_error(error, "give one of --cpu and --task");
		return false;
	}
	if (!session_open_guest(session, error) ||
	    !vms_machine_hold(session->machine, VMS_ALL_VCPUS, error))
		return false;
	g_autoptr(GPtrArray) stacks = g_ptr_array_new_with_free_func(g_free);
	bool done = task ? walk_task(session, tid, stacks, error)
			 : walk_vcpus(session, cpu, stacks, error);
	if (!vms_machine_release(session->machine, VMS_ALL_VCPUS, done ? error : NULL))
		return false;
	if (done) {
		session_read_names(session);
		output_stacks(session, stacks, task);
	}
	return done;
}

const struct command command_stack = {
	.name = "stack",
	.arguments = "",
	.summary = "Call stacks of every vCPU, or of a thread of the guest",
	.options = SESSION_TARGET | SESSION_GUEST | SESSION_JSON,
	.run = run_stack,
};
