/* SPDX-License-Identifier: MIT */
/* Which threads of a guest are sampled, as processes begin and end. */
#include "sample/guest_targets.h"

/* A list of tasks: pid, tid, parent's pid, state. */
struct row {
	uint32_t pid, tid, ppid;
	char state;
};

static GArray *make_tasks(const struct row *rows, size_t n)
{
	GArray *tasks = g_array_new(FALSE, TRUE, sizeof(struct vms_task));
	for (size_t i = 0; i < n; i++) {
		const struct vms_task task = { .pid = rows[i].pid,
					       .tid = rows[i].tid,
					       .ppid = rows[i].ppid,
					       .state = rows[i].state ? rows[i].state : 'S' };
		g_array_append_val(tasks, task);
	}
	return tasks;
}

#define TASKS(name, ...)                                                                           \
	static const struct row name##_rows[] = { __VA_ARGS__ };                                   \
	g_autoptr(GArray) name = make_tasks(name##_rows, G_N_ELEMENTS(name##_rows))

/* The control groups of processes, by number. */
static const char *cgroups[100];

static char *read_cgroup(const struct vms_task *task, void *data)
{
	(void)data;
	return g_strdup(cgroups[task->pid]);
}

static struct vms_guest_targets *make_targets(enum vms_sampler_target_kind kind, pid_t id,
					      const GArray *tasks)
{
	const struct vms_sampler_target target = { .kind = kind, .id = id };
	struct vms_guest_targets *targets = vms_guest_targets_new(read_cgroup, NULL);
	g_assert_true(vms_guest_targets_add(targets, &target, tasks, NULL));
	return targets;
}

/* Process 1, a shell with two threads, its child and grandchild, and another process. */
#define BEGINNING                                                                                  \
	{ 1, 1, 0, 0 }, { 10, 10, 1, 0 }, { 10, 11, 1, 0 }, { 12, 12, 10, 0 }, { 13, 13, 12, 0 },  \
	{                                                                                          \
		20, 20, 1, 0                                                                       \
	}

static bool has(const struct vms_guest_targets *targets, uint32_t pid)
{
	return vms_guest_targets_has(targets, pid, pid);
}

static void test_kinds(void)
{
	TASKS(tasks, BEGINNING);
	struct vms_guest_targets *process = make_targets(VMS_SAMPLER_PROCESS, 10, tasks);
	struct vms_guest_targets *job = make_targets(VMS_SAMPLER_JOB, 10, tasks);
	struct vms_guest_targets *thread = make_targets(VMS_SAMPLER_THREAD, 11, tasks);
	struct vms_guest_targets *all = make_targets(VMS_SAMPLER_SYSTEM, 0, NULL);
	g_assert_true(vms_guest_targets_has(process, 10, 11));
	g_assert_false(has(process, 12)); /* it was there before */
	g_assert_true(has(job, 10) && has(job, 12) && has(job, 13));
	g_assert_false(has(job, 20) || has(job, 1));
	g_assert_true(vms_guest_targets_has(thread, 10, 11));
	g_assert_false(has(thread, 10));
	g_assert_true(has(all, 20) && vms_guest_targets_has(all, 0, 0));
	struct vms_guest_targets *each[] = { process, job, thread, all };
	for (size_t i = 0; i < G_N_ELEMENTS(each); i++)
		vms_guest_targets_free(each[i]);
}

static void assert_refused(enum vms_sampler_target_kind kind, pid_t id, const GArray *tasks,
			   enum vms_error code)
{
	const struct vms_sampler_target target = { .kind = kind, .id = id };
	struct vms_guest_targets *targets = vms_guest_targets_new(read_cgroup, NULL);
	g_autoptr(GError) error = NULL;
	g_assert_false(vms_guest_targets_add(targets, &target, tasks, &error));
	g_assert_error(error, VMS_ERROR, (int)code);
	g_assert_true(vms_guest_targets_ended(targets));
	vms_guest_targets_free(targets);
}

static void test_refused(void)
{
	TASKS(tasks, BEGINNING, { 30, 30, 1, 'Z' });
	assert_refused(VMS_SAMPLER_PROCESS, 11, tasks, VMS_ERROR_NOT_FOUND); /* a thread */
	assert_refused(VMS_SAMPLER_PROCESS, 30, tasks, VMS_ERROR_NOT_FOUND); /* it has ended */
	assert_refused(VMS_SAMPLER_THREAD, 99, tasks, VMS_ERROR_NOT_FOUND);
	assert_refused(VMS_SAMPLER_COMMAND, 0, tasks, VMS_ERROR_UNSUPPORTED);
}

/* Children that are born later; a process that was there before stays what it is. */
static void test_births(void)
{
	TASKS(tasks, BEGINNING);
	TASKS(later, BEGINNING, { 40, 40, 10, 0 }, { 39, 39, 40, 0 }, { 41, 41, 20, 0 });
	struct vms_guest_targets *targets = make_targets(VMS_SAMPLER_PROCESS, 10, tasks);
	g_assert_true(vms_guest_targets_is_new(targets, 40));
	g_assert_false(vms_guest_targets_is_new(targets, 12));
	vms_guest_targets_follow(targets, later, 100);
	g_assert_true(has(targets, 40) && has(targets, 39));
	g_assert_false(has(targets, 41) || has(targets, 12) || has(targets, 13));
	vms_guest_targets_free(targets);
}

/* Processes that are found by a sample before a list of tasks has them. */
static void test_ancestors(void)
{
	static const uint32_t of_member[] = { 50, 10, 1 }, of_other[] = { 20, 1 },
			      unknown[] = { 70 };
	TASKS(tasks, BEGINNING);
	struct vms_guest_targets *targets = make_targets(VMS_SAMPLER_PROCESS, 10, tasks);
	vms_guest_targets_note_birth(targets, 51, of_member, G_N_ELEMENTS(of_member), 200);
	vms_guest_targets_note_birth(targets, 52, of_other, G_N_ELEMENTS(of_other), 200);
	vms_guest_targets_note_birth(targets, 53, unknown, G_N_ELEMENTS(unknown), 200);
	vms_guest_targets_note_birth(targets, 54, NULL, 0, 200);
	g_assert_true(has(targets, 51) && has(targets, 50));
	g_assert_false(has(targets, 52) || has(targets, 53) || has(targets, 54));
	g_assert_false(vms_guest_targets_is_new(targets, 52));
	g_assert_true(vms_guest_targets_is_new(targets, 54)); /* it may be read the next time */
	/* A list that was read from before on does not have it yet. */
	vms_guest_targets_follow(targets, tasks, 150);
	g_assert_true(has(targets, 51));
	vms_guest_targets_follow(targets, tasks, 300);
	g_assert_false(has(targets, 51));
	vms_guest_targets_free(targets);
}

/* A number that another process gets later is that one's. */
static void test_ends(void)
{
	TASKS(tasks, BEGINNING);
	TASKS(ended, { 1, 1, 0, 0 }, { 10, 10, 1, 'Z' }, { 20, 20, 1, 0 });
	TASKS(again, { 1, 1, 0, 0 }, { 10, 10, 20, 0 }, { 20, 20, 1, 0 });
	struct vms_guest_targets *targets = make_targets(VMS_SAMPLER_PROCESS, 10, tasks);
	struct vms_guest_targets *thread = make_targets(VMS_SAMPLER_THREAD, 11, tasks);
	g_assert_false(vms_guest_targets_ended(targets) || vms_guest_targets_ended(thread));
	vms_guest_targets_follow(targets, ended, 100);
	vms_guest_targets_follow(thread, ended, 100);
	g_assert_true(vms_guest_targets_ended(targets) && vms_guest_targets_ended(thread));
	vms_guest_targets_follow(targets, again, 200);
	g_assert_false(has(targets, 10));
	vms_guest_targets_free(targets);
	vms_guest_targets_free(thread);
}

/* A control group: who is in it or below, who moves into it, and what they start. */
static void test_cgroups(void)
{
	static const char *const paths[] = { "/a/b", "/a/b/", "/sys/fs/cgroup/a/b" };
	TASKS(tasks, BEGINNING);
	TASKS(later, BEGINNING, { 40, 40, 12, 0 });
	TASKS(none, { 1, 1, 0, 0 });
	for (size_t i = 0; i < G_N_ELEMENTS(paths); i++) {
		const struct vms_sampler_target group = { .kind = VMS_SAMPLER_CGROUP,
							  .name = paths[i] };
		g_autoptr(GError) error = NULL;
		struct vms_guest_targets *targets = vms_guest_targets_new(read_cgroup, NULL);
		memset(cgroups, 0, sizeof(cgroups));
		cgroups[1] = "/";
		cgroups[20] = "/a/bc";
		cgroups[13] = "/a";
		g_assert_false(vms_guest_targets_add(targets, &group, tasks, &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND);
		g_assert_true(vms_guest_targets_ended(targets));
		cgroups[10] = "/a/b";
		cgroups[12] = "/a/b/c";
		g_assert_true(vms_guest_targets_add(targets, &group, tasks, NULL));
		g_assert_true(has(targets, 10) && has(targets, 12));
		g_assert_true(vms_guest_targets_has(targets, 10, 11));
		g_assert_false(has(targets, 1) || has(targets, 13) || has(targets, 20));
		cgroups[20] = "/a/b";
		vms_guest_targets_follow(targets, later, 100);
		g_assert_true(has(targets, 20) && has(targets, 40));
		g_assert_false(has(targets, 13));
		/* Nobody is in it any more; others may come. */
		vms_guest_targets_follow(targets, none, 200);
		g_assert_false(vms_guest_targets_ended(targets));
		vms_guest_targets_free(targets);
	}
}

/* Processes that are members already are in a group all the same; those of another group are not.
 */
static void test_second_target(void)
{
	static const struct vms_sampler_target targets_of_all[] = {
		{ .kind = VMS_SAMPLER_JOB, .id = 1 },
		{ .kind = VMS_SAMPLER_CGROUP, .name = "/a" },
	};
	static const struct vms_sampler_target none = { .kind = VMS_SAMPLER_CGROUP, .name = "/b" };
	TASKS(tasks, BEGINNING);
	memset(cgroups, 0, sizeof(cgroups));
	cgroups[20] = "/a";
	struct vms_guest_targets *targets = vms_guest_targets_new(read_cgroup, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(targets_of_all); i++)
		g_assert_true(vms_guest_targets_add(targets, &targets_of_all[i], tasks, NULL));
	g_assert_false(vms_guest_targets_add(targets, &none, tasks, NULL));
	vms_guest_targets_free(targets);
}

/* The root of all control groups. */
static void test_root_cgroup(void)
{
	static const struct vms_sampler_target root = { .kind = VMS_SAMPLER_CGROUP, .name = "/" };
	TASKS(tasks, BEGINNING);
	memset(cgroups, 0, sizeof(cgroups));
	cgroups[1] = "/";
	cgroups[20] = "/a";
	struct vms_guest_targets *targets = vms_guest_targets_new(read_cgroup, NULL);
	g_assert_true(vms_guest_targets_add(targets, &root, tasks, NULL));
	g_assert_true(has(targets, 1) && has(targets, 20));
	g_assert_false(has(targets, 10)); /* that of this one is not known */
	vms_guest_targets_free(targets);
}

/* A name that is waited for: processes that have it or take it, and what they start. */
static void test_names(void)
{
	static const struct vms_sampler_target name = { .kind = VMS_SAMPLER_NAME,
							.name = "/bin/waited-for-by-name" };
	TASKS(tasks, BEGINNING);
	TASKS(ended, { 1, 1, 0, 0 });
	TASKS(later, BEGINNING, { 60, 60, 20, 0 });
	struct vms_guest_targets *targets = vms_guest_targets_new(read_cgroup, NULL);
	g_assert_true(vms_guest_targets_add(targets, &name, tasks, NULL));
	vms_guest_targets_follow(targets, tasks, 100);
	g_assert_false(vms_guest_targets_ended(targets)); /* there was none yet */
	vms_guest_targets_note_name(targets, 20, "another", 150);
	g_assert_false(has(targets, 20));
	vms_guest_targets_note_name(targets, 20, "waited-for-by-n", 150);
	g_assert_true(has(targets, 20));
	vms_guest_targets_follow(targets, later, 200);
	g_assert_true(has(targets, 60));
	g_assert_false(has(targets, 10));
	vms_guest_targets_follow(targets, ended, 300);
	g_assert_true(vms_guest_targets_ended(targets));
	g_strlcpy(g_array_index(later, struct vms_task, 6).process_comm, "waited-for-by-n",
		  VMS_COMM_SIZE);
	vms_guest_targets_follow(targets, later, 400); /* by the list alone */
	g_assert_true(has(targets, 60));
	vms_guest_targets_free(targets);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/guest_targets/kinds", test_kinds);
	g_test_add_func("/guest_targets/refused", test_refused);
	g_test_add_func("/guest_targets/births", test_births);
	g_test_add_func("/guest_targets/ancestors", test_ancestors);
	g_test_add_func("/guest_targets/ends", test_ends);
	g_test_add_func("/guest_targets/names", test_names);
	g_test_add_func("/guest_targets/cgroups", test_cgroups);
	g_test_add_func("/guest_targets/second-target", test_second_target);
	g_test_add_func("/guest_targets/root-cgroup", test_root_cgroup);
	return g_test_run();
}
