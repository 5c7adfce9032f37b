/* SPDX-License-Identifier: MIT */
#include "walked.h"
#include "base/clock.h"
#include "capture/capture.h"
#include "find_task.h"
#include "guest/processes.h"
#include <vmscope/log.h>

void free_walked(void *data)
{
	struct walked *walked = data;
	g_free(walked->copy);
	g_free(walked);
}

/* A guest has thousands of threads, and a stack has room for a thousand frames. */
static size_t walked_size(const struct vms_stack *stack)
{
	return G_STRUCT_OFFSET(struct walked, stack.frame) + stack->n * sizeof(stack->frame[0]);
}

/* Begins the stack from `regs` on. `task` runs or waits there; it is NULL if unknown. */
static void walk_stack(struct session *session, unsigned id, const struct vms_task *task,
		       const struct vms_regs *regs, struct vms_memory *memory, GPtrArray *stacks)
{
	g_autofree struct vms_user_copy *copy = g_new0(struct vms_user_copy, 1);
	struct walked *walked = g_new0(struct walked, 1);
	walked->id = id;
	if (task) {
		walked->task = *task;
		walked->process = vms_guest_process(session->guest, task);
	}
	vms_capture_stack(session->guest, memory, walked->process, regs, VMS_STACK_LIMIT,
			  &walked->stack, copy);
	walked = g_realloc(walked, walked_size(&walked->stack));
	if (copy->process)
		walked->copy = g_memdup2(copy, G_STRUCT_OFFSET(struct vms_user_copy, bytes) +
						       copy->size + copy->other_size);
	g_ptr_array_add(stacks, walked);
}

void finish_walks(struct session *session, GPtrArray *stacks)
{
	static const struct vms_regs no_regs;
	g_autoptr(vms_memory) memory = vms_memory_new(session->machine, &no_regs);
	g_autofree struct vms_stack *stack = g_new0(struct vms_stack, 1);
	for (guint i = 0; i < stacks->len; i++) {
		struct walked *walked = stacks->pdata[i];
		if (!walked->copy)
			continue;
		const size_t before = walked_size(&walked->stack);
		memcpy(stack, &walked->stack, before - G_STRUCT_OFFSET(struct walked, stack));
		vms_capture_finish(session->guest, memory, VMS_STACK_LIMIT, walked->copy, stack);
		g_clear_pointer(&walked->copy, g_free);
		const size_t size = walked_size(stack);
		walked = stacks->pdata[i] = g_realloc(walked, size);
		memcpy(&walked->stack, stack, size - G_STRUCT_OFFSET(struct walked, stack));
	}
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

/* A walk of all threads, of which a machine that runs should notice little. */
struct all_walk {
	struct session *session;
	GArray *running; /* NULL: the machine is not held */
	uint64_t limit_ns, until_ns;
	unsigned pauses; /* how often the machine has run in between */
	unsigned ended;	 /* threads that had ended by then */
};

static bool begin_hold(struct all_walk *walk, GError **error)
{
	if (!vms_machine_hold(walk->session->machine, VMS_ALL_VCPUS, error))
		return false;
	walk->running = list_running(walk->session);
	walk->until_ns = vms_clock_now_ns() + walk->limit_ns;
	return true;
}

static bool end_hold(struct all_walk *walk, GError **error)
{
	if (!walk->running)
		return true;
	g_clear_pointer(&walk->running, g_array_unref);
	return vms_machine_release(walk->session->machine, VMS_ALL_VCPUS, error);
}

/* Lets the machine run for as long as it was held, if that was long. */
static bool limit_hold(struct all_walk *walk, GError **error)
{
	struct vms_machine *machine = walk->session->machine;
	if (vms_clock_now_ns() < walk->until_ns || vms_machine_is_paused(machine) ||
	    vms_machine_core(machine))
		return true;
	walk->pauses++;
	if (!end_hold(walk, error))
		return false;
	g_usleep(walk->limit_ns / 1000);
	return begin_hold(walk, error);
}

static void report_pauses(const struct all_walk *walk)
{
	if (walk->pauses > 0)
		vms_log(VMS_LOG_WARNING,
			"the guest has run %u times in between, as it was held for longer than "
			"%.3f s: stacks are of different moments, and %u threads had ended "
			"(--hold-limit)",
			walk->pauses, (double)walk->limit_ns / 1e9, walk->ended);
}

static bool walk_tasks(struct all_walk *walk, const GArray *tasks, const char *states,
		       GPtrArray *stacks, GError **error)
{
	static const struct vms_regs no_regs;
	struct session *session = walk->session;
	GError *first = NULL;
	unsigned failed = 0;
	g_autoptr(vms_memory) memory = vms_memory_new(session->machine, &no_regs);
	for (size_t i = 0; i < tasks->len; i++) {
		const struct vms_task *task = &g_array_index(tasks, struct vms_task, i);
		if (states && !strchr(states, task->state))
			continue;
		if (!limit_hold(walk, error)) {
			g_clear_error(&first);
			return false;
		}
		if (walk->pauses > 0 &&
		    !vms_guest_task_has(session->guest, task->va, task->pid, task->mm))
			walk->ended++;
		else if (!walk_thread(session, task, walk->running, memory, stacks,
				      first ? NULL : &first))
			failed++;
	}
	if (failed > 0) {
		g_prefix_error(&first, "%u of the threads could not be walked: ", failed);
		session_note_loss(session, first);
	}
	return true;
}

/* Lists the threads and begins their stacks. The machine is held. */
static bool walk_listed(struct all_walk *walk, const char *states, GPtrArray *stacks,
			GError **error)
{
	GError *loss = NULL;
	g_autoptr(GArray) tasks = vms_guest_tasks(walk->session->guest, &loss, error);
	if (!tasks)
		return false;
	if (loss)
		session_note_loss(walk->session, loss);
	return walk_tasks(walk, tasks, states, stacks, error);
}

bool walk_all_tasks(struct session *session, const char *states, uint64_t limit_ns,
		    GPtrArray *stacks, GError **error)
{
	struct all_walk walk = { .session = session, .limit_ns = limit_ns };
	if (!begin_hold(&walk, error))
		return false;
	const bool done = walk_listed(&walk, states, stacks, error);
	if (!end_hold(&walk, done ? error : NULL) || !done)
		return false;
	report_pauses(&walk);
	return true;
}
