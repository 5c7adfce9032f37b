/* SPDX-License-Identifier: MIT */
#include "walked.h"
#include "capture/capture.h"
#include "find_task.h"

/* Walks the stack from `regs` on. `task` runs or waits there; it is NULL if unknown. */
static void walk_stack(struct session *session, unsigned id, const struct vms_task *task,
		       const struct vms_regs *regs, struct vms_memory *memory, GPtrArray *stacks)
{
	struct walked *walked = g_new0(struct walked, 1);
	walked->id = id;
	if (task) {
		walked->task = *task;
		walked->process = vms_guest_process(session->guest, task);
	}
	vms_capture_stack(session->guest, memory, walked->process, regs, VMS_STACK_LIMIT,
			  &walked->stack);
	/* A guest has thousands of threads, and a stack has room for a thousand frames. */
	walked = g_realloc(walked, G_STRUCT_OFFSET(struct walked, stack.frame) +
					   walked->stack.n * sizeof(walked->stack.frame[0]));
	g_ptr_array_add(stacks, walked);
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

bool walk_vcpus(struct session *session, const char *cpu, GPtrArray *stacks, GError **error)
{
	unsigned first, last;
	bool done = session_vcpus(session, cpu, &first, &last, error);
	for (unsigned i = first; done && i <= last; i++)
		done = walk_vcpu(session, i, stacks, error);
	return done;
}

/* ---- threads ---------------------------------------------------------- */

/* What a vCPU runs. */
struct running {
	uint64_t task; /* address of its task_struct */
	struct vms_regs regs;
};

/* Returns an array of struct running, of the vCPUs whose task is known. */
static GArray *list_running(struct session *session)
{
	GArray *running = g_array_new(FALSE, FALSE, sizeof(struct running));
	const unsigned n = vms_machine_vcpus(session->machine);
	struct running one;
	for (unsigned i = 0; i < n && vms_machine_regs(session->machine, i, &one.regs, NULL); i++) {
		struct vms_task current;
		g_autoptr(vms_memory) memory = vms_memory_new(session->machine, &one.regs);
		if (!vms_guest_current(session->guest, memory, &one.regs, &current))
			continue;
		one.task = current.va;
		g_array_append_val(running, one);
	}
	return running;
}

/* Walks a thread from the registers of the vCPU that runs it, or from those that it has saved. */
static bool walk_thread(struct session *session, const struct vms_task *task, const GArray *running,
			struct vms_memory *memory, GPtrArray *stacks, GError **error)
{
	struct vms_regs regs;
	bool is_running = false;
	for (guint i = 0; i < running->len && !is_running; i++) {
		const struct running *one = &g_array_index(running, struct running, i);
		is_running = one->task == task->va;
		regs = one->regs;
	}
	if (!is_running && !vms_guest_task_regs(session->guest, task, &regs, error))
		return false;
	vms_memory_set_regs(memory, &regs);
	walk_stack(session, task->tid, task, &regs, memory, stacks);
	return true;
}

bool walk_task(struct session *session, unsigned tid, GPtrArray *stacks, GError **error)
{
	static const struct vms_regs no_regs;
	struct vms_task task;
	if (!find_task(session, tid, &task, error))
		return false;
	g_autoptr(vms_memory) memory = vms_memory_new(session->machine, &no_regs);
	g_autoptr(GArray) running = list_running(session);
	return walk_thread(session, &task, running, memory, stacks, error);
}

bool walk_all_tasks(struct session *session, const char *states, GPtrArray *stacks, GError **error)
{
	static const struct vms_regs no_regs;
	GError *loss = NULL, *first = NULL;
	unsigned failed = 0;
	g_autoptr(GArray) tasks = vms_guest_tasks(session->guest, &loss, error);
	if (!tasks)
		return false;
	if (loss)
		session_note_loss(session, loss);
	g_autoptr(GArray) running = list_running(session);
	g_autoptr(vms_memory) memory = vms_memory_new(session->machine, &no_regs);
	for (size_t i = 0; i < tasks->len; i++) {
		const struct vms_task *task = &g_array_index(tasks, struct vms_task, i);
		if (states && !strchr(states, task->state))
			continue;
		if (!walk_thread(session, task, running, memory, stacks, first ? NULL : &first))
			failed++;
	}
	if (failed > 0) {
		g_prefix_error(&first, "%u of the threads could not be walked: ", failed);
		session_note_loss(session, first);
	}
	return true;
}
