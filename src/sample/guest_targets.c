/* SPDX-License-Identifier: MIT */
#include "sample/guest_targets.h"
#include "base/program_name.h"
#include <string.h>

#define CGROUP_FOLDER "/sys/fs/cgroup" /* where systems mount control groups */

/* Numbers are in trees, because a guest could choose numbers that make a hash table slow. */
struct vms_guest_targets {
	bool all, has_processes;
	bool waits; /* a process with one of the names may still start */
	GPtrArray *names;
	GPtrArray *cgroups; /* paths of control groups, without a slash at the end; "": all */
	char *(*read_cgroup)(const struct vms_task *task, void *data);
	void *data;	/* for `read_cgroup` */
	GTree *threads; /* by tid; the values of all three are struct since */
	GTree *members; /* by pid: processes whose threads are all sampled */
	GTree *others;	/* by pid: processes that are not sampled */
};

/* The time at which a number became known. */
struct since {
	uint64_t ns;
};

static int compare_numbers(const void *a, const void *b, void *data G_GNUC_UNUSED)
{
	const unsigned x = GPOINTER_TO_UINT(a), y = GPOINTER_TO_UINT(b);
	return x < y ? -1 : x > y;
}

static GTree *make_set(void)
{
	return g_tree_new_full(compare_numbers, NULL, NULL, g_free);
}

static bool set_has(GTree *set, uint32_t number)
{
	return g_tree_lookup(set, GUINT_TO_POINTER(number));
}

static void set_add(GTree *set, uint32_t number, uint64_t time_ns)
{
	const struct since since = { time_ns };
	g_tree_replace(set, GUINT_TO_POINTER(number), g_memdup2(&since, sizeof(since)));
}

struct vms_guest_targets *vms_guest_targets_new(char *(*read_cgroup)(const struct vms_task *task,
								     void *data),
						void *data)
{
	struct vms_guest_targets *targets = g_new0(struct vms_guest_targets, 1);
	targets->names = g_ptr_array_new_with_free_func(g_free);
	targets->cgroups = g_ptr_array_new_with_free_func(g_free);
	targets->read_cgroup = read_cgroup;
	targets->data = data;
	targets->threads = make_set();
	targets->members = make_set();
	targets->others = make_set();
	return targets;
}

void vms_guest_targets_free(struct vms_guest_targets *targets)
{
	if (!targets)
		return;
	g_ptr_array_unref(targets->names);
	g_ptr_array_unref(targets->cgroups);
	g_tree_unref(targets->threads);
	g_tree_unref(targets->members);
	g_tree_unref(targets->others);
	g_free(targets);
}

/* ---- adding ------------------------------------------------------------------------ */

static void add_member(struct vms_guest_targets *targets, uint32_t pid, uint64_t time_ns)
{
	set_add(targets->members, pid, time_ns);
	g_tree_remove(targets->others, GUINT_TO_POINTER(pid));
}

static const struct vms_task *get_task(const GArray *tasks, guint i)
{
	return &g_array_index(tasks, struct vms_task, i);
}

/* False for a zombie, which is listed until its parent waits for it. */
static bool is_alive(const struct vms_task *task)
{
	return task->state != 'Z' && task->state != 'X';
}

static bool is_listed(const GArray *tasks, uint32_t id, bool is_process)
{
	for (guint i = 0; i < tasks->len; i++) {
		const struct vms_task *task = get_task(tasks, i);
		if (is_alive(task) && (is_process ? task->pid : task->tid) == id)
			return true;
	}
	return false;
}

/* Adds children of members that were not known. True if there was one. */
static bool add_children(struct vms_guest_targets *targets, const GArray *tasks, bool also_known,
			 uint64_t time_ns)
{
	bool found = false;
	for (guint i = 0; i < tasks->len; i++) {
		const struct vms_task *task = get_task(tasks, i);
		if (set_has(targets->members, task->ppid) && is_alive(task) &&
		    !set_has(targets->members, task->pid) &&
		    (also_known || !set_has(targets->others, task->pid))) {
			add_member(targets, task->pid, time_ns);
			found = true;
		}
	}
	return found;
}

/* Notes all other processes, so that they do not become members by their parents later. */
static void note_others(struct vms_guest_targets *targets, const GArray *tasks, uint64_t time_ns)
{
	for (guint i = 0; i < tasks->len; i++)
		if (!set_has(targets->members, get_task(tasks, i)->pid))
			set_add(targets->others, get_task(tasks, i)->pid, time_ns);
}

void vms_guest_targets_note_name(struct vms_guest_targets *targets, uint32_t pid, const char *comm,
				 uint64_t time_ns)
{
	if (!pid || set_has(targets->members, pid) ||
	    !g_ptr_array_find_with_equal_func(targets->names, comm, g_str_equal, NULL))
		return;
	add_member(targets, pid, time_ns);
	targets->waits = false;
}

static void note_names(struct vms_guest_targets *targets, const GArray *tasks, uint64_t time_ns)
{
	for (guint i = 0; targets->names->len && i < tasks->len; i++) {
		const struct vms_task *task = get_task(tasks, i);
		if (is_alive(task))
			vms_guest_targets_note_name(targets, task->pid, task->process_comm,
						    time_ns);
	}
}

static void add_name(struct vms_guest_targets *targets, const char *name, const GArray *tasks)
{
	g_ptr_array_add(targets->names, vms_program_name(name));
	targets->has_processes = targets->waits = true;
	note_names(targets, tasks, 0);
	while (add_children(targets, tasks, true, 0))
		;
	note_others(targets, tasks, 0);
}

/* True if a group is the group at `path`, or below it. */
static bool is_below(const char *group, const char *path)
{
	const size_t length = strlen(path);
	return strncmp(group, path, length) == 0 && (!group[length] || group[length] == '/');
}

static bool is_in_cgroup(const struct vms_guest_targets *targets, const struct vms_task *task,
			 const char *path)
{
	g_autofree char *group = targets->read_cgroup(task, targets->data);
	return group && is_below(group, path);
}

/*
 * Adds the processes in a control group. With `also_members`, it reads the groups of members, too,
 * and is true if there is any process in the group. Without, members are skipped: their children
 * start in the group.
 */
static bool note_cgroup(struct vms_guest_targets *targets, const char *path, const GArray *tasks,
			bool also_members, uint64_t time_ns)
{
	bool found = false;
	for (guint i = 0; i < tasks->len; i++) {
		const struct vms_task *task = get_task(tasks, i);
		const bool is_member = set_has(targets->members, task->pid);
		if (task->tid != task->pid || !is_alive(task) || (is_member && !also_members) ||
		    !is_in_cgroup(targets, task, path))
			continue;
		if (!is_member)
			add_member(targets, task->pid, time_ns);
		found = true;
	}
	return found;
}

/* The path may be that of the group's folder in the guest. */
static bool add_cgroup(struct vms_guest_targets *targets, const char *path, const GArray *tasks,
		       GError **error)
{
	g_autofree char *group = g_strdup(
		g_str_has_prefix(path, CGROUP_FOLDER) ? path + strlen(CGROUP_FOLDER) : path);
	for (size_t n = strlen(group); n > 0 && group[n - 1] == '/'; n--)
		group[n - 1] = 0;
	if (!note_cgroup(targets, group, tasks, true, 0)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "the guest has no process in control group %s: ps --with cgroup lists "
			    "those that have",
			    path);
		return false;
	}
	g_ptr_array_add(targets->cgroups, g_steal_pointer(&group));
	targets->has_processes = true;
	note_others(targets, tasks, 0);
	return true;
}

bool vms_guest_targets_need_tasks(enum vms_sampler_target_kind kind)
{
	return kind != VMS_SAMPLER_SYSTEM;
}

static bool add_by_number(struct vms_guest_targets *targets,
			  const struct vms_sampler_target *target, const GArray *tasks,
			  GError **error)
{
	const uint32_t id = (uint32_t)target->id;
	if (!is_listed(tasks, id, target->kind != VMS_SAMPLER_THREAD)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND, "the guest has no %s %u",
			    target->kind == VMS_SAMPLER_THREAD ? "thread" : "process", id);
		return false;
	}
	if (target->kind == VMS_SAMPLER_THREAD) {
		set_add(targets->threads, id, 0);
		return true;
	}
	targets->has_processes = true;
	add_member(targets, id, 0);
	while (target->kind == VMS_SAMPLER_JOB && add_children(targets, tasks, true, 0))
		;
	note_others(targets, tasks, 0);
	return true;
}

bool vms_guest_targets_add(struct vms_guest_targets *targets,
			   const struct vms_sampler_target *target, const GArray *tasks,
			   GError **error)
{
	switch (target->kind) {
	case VMS_SAMPLER_THREAD:
	case VMS_SAMPLER_PROCESS:
	case VMS_SAMPLER_JOB: return add_by_number(targets, target, tasks, error);
	case VMS_SAMPLER_SYSTEM: targets->all = true; return true;
	case VMS_SAMPLER_NAME: add_name(targets, target->name, tasks); return true;
	case VMS_SAMPLER_CGROUP: return add_cgroup(targets, target->name, tasks, error);
	case VMS_SAMPLER_MACHINE:
	case VMS_SAMPLER_COMMAND: break;
	}
	g_set_error_literal(
		error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		target->kind == VMS_SAMPLER_MACHINE
			? "a guest's machine is a process of the host"
			: "a program cannot be started in a guest: name one of its processes");
	return false;
}

/* ---- births and ends --------------------------------------------------------------- */

struct ends {
	GTree *alive;
	uint64_t from_ns;
	GArray *gone; /* of numbers */
};

static gboolean note_if_ended(gpointer number, gpointer since, gpointer data)
{
	struct ends *ends = data;
	const guint value = GPOINTER_TO_UINT(number);
	if (((struct since *)since)->ns < ends->from_ns && !set_has(ends->alive, value))
		g_array_append_val(ends->gone, value);
	return FALSE;
}

/* Removes numbers that are not alive, and were known before the tasks were read. */
static void remove_ended(GTree *set, GTree *alive, uint64_t from_ns)
{
	g_autoptr(GArray) gone = g_array_new(FALSE, FALSE, sizeof(guint));
	struct ends ends = { alive, from_ns, gone };
	g_tree_foreach(set, note_if_ended, &ends);
	for (guint i = 0; i < gone->len; i++)
		g_tree_remove(set, GUINT_TO_POINTER(g_array_index(gone, guint, i)));
}

void vms_guest_targets_follow(struct vms_guest_targets *targets, const GArray *tasks,
			      uint64_t from_ns)
{
	g_autoptr(GTree) pids = make_set(), tids = make_set();
	for (guint i = 0; i < tasks->len; i++) {
		const struct vms_task *task = get_task(tasks, i);
		if (!is_alive(task))
			continue;
		set_add(pids, task->pid, 0);
		set_add(tids, task->tid, 0);
	}
	remove_ended(targets->others, pids, from_ns);
	note_names(targets, tasks, from_ns);
	for (guint i = 0; i < targets->cgroups->len; i++)
		note_cgroup(targets, targets->cgroups->pdata[i], tasks, false, from_ns);
	while (add_children(targets, tasks, false, from_ns))
		;
	remove_ended(targets->members, pids, from_ns);
	remove_ended(targets->threads, tids, from_ns);
	note_others(targets, tasks, from_ns);
}

bool vms_guest_targets_change(const struct vms_guest_targets *targets)
{
	return !targets->all;
}

bool vms_guest_targets_is_new(const struct vms_guest_targets *targets, uint32_t pid)
{
	return targets->has_processes && pid && !set_has(targets->members, pid) &&
	       !set_has(targets->others, pid);
}

void vms_guest_targets_note_birth(struct vms_guest_targets *targets, uint32_t pid,
				  const uint32_t *ancestors, size_t n, uint64_t time_ns)
{
	size_t known = 0;
	while (known < n && vms_guest_targets_is_new(targets, ancestors[known]))
		known++;
	if (known == n || !set_has(targets->members, ancestors[known])) {
		if (n > 0)
			set_add(targets->others, pid, time_ns);
		return;
	}
	add_member(targets, pid, time_ns);
	for (size_t i = 0; i < known; i++)
		add_member(targets, ancestors[i], time_ns);
}

bool vms_guest_targets_has(const struct vms_guest_targets *targets, uint32_t pid, uint32_t tid)
{
	return targets->all || set_has(targets->members, pid) || set_has(targets->threads, tid);
}

bool vms_guest_targets_ended(const struct vms_guest_targets *targets)
{
	return !targets->all && !targets->waits && !targets->cgroups->len &&
	       g_tree_nnodes(targets->members) == 0 && g_tree_nnodes(targets->threads) == 0;
}
