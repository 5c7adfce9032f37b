/* SPDX-License-Identifier: MIT */
#include "guest/linux/operations.h"
#include "guest/linux/clock.h"
#include "guest/linux/code_facts.h"
#include "guest/linux/detect.h"
#include "guest/linux/dmesg.h"
#include "guest/linux/kernel_code.h"
#include "guest/linux/module.h"
#include "guest/linux/process.h"
#include "guest/linux/syscalls.h"
#include "guest/linux/task.h"
#include "guest/linux/task_facts.h"
#include "guest/linux/timer.h"
#include "guest/linux/trampoline.h"
#include "guest/linux/types.h"
#include "guest/linux/unwind_info.h"
#include "guest/linux/vmlinux.h"

static char *describe_guest(const void *system, struct vms_guest_info *ret)
{
	const struct vms_linux *guest = system;
	*ret = (struct vms_guest_info) {
		.name = "Linux",
		.release = guest->release,
		.version = guest->version,
		.banner = guest->banner,
		.hostname = guest->hostname,
		.unwinder = guest->orc ? "ORC" : "frame pointers",
		.found_by = guest->found_by,
		.text = guest->image,
		.kaslr_offset = guest->kaslr_offset,
		.types = guest->btf != NULL,
	};
	if (vms_symbol_table_count(guest->symbols) == 0)
		return g_strdup("the kernel carries no symbols (kallsyms): give its vmlinux "
				"with --symbols");
	if (guest->missing)
		return g_strdup(guest->missing);
	if (!guest->btf)
		return g_strdup("the kernel carries no types (BTF): tasks, modules and "
				"memory areas cannot be read");
	return NULL;
}

/* True if all parts and the kernel's own page tables were found. */
static bool is_complete(const void *system)
{
	const struct vms_linux *guest = system;
	return guest->has_own_tables && !guest->missing && guest->tasks && guest->modules;
}

static struct vms_symbolizer *get_symbolizer(const void *system)
{
	return ((const struct vms_linux *)system)->symbolizer;
}

static void get_image(const void *system, uint64_t *start, uint64_t *end)
{
	const struct vms_linux *guest = system;
	*start = guest->image;
	*end = guest->image_end;
}

static struct vms_symbol_table *get_symbols(const void *system, unsigned index)
{
	const struct vms_linux *guest = system;
	return index == 0 ? guest->symbols : index == 1 ? guest->bpf : NULL;
}

static const char *get_vmcoreinfo(const void *system)
{
	return ((const struct vms_linux *)system)->vmcoreinfo;
}

static void get_kernel_regs(void *system, struct vms_regs *ret)
{
	struct vms_linux *guest = system;
	g_mutex_lock(&guest->lock);
	*ret = *vms_memory_regs(guest->memory);
	g_mutex_unlock(&guest->lock);
	ret->valid[0] = ret->valid[1] = 0;
}

const struct vms_guest_ops vms_linux_ops = {
	.kind = VMS_GUEST_LINUX,
	.detect = vms_linux_detect,
	.free = vms_linux_free,
	.describe = describe_guest,
	.is_complete = is_complete,
	.follow_tables = vms_linux_follow_tables,

	.symbolizer = get_symbolizer,
	.image = get_image,
	.symbols = get_symbols,
	.is_own_file = vms_linux_is_own_file,
	.code_changed = vms_linux_code_changed,
	.note_kernel_pc = vms_linux_note_trampoline,
	.vmcoreinfo = get_vmcoreinfo,

	.code_role = vms_linux_code_role,
	.code_is_freed = vms_linux_code_is_freed,
	.special_insns = vms_linux_special_insns,

	.types = vms_linux_types,

	.refresh_modules = vms_linux_refresh_code,
	.modules = vms_linux_modules_list,

	.current = vms_linux_current,
	.ancestors = vms_linux_ancestors,
	.add_current = vms_linux_add_current,
	.tasks = vms_linux_tasks_list,
	.task_facts = vms_linux_task_facts,
	.task_cgroup = vms_linux_task_cgroup,
	.task_regs = vms_linux_task_regs,
	.task_layout = vms_linux_task_layout,
	.task_has = vms_linux_task_has,
	.task_wait = vms_linux_task_wait,
	.is_sleep_code = vms_linux_is_sleep_code,
	.process = vms_linux_process,
	.note_address = vms_linux_note_address,
	.read_files = vms_linux_read_files,
	.enter_process = vms_linux_enter_process,
	.user_code = vms_linux_user_code,
	.next_code = vms_linux_next_code,
	.mappings_stamp = vms_linux_mappings_stamp,

	.is_kernel_text = vms_linux_is_text,
	.is_entry_text = vms_linux_is_entry_text,
	.pt_regs_record = vms_linux_pt_regs_record,
	.kernel_regs = get_kernel_regs,
	.has_orc = vms_linux_has_orc,
	.orc = vms_linux_orc_at,

	.syscalls = vms_linux_syscalls,
	.timers = vms_linux_timers,
	.clocks = vms_linux_clocks,
	.dmesg = vms_linux_dmesg,
};
