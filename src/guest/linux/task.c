/* SPDX-License-Identifier: MIT */
/*
 * Tasks: threads of the guest's processes and of its kernel. A per-CPU variable points to the task
 * that a CPU runs. The list of all processes begins in init_task. The list of a process's threads
 * begins in its signal structure (include/linux/sched.h, sched/signal.h).
 */
#include "base/keyed_hash.h"
#include "guest/linux/task-private.h"

#include "base/budget.h"
#include "base/keyed_hash.h"
#include "guest/linux/list.h"
#include <inttypes.h>
#include <stdlib.h>
#include <vmscope/log.h>

#define TASKS_LIMIT (1u << 20) /* the kernel's own limit of threads is four times this */
/* What a list keeps for a task: itself, and its place in two tables. */
#define BYTES_OF_TASK (sizeof(struct vms_task) + 128)

static const struct vms_task_arch *const task_archs[] = { &vms_task_arch_x86_64,
							  &vms_task_arch_aarch64 };

/* ---- wanted members --------------------------------------------------- */

#define STACK_SIZE_MAX (1u << 20) /* bytes; Linux has 64 KiB at most */

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
	{ "mm_struct", "start_code", AT(start_code), true },
	{ "task_struct", "on_cpu", AT(on_cpu), true }, /* CONFIG_SMP */
	{ "task_struct", "nvcsw", AT(voluntary), true },
	{ "task_struct", "nivcsw", AT(involuntary), true },
	{ "task_struct", "wake_cpu", AT(wake_cpu), true }, /* CONFIG_SMP */
	{ "task_struct", "stack", AT(stack), true },
	{ "rq", "curr", AT(queue_current), true },
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

/* Commit 2f064a59a11f ("sched: Change task_struct::state") renamed the state (in v5.14). */
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

/*
 * Finds where a task's stack has the program's stack pointer: in struct pt_regs, at its end
 * (task_pt_regs in the kernel's source).
 */
static void find_user_sp(const struct vms_linux *guest, struct vms_linux_tasks *tasks)
{
	const uint64_t padding = tasks->arch->stack_padding ? tasks->arch->stack_padding(guest) : 0;
	const uint64_t stack = tasks->stack_size ? tasks->stack_size : VMS_USUAL_TASK_STACK;
	struct vms_btf_member sp;
	uint64_t size;
	if (vms_btf_member(guest->btf, "pt_regs", "sp", &sp) &&
	    vms_btf_size(guest->btf, "pt_regs", &size) && sp.offset < size &&
	    size + padding < stack)
		tasks->user_sp = stack - padding - size + sp.offset;
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
	if (!vms_member_there(&tasks.stack) || !vms_member_there(&tasks.queue_current) ||
	    !vms_linux_symbol(guest, "runqueues", &tasks.run_queue))
		tasks.run_queue = 0;
	if (!vms_member_there(&tasks.stack) ||
	    !vms_btf_size(guest->btf, "thread_union", &tasks.stack_size) ||
	    tasks.stack_size > STACK_SIZE_MAX)
		tasks.stack_size = 0;
	find_user_sp(guest, &tasks);
	vms_linux_find_sleep_code(guest, &tasks);
	return g_memdup2(&tasks, sizeof(tasks));
}

void vms_linux_tasks_free(struct vms_linux_tasks *tasks)
{
	g_free(tasks);
}

bool vms_linux_task_layout(const void *system, struct vms_task_layout *ret)
{
	const struct vms_linux *guest = system;
	const struct vms_linux_tasks *tasks = guest->tasks;
	if (!tasks)
		return false;
	*ret = (struct vms_task_layout) {
		.tid = (uint32_t)tasks->pid.offset,
		.pid = (uint32_t)tasks->tgid.offset,
		.mm = (uint32_t)tasks->mm.offset,
		.comm = (uint32_t)tasks->comm.offset,
		.group_leader = (uint32_t)tasks->group_leader.offset,
		.stack = (uint32_t)tasks->stack.offset,
		.stack_size = (uint32_t)tasks->stack_size,
		.user_sp = (uint32_t)tasks->user_sp,
	};
	return true;
}

/* ---- one task --------------------------------------------------------- */

bool vms_linux_task_has(void *system, uint64_t task, uint32_t pid, uint64_t mm)
{
	struct vms_linux *guest = system;
	const struct vms_linux_tasks *tasks = guest->tasks;
	uint64_t its_pid, its_mm;
	g_mutex_lock(&guest->lock);
	bool has = tasks && vms_member_read(guest->memory, task, &tasks->tgid, &its_pid) &&
		   vms_member_read(guest->memory, task, &tasks->mm, &its_mm) && its_pid == pid &&
		   its_mm == mm;
	g_mutex_unlock(&guest->lock);
	return has;
}

/* As __task_state_index() in include/linux/sched.h. */
char vms_linux_state_letter(uint64_t state, uint64_t exit_state)
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

/* Reads who a task is, without its state and its parent. */
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
	ret->state = vms_linux_state_letter(state, exit_state);
	return true;
}

bool vms_linux_current(void *system, struct vms_memory *memory, const struct vms_regs *regs,
		       struct vms_task *ret)
{
	struct vms_linux *guest = system;
	const struct vms_linux_tasks *tasks = guest->tasks;
	uint64_t va;
	return tasks && tasks->arch->current(tasks, memory, regs, &va) &&
	       read_identity(tasks, memory, va, ret);
}

size_t vms_linux_ancestors(void *system, struct vms_memory *memory, const struct vms_regs *regs,
			   uint32_t *pids, size_t limit)
{
	struct vms_linux *guest = system;
	const struct vms_linux_tasks *tasks = guest->tasks;
	uint64_t task, tgid = 0;
	size_t n = 0;
	if (!tasks || !vms_memory_pin(memory) || !tasks->arch->current(tasks, memory, regs, &task))
		return 0;
	while (n < limit && tgid != 1 && task != tasks->init_task &&
	       vms_member_read(memory, task, &tasks->real_parent, &task) &&
	       vms_member_read(memory, task, &tasks->tgid, &tgid))
		pids[n++] = (uint32_t)tgid;
	return n;
}

bool vms_linux_add_current(const void *system, GArray *ops)
{
	const struct vms_linux *guest = system;
	if (guest->tasks)
		guest->tasks->arch->add_current(guest->tasks, ops);
	return guest->tasks;
}

/* ---- all tasks -------------------------------------------------------- */

static int compare_tasks(const void *a, const void *b)
{
	const struct vms_task *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

/* A list of tasks that is being read. */
struct listing {
	struct vms_linux *guest;
	GArray *tasks;
	GHashTable *seen; /* addresses of the tasks in `tasks` */
	GError *loss;	  /* why tasks are missing, or NULL */
};

/* Takes the error. That the list was cut off is more than that a part of it is damaged. */
static void keep_loss(struct listing *listing, GError *loss)
{
	if (g_error_matches(loss, VMS_ERROR, VMS_ERROR_BUDGET))
		g_clear_error(&listing->loss);
	if (listing->loss)
		g_error_free(loss);
	else
		listing->loss = loss;
}

/* Adds a task. In damaged lists, a task may be on several lists, or a node may belong to none. */
static bool add_task(struct listing *listing, uint64_t va)
{
	struct vms_task task = { 0 };
	if (!read_task(listing->guest->tasks, listing->guest->memory, va, &task) ||
	    !g_hash_table_add(listing->seen, GSIZE_TO_POINTER(va)) ||
	    !vms_budget_take(listing->guest->budget, VMS_BUDGET_ITEMS, 1) ||
	    !vms_budget_take(listing->guest->budget, VMS_BUDGET_BYTES, BYTES_OF_TASK))
		return false;
	g_array_append_val(listing->tasks, task);
	return true;
}

static bool visit_thread(uint64_t node, void *data)
{
	struct listing *listing = data;
	return add_task(listing, node - listing->guest->tasks->thread_node.offset);
}

/* Adds the threads of a process; if their list is damaged, at least the leader. */
static bool visit_process(uint64_t node, void *data)
{
	struct listing *listing = data;
	struct vms_linux *guest = listing->guest;
	const struct vms_linux_tasks *tasks = guest->tasks;
	uint64_t leader = node - tasks->tasks.offset, signal;
	GError *loss = NULL;
	if (!vms_member_read(guest->memory, leader, &tasks->signal, &signal))
		return false;
	const struct vms_list list = { guest->memory, "list of a process's threads",
				       signal + tasks->thread_head.offset,
				       TASKS_LIMIT - listing->tasks->len };
	if (vms_list_walk(&list, visit_thread, listing, &loss))
		return true;
	keep_loss(listing, loss);
	return g_hash_table_contains(listing->seen, GSIZE_TO_POINTER(leader)) ||
	       add_task(listing, leader);
}

/* Fills listing->tasks, and listing->loss if tasks are missing. */
static void list_processes(struct listing *listing)
{
	const struct vms_linux_tasks *tasks = listing->guest->tasks;
	const struct vms_list list = { listing->guest->memory, "list of processes",
				       tasks->init_task + tasks->tasks.offset, TASKS_LIMIT };
	GError *loss = NULL;
	if (!vms_list_walk(&list, visit_process, listing, &loss))
		keep_loss(listing, loss);
}

static bool check_tasks_understood(const struct vms_linux *guest, GError **error)
{
	if (guest->tasks)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		    "tasks of the guest: its kernel (%s) has no type information (BTF) that tells "
		    "where they are",
		    guest->release ? guest->release : "of unknown release");
	return false;
}

GArray *vms_linux_tasks_list(void *system, GError **loss, GError **error)
{
	struct vms_linux *guest = system;
	if (!check_tasks_understood(guest, error))
		return NULL;
	g_autoptr(GArray) tasks = g_array_new(false, false, sizeof(struct vms_task));
	g_autoptr(GHashTable) seen = g_hash_table_new(vms_hash_direct, NULL);
	struct listing listing = { guest, tasks, seen, NULL };
	g_mutex_lock(&guest->lock);
	list_processes(&listing);
	vms_budget_give_back(guest->budget, VMS_BUDGET_ITEMS, tasks->len);
	vms_budget_give_back(guest->budget, VMS_BUDGET_BYTES, tasks->len * BYTES_OF_TASK);
	g_mutex_unlock(&guest->lock);
	if (listing.loss && (!loss || tasks->len == 0)) {
		g_propagate_error(error, listing.loss);
		return NULL;
	}
	if (listing.loss)
		g_propagate_error(loss, listing.loss);
	g_array_sort(tasks, compare_tasks);
	return g_steal_pointer(&tasks);
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

uint64_t vms_linux_page_tables(const struct vms_linux *guest, struct vms_memory *memory,
			       uint64_t mm)
{
	uint64_t pgd;
	struct vms_page page;
	if (!mm || !vms_member_read(memory, mm, &guest->tasks->pgd, &pgd) ||
	    !vms_memory_translate(memory, pgd, &page))
		return 0;
	return page.pa + (pgd - page.va);
}

bool vms_linux_has_program(const struct vms_linux *guest, struct vms_memory *memory, uint64_t mm)
{
	const struct vms_btf_member *start_code = &guest->tasks->start_code;
	uint64_t start;
	return !vms_member_there(start_code) || !vms_member_read(memory, mm, start_code, &start) ||
	       start != 0;
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
					      vms_linux_page_tables(guest, guest->memory, task->mm),
					      ret))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE,
		    "task %u (%s): cannot read the registers on its kernel stack", task->tid,
		    task->comm);
	return false;
}

bool vms_linux_task_regs(void *system, const struct vms_task *task, struct vms_regs *ret,
			 GError **error)
{
	struct vms_linux *guest = system;
	if (!check_tasks_understood(guest, error))
		return false;
	g_mutex_lock(&guest->lock);
	bool read = read_switched_regs(guest, task, ret, error);
	g_mutex_unlock(&guest->lock);
	return read;
}
