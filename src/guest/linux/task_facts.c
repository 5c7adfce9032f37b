/* SPDX-License-Identifier: MIT */
#include "guest/linux/task_facts.h"
#include "base/text.h"
#include "guest/container.h"
#include "guest/linux/member.h"
#include "guest/linux/task-private.h"
#include <string.h>

#define COMMAND_LIMIT 4096 /* bytes; a program may have megabytes of arguments */

struct vms_linux_task_facts {
	struct vms_btf_member runtime, signal, ended_runtime, arg_start, arg_end;
	struct vms_cgroups *cgroups;
	struct vms_memory *memory; /* of the programs, one after the other; NULL: not made yet */
};

#define AT(member) offsetof(struct vms_linux_task_facts, member)

static const struct vms_wanted_member wanted_members[] = {
	{ "task_struct", "se.sum_exec_runtime", AT(runtime), true },
	{ "task_struct", "signal", AT(signal), true },
	{ "signal_struct", "sum_sched_runtime", AT(ended_runtime), true },
	{ "mm_struct", "arg_start", AT(arg_start), true },
	{ "mm_struct", "arg_end", AT(arg_end), true },
};

struct vms_linux_task_facts *vms_linux_task_facts_new(const struct vms_linux *guest)
{
	struct vms_linux_task_facts facts = { 0 };
	if (!guest->btf || !guest->tasks ||
	    !vms_members_find(guest->btf, wanted_members, G_N_ELEMENTS(wanted_members), &facts))
		return NULL;
	facts.cgroups = vms_cgroups_new(guest);
	return g_memdup2(&facts, sizeof(facts));
}

void vms_linux_task_facts_free(struct vms_linux_task_facts *facts)
{
	if (!facts)
		return;
	vms_cgroups_free(facts->cgroups);
	if (facts->memory)
		vms_memory_free(facts->memory);
	g_free(facts);
}

static bool read_optional(struct vms_memory *memory, uint64_t va,
			  const struct vms_btf_member *member, uint64_t *ret)
{
	return vms_member_there(member) && vms_member_read(memory, va, member, ret);
}

static void read_times(struct vms_linux *guest, uint64_t task, struct vms_task_facts *ret)
{
	const struct vms_linux_task_facts *facts = guest->task_facts;
	uint64_t signal;
	if (!read_optional(guest->memory, task, &facts->runtime, &ret->cpu_ns))
		ret->cpu_ns = UINT64_MAX;
	if (!read_optional(guest->memory, task, &facts->signal, &signal) ||
	    !read_optional(guest->memory, signal, &facts->ended_runtime, &ret->ended_cpu_ns))
		ret->ended_cpu_ns = UINT64_MAX;
}

/* Returns memory as these registers show it. It has a cache, which takes long to make. */
static struct vms_memory *get_memory(struct vms_linux *guest, const struct vms_regs *regs)
{
	struct vms_linux_task_facts *facts = guest->task_facts;
	if (facts->memory) {
		vms_memory_set_regs(facts->memory, regs);
	} else {
		facts->memory = vms_memory_new(guest->machine, regs);
		vms_memory_set_budget(facts->memory, guest->budget);
	}
	return facts->memory;
}

/* Reads up to the first byte that is not in memory. Returns how many bytes were read. */
static size_t read_arguments(struct vms_linux *guest, const struct vms_task *task, uint64_t va,
			     char *text, size_t size)
{
	const uint64_t pgd = vms_linux_page_tables(guest, guest->memory, task->mm);
	struct vms_regs regs = *vms_memory_regs(guest->memory);
	size_t done = 0;
	if (pgd == 0)
		return 0;
	guest->tasks->arch->set_tables(&regs, pgd);
	struct vms_memory *memory = get_memory(guest, &regs);
	while (done < size) {
		const size_t part = MIN(size - done, 4096 - (va + done) % 4096);
		if (!vms_memory_read(memory, va + done, text + done, part))
			break;
		done += part;
	}
	return done;
}

/*
 * Reads the arguments, or the title that the program has written over them, into COMMAND_LIMIT
 * bytes. A title is told by the last byte of the arguments, which is not 0 then. It ends at its
 * first 0, which may lie behind the arguments. Returns how many bytes were read.
 */
static size_t read_arguments_or_title(struct vms_linux *guest, const struct vms_task *task,
				      uint64_t start, uint64_t end, char *text)
{
	const size_t n = read_arguments(guest, task, start, text, MIN(end - start, COMMAND_LIMIT));
	if (n < end - start || text[n - 1] == '\0')
		return n;
	return strnlen(text, read_arguments(guest, task, start, text, COMMAND_LIMIT));
}

/* Reads the command line as one line, as ps shows it. NULL if it is not known. */
static char *read_command(struct vms_linux *guest, const struct vms_task *task)
{
	const struct vms_linux_task_facts *facts = guest->task_facts;
	uint64_t start, end;
	if (task->mm == 0 || !read_optional(guest->memory, task->mm, &facts->arg_start, &start) ||
	    !read_optional(guest->memory, task->mm, &facts->arg_end, &end) || end <= start)
		return NULL;
	g_autofree char *text = g_malloc(COMMAND_LIMIT + 1);
	size_t n = read_arguments_or_title(guest, task, start, end, text);
	while (n > 0 && text[n - 1] == '\0')
		n--;
	for (size_t i = 0; i < n; i++)
		if (text[i] == '\0')
			text[i] = ' ';
	text[n] = '\0';
	vms_text_clean(text);
	return n > 0 ? g_steal_pointer(&text) : NULL;
}

static char *read_cgroup(struct vms_linux *guest, uint64_t task)
{
	const struct vms_cgroups *cgroups = guest->task_facts ? guest->task_facts->cgroups : NULL;
	char path[VMS_CGROUP_PATH_SIZE];
	return cgroups && vms_cgroups_path(cgroups, guest->memory, task, path) ? g_strdup(path)
									       : NULL;
}

char *vms_linux_container(struct vms_linux *guest, uint64_t task)
{
	g_autofree char *path = read_cgroup(guest, task);
	return path ? vms_container_name(path) : NULL;
}

char *vms_linux_task_cgroup(void *system, const struct vms_task *task)
{
	struct vms_linux *guest = system;
	g_mutex_lock(&guest->lock);
	char *path = read_cgroup(guest, task->va);
	g_mutex_unlock(&guest->lock);
	return path;
}

bool vms_linux_task_facts(void *system, const struct vms_task *task, struct vms_task_facts *ret)
{
	struct vms_linux *guest = system;
	*ret = (struct vms_task_facts) { .cpu_ns = UINT64_MAX, .ended_cpu_ns = UINT64_MAX };
	if (!guest->task_facts)
		return false;
	g_mutex_lock(&guest->lock);
	read_times(guest, task->va, ret);
	ret->command = read_command(guest, task);
	ret->cgroup = read_cgroup(guest, task->va);
	g_mutex_unlock(&guest->lock);
	ret->container = ret->cgroup ? vms_container_name(ret->cgroup) : NULL;
	return true;
}
