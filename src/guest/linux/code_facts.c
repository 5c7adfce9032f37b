/* SPDX-License-Identifier: MIT */
/*
 * The kernel and each of its modules have a table of traps (include/linux/bug.h), which tells
 * warnings from bugs, and one of instructions that may fault (struct exception_table_entry), with
 * the address at which the kernel goes on. Both give addresses as distances from the entry's own.
 */
#include "guest/linux/code_facts.h"
#include "guest/linux/member.h"
#include "guest/linux/module.h"

#define TABLE_LIMIT	(16u << 20) /* bytes of a table */
#define BUGFLAG_WARNING 1

/* A table in memory, whose entries have these members. */
struct table {
	uint64_t va, end;
	uint64_t entry_size;
	struct vms_btf_member insn;  /* the distance of the instruction */
	struct vms_btf_member other; /* of what else is told: the fixup, or flags */
};

/* ---- roles --------------------------------------------------------------------- */

/*
 * Functions that are declared to never return to their caller, of all architectures and versions.
 * The compiler finds out more of them within a file, which nothing tells.
 */
static const char *const no_return[] = {
	"__fortify_panic",
	"__invalid_creds",
	"__kunit_abort",
	"__module_put_and_exit",
	"__module_put_and_kthread_exit",
	"__reiserfs_panic",
	"__stack_chk_fail",
	"__ubsan_handle_builtin_unreachable",
	"__x64_sys_exit",
	"__x64_sys_exit_group",
	"__arm64_sys_exit",
	"__arm64_sys_exit_group",
	"arch_cpu_idle_dead",
	"arm64_serror_panic",
	"bad_mode",
	"complete_and_exit",
	"cpu_bringup_and_idle",
	"cpu_die_early",
	"cpu_startup_entry",
	"do_exit",
	"do_group_exit",
	"do_task_dead",
	"ex_handler_msr_mce",
	"fortify_panic",
	"hlt_play_dead",
	"hv_ghcb_terminate",
	"kthread_complete_and_exit",
	"kthread_exit",
	"kunit_try_catch_throw",
	"machine_real_restart",
	"make_task_dead",
	"mpt_halt_firmware",
	"nmi_panic_self_stop",
	"panic",
	"panic_bad_stack",
	"panic_smp_self_stop",
	"rest_init",
	"rewind_stack_and_make_dead",
	"rewind_stack_do_exit",
	"rust_begin_unwind",
	"rust_helper_BUG",
	"sev_es_terminate",
	"snp_abort",
	"start_kernel",
	"stop_this_cpu",
	"usercopy_abort",
	"vpanic",
	"x86_64_start_kernel",
	"x86_64_start_reservations",
	"xen_cpu_bringup_again",
	"xen_start_kernel",
};

static bool is_in(const char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

enum vms_code_role vms_linux_code_role(const char *symbol)
{
	if (g_str_has_suffix(symbol, "return_thunk"))
		return VMS_CODE_RETURN;
	if (g_str_has_prefix(symbol, "__x86_indirect_"))
		return VMS_CODE_INDIRECT;
	return is_in(no_return, G_N_ELEMENTS(no_return), symbol) ? VMS_CODE_NO_RETURN
								 : VMS_CODE_ORDINARY;
}

/* ---- init code ----------------------------------------------------------------- */

/* What is only needed at boot lies together. It is freed before the first program runs. */
bool vms_linux_code_is_freed(const void *system, struct vms_memory *memory, uint64_t va)
{
	const struct vms_linux *guest = system;
	uint64_t begin, end, variable;
	uint32_t state;
	int64_t freeing;
	return vms_linux_symbol(guest, "__init_begin", &begin) &&
	       vms_linux_symbol(guest, "__init_end", &end) && va >= begin && va < end &&
	       vms_linux_symbol(guest, "system_state", &variable) && guest->btf &&
	       (vms_btf_enumerator(guest->btf, "SYSTEM_FREEING_INITMEM", &freeing) ||
		vms_btf_enumerator(guest->btf, "SYSTEM_RUNNING", &freeing)) &&
	       vms_memory_read_u32(memory, variable, &state) && state >= freeing;
}

/* ---- tables --------------------------------------------------------------------- */

/* Reads the address that an entry gives by its distance from the member itself. */
static uint64_t get_address(const uint8_t *entry, uint64_t entry_va,
			    const struct vms_btf_member *member)
{
	int32_t distance;
	memcpy(&distance, entry + member->offset, sizeof(distance));
	return entry_va + member->offset + (uint64_t)(int64_t)GINT32_FROM_LE(distance);
}

static bool is_warning(struct vms_bytes entry, const struct vms_btf_member *flags)
{
	uint64_t value;
	return vms_member_get(entry, flags, &value) && (value & BUGFLAG_WARNING);
}

/* Adds the entries of instructions in the range. False if the table cannot be read. */
static bool add_entries(const struct table *table, struct vms_memory *memory, bool is_bugs,
			uint64_t va, uint64_t size, GArray *to)
{
	const uint64_t bytes = table->end - table->va;
	if (table->end < table->va || bytes > TABLE_LIMIT ||
	    table->insn.offset + sizeof(int32_t) > table->entry_size ||
	    table->other.offset + table->other.size > table->entry_size)
		return false;
	g_autofree uint8_t *content = g_malloc(bytes);
	if (!vms_memory_read(memory, table->va, content, bytes))
		return false;
	for (uint64_t at = 0; at + table->entry_size <= bytes; at += table->entry_size) {
		const uint8_t *entry = content + at;
		struct vms_special_insn special = { .va = get_address(entry, table->va + at,
								      &table->insn) };
		if (special.va - va >= size)
			continue;
		if (is_bugs)
			special.is_warning = is_warning(
				(struct vms_bytes) { entry, table->entry_size }, &table->other);
		else
			special.fixup = get_address(entry, table->va + at, &table->other);
		g_array_append_val(to, special);
	}
	return true;
}

/* Finds the kernel's own table, or that of the module that has `va`. */
static bool find_table(const struct vms_linux *guest, struct vms_memory *memory, uint64_t va,
		       const char *symbols[2], const char *members[2], struct table *table)
{
	struct vms_btf_member pointer, count;
	uint64_t module, n;
	if (va - guest->image < guest->image_end - guest->image)
		return vms_linux_symbol(guest, symbols[0], &table->va) &&
		       vms_linux_symbol(guest, symbols[1], &table->end);
	if (!vms_linux_module_struct_at(guest, va, &module) ||
	    !vms_btf_member(guest->btf, "module", members[0], &pointer) ||
	    !vms_btf_member(guest->btf, "module", members[1], &count) ||
	    !vms_member_read(memory, module, &pointer, &table->va) ||
	    !vms_member_read(memory, module, &count, &n) || n > TABLE_LIMIT / table->entry_size)
		return false;
	table->end = table->va + n * table->entry_size;
	return true;
}

/* False if the table cannot be found. */
static bool add_bugs(const struct vms_linux *guest, struct vms_memory *memory, uint64_t va,
		     uint64_t size, GArray *to)
{
	static const char *symbols[] = { "__start___bug_table", "__stop___bug_table" };
	static const char *members[] = { "bug_table", "num_bugs" };
	struct table bugs = { 0 };
	return vms_btf_size(guest->btf, "bug_entry", &bugs.entry_size) && bugs.entry_size &&
	       vms_btf_member(guest->btf, "bug_entry", "bug_addr_disp", &bugs.insn) &&
	       vms_btf_member(guest->btf, "bug_entry", "flags", &bugs.other) &&
	       find_table(guest, memory, va, symbols, members, &bugs) &&
	       add_entries(&bugs, memory, true, va, size, to);
}

static void add_fixups(const struct vms_linux *guest, struct vms_memory *memory, uint64_t va,
		       uint64_t size, GArray *to)
{
	static const char *symbols[] = { "__start___ex_table", "__stop___ex_table" };
	static const char *members[] = { "extable", "num_exentries" };
	struct table fixups = { 0 };
	if (vms_btf_size(guest->btf, "exception_table_entry", &fixups.entry_size) &&
	    fixups.entry_size &&
	    vms_btf_member(guest->btf, "exception_table_entry", "insn", &fixups.insn) &&
	    vms_btf_member(guest->btf, "exception_table_entry", "fixup", &fixups.other) &&
	    find_table(guest, memory, va, symbols, members, &fixups))
		add_entries(&fixups, memory, false, va, size, to);
}

bool vms_linux_special_insns(void *system, struct vms_memory *memory, uint64_t va, uint64_t size,
			     GArray *to)
{
	struct vms_linux *guest = system;
	if (!guest->btf)
		return !guest->arch->is_kernel_address(va);
	g_mutex_lock(&guest->lock);
	bool done = add_bugs(guest, memory, va, size, to);
	add_fixups(guest, memory, va, size, to);
	g_mutex_unlock(&guest->lock);
	return done || !guest->arch->is_kernel_address(va);
}
