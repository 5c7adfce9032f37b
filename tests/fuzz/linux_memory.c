/* SPDX-License-Identifier: MIT */
/*
 * A kernel's structures over memory of any content: its log in both layouts, its tasks, modules,
 * areas and timers. Input: pairs of bytes that say which word of memory is set and to what; every
 * structure and pointer lies in these few pages, so that wild ones often meet.
 *
 * Covers: src/guest/linux/task.c.
 */
#include "../unit/fake_linux.h"
#include "arch/x86_64.h"

#define RAM	    UINT64_C(0xffff888000000000)
#define RAM_SIZE    0x4000
#define WORDS	    (RAM_SIZE / 8)
#define READS_LIMIT 4000000 /* what any input may cost */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Members that lie close to each other, as the words of the input do. */
static GByteArray *types(void)
{
	static const struct {
		const char *type;
		struct encoder_member members[13];
	} structures[] = {
		{ "task_struct",
		  { { "pid", 0, 4 },
		    { "tgid", 4, 4 },
		    { "mm", 8, 8 },
		    { "comm", 16, 16 },
		    { "exit_state", 32, 4 },
		    { "__state", 36, 4 },
		    { "real_parent", 40, 8 },
		    { "group_leader", 48, 8 },
		    { "signal", 56, 8 },
		    { "tasks", 64, 16 },
		    { "thread_node", 80, 16 } } },
		{ "signal_struct", { { "thread_head", 0, 16 } } },
		{ "mm_struct",
		  { { "pgd", 0, 8 },
		    { "map_count", 8, 4 },
		    { "total_vm", 16, 8 },
		    { "start_brk", 24, 8 },
		    { "brk", 32, 8 },
		    { "start_stack", 40, 8 } } },
		{ "module",
		  { { "state", 0, 4 },
		    { "list", 8, 16 },
		    { "name", 24, 56 },
		    { "kallsyms", 80, 8 },
		    { "syms", 88, 8 },
		    { "num_syms", 96, 4 },
		    { "mem", 104, 48 } } },
		{ "module_memory", { { "base", 0, 8 }, { "size", 8, 4 } } },
		{ "mod_kallsyms",
		  { { "symtab", 0, 8 },
		    { "num_symtab", 8, 4 },
		    { "strtab", 16, 8 },
		    { "typetab", 24, 8 } } },
		{ "kernel_symbol", { { "value_offset", 0, 4 }, { "name_offset", 4, 4 } } },
		{ "printk_log",
		  { { "ts_nsec", 0, 8 },
		    { "len", 8, 2 },
		    { "text_len", 10, 2 },
		    { "dict_len", 12, 2 } } },
	};
	struct encoder encoder = encoder_new();
	for (size_t i = 0; i < G_N_ELEMENTS(structures); i++) {
		unsigned n = 0;
		uint32_t size = 0;
		for (; structures[i].members[n].name; n++)
			size = MAX(size,
				   structures[i].members[n].offset + structures[i].members[n].size);
		put_structure(&encoder, structures[i].type, (size + 7) & ~7u, n,
			      structures[i].members);
	}
	return finish(&encoder);
}

/* Each word by 5 bytes: where it is, whether it is a pointer into memory, and its value. */
static void fill(struct vms_machine *machine, const uint8_t *data, size_t size)
{
	for (size_t i = 0; i + 5 <= size; i += 5) {
		uint64_t word = (data[i] | (uint64_t)data[i + 1] << 8) % WORDS;
		uint64_t value = data[i + 3] | (uint64_t)data[i + 4] << 8;
		if (data[i + 2] & 1)
			value = RAM + value % RAM_SIZE;
		else if (data[i + 2] & 2)
			value = ~value;
		fake_machine_write_u64(machine, RAM + word * 8, value);
	}
}

static void ignore_line(uint64_t time_ns, unsigned level, const char *text, void *data)
{
	(void)time_ns;
	(void)data;
	g_assert_cmpuint(level, <, 8);
	g_assert_true(g_utf8_validate(text, -1, NULL));
}

static void ask(struct vms_linux *guest)
{
	struct vms_regs regs = { 0 };
	struct vms_task task = { 0 };
	vms_regs_set(&regs, GS_BASE, RAM);
	guest->tasks = vms_linux_tasks_new(guest);
	guest->modules = vms_linux_modules_new(guest);
	guest->processes = vms_linux_processes_new(guest);
	g_assert_nonnull(guest->tasks);
	g_assert_nonnull(guest->modules);
	vms_linux_current(guest, guest->memory, &regs, &task);
	GArray *tasks = vms_linux_tasks_list(guest, NULL);
	g_clear_pointer(&tasks, g_array_unref);
	vms_linux_modules_refresh(guest, NULL);
	vms_linux_modules_refresh(guest, NULL);
	vms_linux_module_at(guest, RAM + 8, NULL);
	vms_linux_dmesg(guest, ignore_line, NULL, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct fake_symbol symbols[] = {
		{ "this_cpu_off", 0 },
		{ "current_task", 8 },
		{ "init_task", RAM + 0x100 },
		{ "modules", RAM + 0x10 },
		{ "log_buf", RAM + 0x20 },
		{ "log_buf_len", RAM + 0x28 },
		{ "log_first_idx", RAM + 0x30 },
		{ "log_next_idx", RAM + 0x38 },
		{ NULL, 0 },
	};
	struct vms_machine *machine = fake_machine_new(&vms_arch_x86_64, 1);
	fake_machine_add_ram(machine, RAM, RAM_SIZE);
	fill(machine, data, size);
	struct vms_linux *guest = fake_linux_new(machine, symbols, types());
	ask(guest);
	g_assert_cmpuint(fake_machine_reads(machine), <, READS_LIMIT);
	vms_linux_free(guest);
	vms_machine_unref(machine);
	return 0;
}
