/* SPDX-License-Identifier: MIT */
/*
 * Tasks: threads of the guest's processes and of its kernel. Which one a CPU runs is kept in a
 * per-CPU variable; all processes hang on the list that begins in init_task, and the threads of
 * a process on a list of its signal structure (include/linux/sched.h, sched/signal.h).
 */
#include "guest/linux/task.h"

#include "guest/linux/list.h"
#include <inttypes.h>
#include <stdlib.h>
#include <vmscope/log.h>

#define TASKS_LIMIT (1u << 20) /* threads believed; the kernel's own limit is four times this */

static const struct vms_task_arch *const task_archs[] = { &vms_task_arch_x86_64,
							  &vms_task_arch_aarch64 };

/* ---- what to look for ------------------------------------------------- */

#define AT(member) offsetof(struct vms_linux_tasks, member)

static const struct vms_wanted_member wanted_members[] = {
	{ "task_struct", "pid", AT(pid), false },
	{ "task_struct", "tgid", AT(tgid), false },
	{ "task_struct", "mm", AT(mm), false },
	{ "task_struct", "comm", AT(comm), false },
	{ "task_struct", "exit_state", AT(exit_state), false },
	{ "task_struct", "real_parent", AT(real_parent), false },
	{ "task_struct", "group_leader", AT(group_leader), false },
	{ "task_struct", "signal", AT(signal), false },
	{ "task_struct", "tasks", AT(tasks), false },
	{ "task_struct", "thread_node", AT(thread_node), false },
	{ "signal_struct", "thread_head", AT(thread_head), false },
	{ "mm_struct", "pgd", AT(pgd), false },
	{ "task_struct", "on_cpu", AT(on_cpu), true }, /* CONFIG_SMP */
	{ "task_struct", "thread.cpu_context", AT(cpu_context), true },
	{ "task_struct", "thread.sp", AT(thread_sp), true },
	{ "inactive_task_frame", "bx", AT(frame_bx), true },
	{ "inactive_task_frame", "bp", AT(frame_bp), true },
	{ "inactive_task_frame", "r12", AT(frame_r12), true },
	{ "inactive_task_frame", "r13", AT(frame_r13), true },
	{ "inactive_task_frame", "r14", AT(frame_r14), true },
	{ "inactive_task_frame", "r15", AT(frame_r15), true },
	{ "inactive_task_frame", "ret_addr", AT(frame_return), true },
};

/* The state was renamed by 2f064a59a11f ("sched: Change task_struct::state") (in v5.14). */
static bool find_state(const struct vms_btf *btf, struct vms_btf_member *ret)
{
	return vms_btf_member(btf, "task_struct", "__state", ret) ||
	       vms_btf_member(btf, "task_struct", "state", ret);
}

static const struct vms_task_arch *find_arch(const struct vms_arch *arch)
{
	for (size_t i = 0; i < G_N_ELEMENTS(task_archs); i++) {
		if (task_archs[i]->arch == arch)
			return task_archs[i];
	}
	return NULL;
}

struct vms_linux_tasks *vms_linux_tasks_new(struct vms_linux *guest)
{
	struct vms_linux_tasks tasks = { .arch = find_arch(guest->arch) };
	if (!tasks.arch || !guest->btf)
		return NULL;
	if (!vms_linux_symbol(guest, "init_task", &tasks.init_task) ||
	    !tasks.arch->find_current(guest, &tasks.current) ||
	    !find_state(guest->btf, &tasks.state) ||
	    !vms_members_find(guest->btf, wanted_members, G_N_ELEMENTS(wanted_members), &tasks)) {
		vms_log(VMS_LOG_WARNING, "the tasks of the guest's kernel are not understood");
		return NULL;
	}
	tasks.smp = vms_linux_symbol(guest, "this_cpu_off", &tasks.this_cpu_off);
	return g_memdup2(&tasks, sizeof(tasks));
}

void vms_linux_tasks_free(struct vms_linux_tasks *tasks)
{
	g_free(tasks);
}

bool vms_linux_task_layout(const struct vms_linux *guest, struct vms_task_layout *ret)
{
	const struct vms_linux_tasks *tasks = guest->tasks;
	if (!tasks)
		return false;
	*ret = (struct vms_task_layout) {
		.tid = (uint32_t)tasks->pid.offset,
		.pid = (uint32_t)tasks->tgid.offset,
		.mm = (uint32_t)tasks->mm.offset,
		.comm = (uint32_t)tasks->comm.offset,
	};
	return true;
}

/* ---- one task --------------------------------------------------------- */

/* As the kernel reports it: __task_state_index() in include/linux/sched.h. */
static char state_letter(uint64_t state, uint64_t exit_state)
{
	enum {
		UNINTERRUPTIBLE = 0x2,
		REPORTED = 0x7f,
		IDLE = 0x402,
		RTLOCK_WAIT = 0x1000,
		FROZEN = 0x8000
	};
	if ((state & IDLE) == IDLE)
		return 'I';
	uint64_t reported = (state | exit_state) & REPORTED;
	if (state & (RTLOCK_WAIT | FROZEN))
		reported = UNINTERRUPTIBLE;
	static const char letters[] = "RSDTtXZP"; /* by the highest bit, if any */
	return letters[reported ? g_bit_storage(reported) : 0];
}

/* Who it is; its state and its parent are not asked for. */
static bool read_identity(const struct vms_linux_tasks *tasks, struct vms_memory *memory,
			  uint64_t va, struct vms_task *ret)
{
	uint64_t pid, tgid, mm, leader;
	if (!vms_member_read(memory, va, &tasks->pid, &pid) ||
	    !vms_member_read(memory, va, &tasks->tgid, &tgid) ||
	    !vms_member_read(memory, va, &tasks->mm, &mm) ||
	    !vms_member_read(memory, va, &tasks->group_leader, &leader) ||
	    !vms_member_read_string(memory, va, &tasks->comm, ret->comm, sizeof(ret->comm)) ||
	    !vms_member_read_string(memory, leader, &tasks->comm, ret->process_comm,
				    sizeof(ret->process_comm)))
		return false;
	ret->va = va;
	ret->mm = mm;
	ret->tid = (uint32_t)pid;
	ret->pid = (uint32_t)tgid;
	ret->ppid = 0;
	ret->state = 'R';
	ret->is_idle = pid == 0;
	return true;
}

static bool read_task(const struct vms_linux_tasks *tasks, struct vms_memory *memory, uint64_t va,
		      struct vms_task *ret)
{
	uint64_t parent, ppid, state, exit_state;
	if (!read_identity(tasks, memory, va, ret) ||
	    !vms_member_read(memory, va, &tasks->state, &state) ||
	    !vms_member_read(memory, va, &tasks->exit_state, &exit_state) ||
	    !vms_member_read(memory, va, &tasks->real_parent, &parent) ||
	    !vms_member_read(memory, parent, &tasks->tgid, &ppid))
		return false;
	ret->ppid = (uint32_t)ppid;
	ret->state = state_letter(state, exit_state);
	return true;
}

bool vms_linux_current(struct vms_linux *guest, struct vms_memory *memory,
		       const struct vms_regs *regs, struct vms_task *ret)
{
	const struct vms_linux_tasks *tasks = guest->tasks;
	uint64_t va;
	return tasks && tasks->arch->current(tasks, memory, regs, &va) &&
	       read_identity(tasks, memory, va, ret);
}

/* ---- all tasks -------------------------------------------------------- */

static int compare_tasks(const void *a, const void *b)
{
	const struct vms_task *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static bool unreadable(uint64_t va, GError **error)
{
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE,
		    "tasks of the guest: cannot read the one at 0x%" PRIx64, va);
	return false;
}

/* Adds the threads of the process whose leader is at `leader`. */
static bool list_threads(struct vms_linux *guest, uint64_t leader, GArray *ret, GError **error)
{
	const struct vms_linux_tasks *tasks = guest->tasks;
	struct vms_list list;
	uint64_t signal, node;
	if (!vms_member_read(guest->memory, leader, &tasks->signal, &signal))
		return unreadable(leader, error);
	vms_list_begin(&list, guest->memory, signal + tasks->thread_head.offset,
		       TASKS_LIMIT - ret->len, "list of a process's threads");
	GError *list_error = NULL;
	while (vms_list_next(&list, &node, &list_error)) {
		struct vms_task task = { 0 };
		uint64_t va = node - tasks->thread_node.offset;
		if (!read_task(tasks, guest->memory, va, &task))
			return unreadable(va, error);
		g_array_append_val(ret, task);
	}
	if (list_error)
		g_propagate_error(error, list_error);
	return !list_error;
}

/* Memory is missing, as in a damaged file: what is there may still be told. Keeps the first such.
 */
static bool take_missing(GError **failure, GError **missing)
{
	if (!g_error_matches(*failure, VMS_ERROR, VMS_ERROR_UNREADABLE))
		return false;
	if (*missing)
		g_clear_error(failure);
	else
		*missing = g_steal_pointer(failure);
	return true;
}

/* Fails if a list is malformed. Sets *missing if some are not in `ret`. */
static bool list_processes(struct vms_linux *guest, GArray *ret, GError **missing, GError **error)
{
	const struct vms_linux_tasks *tasks = guest->tasks;
	struct vms_list list;
	uint64_t node;
	vms_list_begin(&list, guest->memory, tasks->init_task + tasks->tasks.offset, TASKS_LIMIT,
		       "list of processes");
	GError *failure = NULL;
	while (vms_list_next(&list, &node, &failure)) {
		if (!list_threads(guest, node - tasks->tasks.offset, ret, &failure) &&
		    !take_missing(&failure, missing))
			break;
	}
	if (!failure || take_missing(&failure, missing))
		return true;
	g_propagate_error(error, failure);
	return false;
}

static bool understood(const struct vms_linux *guest, GError **error)
{
	if (guest->tasks)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		    "tasks of the guest: its kernel (%s) has no type information (BTF) that tells "
		    "where they are",
		    guest->release ? guest->release : "of unknown release");
	return false;
}

GArray *vms_linux_tasks_list(struct vms_linux *guest, GError **error)
{
	if (!understood(guest, error))
		return NULL;
	g_autoptr(GArray) ret = g_array_new(false, false, sizeof(struct vms_task));
	g_autoptr(GError) missing = NULL;
	g_mutex_lock(&guest->lock);
	bool listed = list_processes(guest, ret, &missing, error);
	g_mutex_unlock(&guest->lock);
	if (!listed)
		return NULL;
	if (missing && ret->len == 0) {
		g_propagate_error(error, g_steal_pointer(&missing));
		return NULL;
	}
	if (missing)
		vms_log(VMS_LOG_WARNING, "some of the guest's threads are missing: %s",
			missing->message);
	g_array_sort(ret, compare_tasks);
	return g_steal_pointer(&ret);
}

/* ---- a task that does not run ----------------------------------------- */

static bool is_running(struct vms_linux *guest, uint64_t task)
{
	const struct vms_linux_tasks *tasks = guest->tasks;
	uint64_t on_cpu, current;
	if (vms_member_there(&tasks->on_cpu))
		return vms_member_read(guest->memory, task, &tasks->on_cpu, &on_cpu) && on_cpu;
	return vms_memory_read_u64(guest->memory, tasks->current, &current) && current == task;
}

uint64_t vms_linux_page_tables(struct vms_linux *guest, const struct vms_task *task)
{
	uint64_t pgd;
	struct vms_page page;
	if (!task->mm || !vms_member_read(guest->memory, task->mm, &guest->tasks->pgd, &pgd) ||
	    !vms_memory_translate(guest->memory, pgd, &page))
		return 0;
	return page.pa + (pgd - page.va);
}

static bool read_switched_regs(struct vms_linux *guest, const struct vms_task *task,
			       struct vms_regs *ret, GError **error)
{
	if (is_running(guest, task->va)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
			    "task %u (%s) runs on a vCPU: its registers are that vCPU's", task->tid,
			    task->comm);
		return false;
	}
	*ret = *vms_memory_regs(guest->memory);
	if (guest->tasks->arch->switched_regs(guest->tasks, guest->memory, task->va,
					      vms_linux_page_tables(guest, task), ret))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE,
		    "task %u (%s): cannot read the registers on its kernel stack", task->tid,
		    task->comm);
	return false;
}

bool vms_linux_task_regs(struct vms_linux *guest, const struct vms_task *task, struct vms_regs *ret,
			 GError **error)
{
	if (!understood(guest, error))
		return false;
	g_mutex_lock(&guest->lock);
	bool read = read_switched_regs(guest, task, ret, error);
	g_mutex_unlock(&guest->lock);
	return read;
}
