/* SPDX-License-Identifier: MIT */
/*
 * Tasks of a kernel in memory of any content (words.h): the one that a vCPU runs, all of them, the
 * registers of those that do not run, their control groups and arguments, and those registers that
 * a core file's vCPUs lack.
 *
 * Covers: src/guest/linux/task.c src/guest/linux/task_x86_64.c src/guest/linux/task_aarch64.c
 * src/guest/linux/task_facts.c src/guest/linux/cgroup.c src/guest/container.c
 * src/guest/linux/list.c src/guest/linux/member.c src/guest/linux/core_vcpus.c
 * src/guest/linux/linux_x86_64.c src/guest/linux/linux_aarch64.c.
 */
#include "guest/linux/core_vcpus.h"
#include "guest/linux/task_facts.h"
#include "words.h"

enum {
	AARCH64 = 1,
	HOT = 2,	  /* the current task is in struct pcpu_hot */
	ONE_CPU = 4,	  /* nothing is per CPU */
	OLD_STATE = 8,	  /* `state` is called so */
	NO_MEMBERS = 16,  /* something is missing */
	ENTRY_CODE = 32,  /* the entry's code tells where the current task is */
	USER = 64,	  /* the vCPU runs a user program */
	NO_NOTES = 128,	  /* which CPUs crashed is not told */
	HAS_ROOT = 256,	  /* the vCPU's page tables are known */
	NEW_PARENT = 512, /* a control group's parent is called as in newer kernels */
};

#define INIT_TASK (WORDS_RAM + 0x100)
#define TASKS	  8 /* whose registers are asked for */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TASK_MEMBERS(state)                                                                        \
	{ "pid", 0, 4 }, { "tgid", 4, 4 }, { "mm", 8, 8 }, { "comm", 16, 16 },                     \
		{ "exit_state", 32, 4 }, { state, 36, 4 }, { "real_parent", 40, 8 },               \
		{ "group_leader", 48, 8 }, { "signal", 56, 8 }, { "tasks", 64, 16 },               \
		{ "thread_node", 80, 16 }, { "se", 88, 8, runtime },                               \
	{                                                                                          \
		"cgroups", 8, 8                                                                    \
	}

static const struct encoder_member runtime[] = { { "sum_exec_runtime", 0, 8 }, { 0 } };
static const struct encoder_member x86_thread[] = { { "sp", 0, 8 }, { 0 } };
static const struct encoder_member aarch64_thread[] = { { "cpu_context", 0, 104 }, { 0 } };

static const struct words_structure structures[] = {
	{ "task_struct",
	  { OLD_STATE, AARCH64 },
	  { TASK_MEMBERS("state"), { "thread", 104, 8, x86_thread } } },
	{ "task_struct",
	  { 0, OLD_STATE | AARCH64 },
	  { TASK_MEMBERS("__state"), { "on_cpu", 96, 4 }, { "thread", 104, 8, x86_thread } } },
	{ "task_struct",
	  { AARCH64, 0 },
	  { TASK_MEMBERS("__state"),
	    { "on_cpu", 96, 4 },
	    { "thread", 104, 104, aarch64_thread } } },
	{ "signal_struct", { 0, 0 }, { { "thread_head", 0, 16 }, { "sum_sched_runtime", 8, 8 } } },
	{ "mm_struct",
	  { 0, NO_MEMBERS },
	  { { "pgd", 0, 8 }, { "arg_start", 8, 8 }, { "arg_end", 16, 8 } } },
	{ "css_set", { 0, 0 }, { { "dfl_cgrp", 0, 8 }, { "subsys", 8, 32 } } },
	{ "cgroup_subsys_state", { 0, 0 }, { { "cgroup", 0, 8 } } },
	{ "cgroup", { 0, 0 }, { { "kn", 8, 8 } } },
	{ "kernfs_node", { 0, NEW_PARENT }, { { "name", 0, 8 }, { "parent", 8, 8 } } },
	{ "kernfs_node", { NEW_PARENT, 0 }, { { "name", 0, 8 }, { "__parent", 8, 8 } } },
	{ "pcpu_hot", { 0, NO_MEMBERS }, { { "current_task", 8, 8 } } },
	{ "inactive_task_frame",
	  { 0, 0 },
	  { { "bx", 0, 8 },
	    { "bp", 8, 8 },
	    { "r12", 16, 8 },
	    { "r13", 24, 8 },
	    { "r14", 32, 8 },
	    { "r15", 40, 8 },
	    { "ret_addr", 48, 8 } } },
	{ 0 },
};

static const struct words_symbol symbols[] = {
	{ "this_cpu_off", 0, { 0, ONE_CPU } },
	{ "current_task", 8, { 0, ONE_CPU } },
	{ "current_task", WORDS_RAM + 8, { ONE_CPU, 0 } },
	{ "pcpu_hot", 0, { HOT, 0 } },
	{ "__entry_task", 8, { AARCH64, ENTRY_CODE } },
	{ "el0t_64_sync", WORDS_RAM + 0x800, { AARCH64 | ENTRY_CODE, 0 } },
	{ "init_task", INIT_TASK, { 0, 0 } },
	{ "__per_cpu_offset", WORDS_RAM + 0x900, { 0, ONE_CPU } },
	{ "nr_cpu_ids", WORDS_RAM + 0x910, { 0, 0 } },
	{ "crash_notes", WORDS_RAM + 0x918, { 0, NO_NOTES } },
	{ "__cpu_online_mask", WORDS_RAM + 0x920, { 0, NO_NOTES } },
	{ 0 },
};

static void set_reg(const struct vms_arch *arch, struct vms_regs *regs, const char *name,
		    uint64_t value)
{
	int reg = vms_arch_reg(arch, name);
	g_assert_cmpint(reg, >=, 0);
	vms_regs_set(regs, (unsigned)reg, value);
}

static struct vms_regs make_regs(const struct vms_arch *arch, unsigned options)
{
	struct vms_regs regs = { 0 };
	if (options & AARCH64) {
		set_reg(arch, &regs, "SP_EL0", INIT_TASK);
		set_reg(arch, &regs, "TPIDR_EL1", WORDS_RAM);
		set_reg(arch, &regs, "cpsr", options & USER ? 0 : 5);
	} else {
		set_reg(arch, &regs, "cs", options & USER ? 0x33 : 0x10);
		set_reg(arch, &regs, "gs_base", WORDS_RAM);
		set_reg(arch, &regs, "k_gs_base", WORDS_RAM + 0x40);
	}
	return regs;
}

static void check_task(const struct vms_task *task)
{
	words_check_name(task->comm);
	words_check_name(task->process_comm);
	g_assert_nonnull(strchr("RSDTtXZPI", task->state));
}

static void check_facts(struct vms_linux *guest, const struct vms_task *task)
{
	struct vms_task_facts facts;
	vms_linux_task_facts(guest, task, &facts);
	if (facts.command)
		words_check_name(facts.command);
	if (facts.cgroup)
		words_check_name(facts.cgroup);
	if (facts.container)
		words_check_name(facts.container);
	vms_task_facts_clear(&facts);
}

/* As of a core file, whose vCPUs have few registers. */
static void complete(struct vms_linux *guest, unsigned options)
{
	const struct vms_arch *arch = guest->arch;
	struct vms_regs *regs = fake_machine_regs(guest->machine, 0);
	if (options & HAS_ROOT)
		set_reg(arch, regs, options & AARCH64 ? "TTBR1_EL1" : "cr3", 0x1000);
	set_reg(arch, regs, options & AARCH64 ? "cpsr" : "cs", options & AARCH64 ? 5 : 0x10);
	vms_linux_complete_vcpus(guest);
}

static void ask(struct vms_linux *guest, const struct vms_regs *regs)
{
	struct vms_task task = { 0 };
	struct vms_task_layout layout;
	struct vms_regs switched;
	vms_linux_task_layout(guest, &layout);
	if (vms_linux_current(guest, guest->memory, regs, &task))
		check_task(&task);
	vms_linux_task_regs(guest, &task, &switched, NULL);
	g_autoptr(GError) loss = NULL;
	g_autoptr(GArray) tasks = vms_linux_tasks_list(guest, &loss, NULL);
	for (guint i = 0; tasks && i < tasks->len; i++) {
		const struct vms_task *one = &g_array_index(tasks, struct vms_task, i);
		check_task(one);
		if (i < TASKS)
			vms_linux_task_regs(guest, one, &switched, NULL);
		if (i < TASKS)
			check_facts(guest, one);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const unsigned options = words_options(data, size);
	const struct words_kernel kernel = {
		options & AARCH64 ? &vms_arch_aarch64 : &vms_arch_x86_64, symbols, structures, { 0 }
	};
	struct vms_linux *guest = words_linux_new(&kernel, data, size);
	const struct vms_regs regs = make_regs(kernel.arch, options);
	guest->tasks = vms_linux_tasks_new(guest);
	guest->task_facts = vms_linux_task_facts_new(guest);
	ask(guest, &regs);
	complete(guest, options);
	words_linux_free(guest);
	return 0;
}
