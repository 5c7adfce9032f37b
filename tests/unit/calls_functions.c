/* SPDX-License-Identifier: MIT */
/* The table of functions, of kernels that have the symbols that a test gives them. */
#include "calls/functions.h"
#include "fake_machine.h"
#include "guest/guest-private.h"
#include "guest/linux/linux.h"
#include "guest/linux/operations.h"

struct symbol {
	uint64_t va;
	const char *name;
	char type;
};

struct fixture {
	struct vms_machine *machine;
	struct vms_linux linux_guest;
	struct vms_guest guest;
	GArray *functions;
};

static void set_up(struct fixture *f, gconstpointer data)
{
	const struct vms_arch *arch = data;
	f->machine = fake_machine_new(arch, 1);
	f->linux_guest = (struct vms_linux) {
		.arch = arch,
		.symbols = vms_symbol_table_new("vmlinux"),
	};
	f->guest = (struct vms_guest) {
		.machine = f->machine,
		.ops = &vms_linux_ops,
		.system = &f->linux_guest,
		.symbolizer = vms_symbolizer_new(),
	};
}

static void tear_down(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	g_clear_pointer(&f->functions, g_array_unref);
	vms_symbolizer_unref(f->guest.symbolizer);
	vms_symbol_table_unref(f->linux_guest.symbols);
	vms_machine_unref(f->machine);
}

static void add_symbols(struct fixture *f, const struct symbol *symbols, size_t n)
{
	for (size_t i = 0; i < n; i++)
		vms_symbol_table_add(f->linux_guest.symbols, symbols[i].name, symbols[i].va, 0,
				     symbols[i].type);
	vms_symbol_table_finish(f->linux_guest.symbols, UINT64_MAX);
}

static void make(struct fixture *f, const struct vms_calls_options *options)
{
	GError *error = NULL;
	f->functions = vms_calls_list_functions(
		&f->guest, vms_calls_abi_of(vms_machine_arch(f->machine)), options, &error);
	g_assert_no_error(error);
	g_assert_nonnull(f->functions);
	for (guint i = 1; i < f->functions->len; i++)
		g_assert_cmphex(g_array_index(f->functions, struct vms_agent_function, i - 1).va, <,
				g_array_index(f->functions, struct vms_agent_function, i).va);
}

/* Flags of the function at `va`; -1 where there is none. */
static int flags(const struct fixture *f, uint64_t va)
{
	for (guint i = 0; i < f->functions->len; i++)
		if (g_array_index(f->functions, struct vms_agent_function, i).va == va)
			return (int)g_array_index(f->functions, struct vms_agent_function, i).flags;
	return -1;
}

static void test_kinds(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const struct symbol symbols[] = {
		{ 0x1000, "global", 'T' },	  { 0x1100, "local", 't' },
		{ 0x1200, "weak", 'W' },	  { 0x1300, "object", 'D' },
		{ 0x1400, "read_only", 'r' },	  { 0x1500, "weak_object", 'V' },
		{ 0x1600, "function.cold", 't' }, { 0x1700, "function.cold.1", 't' },
		{ 0x1800, "part.isra.0", 't' },	  { 0x1900, "__pfx_padded", 't' },
		{ 0x1910, "padded", 'T' },	  { 0x1a00, "__cfi_hashed", 't' },
		{ 0x1a10, "hashed", 'T' },	  { 0x1b00, "absolute", 'A' },
	};
	static const uint64_t expected[] = { 0x1000, 0x1100, 0x1200, 0x1800, 0x1910, 0x1a10 };
	add_symbols(f, symbols, G_N_ELEMENTS(symbols));
	make(f, &(struct vms_calls_options) { 0 });
	g_assert_cmpuint(f->functions->len, ==, G_N_ELEMENTS(expected));
	for (size_t i = 0; i < G_N_ELEMENTS(expected); i++)
		g_assert_cmpint(flags(f, expected[i]), ==, 0);
}

static void test_aliases(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const char *const only[] = { "second", NULL }, *const without[] = { "first", NULL };
	static const struct symbol symbols[] = {
		{ 0x2000, "later", 'T' },
		{ 0x1000, "first", 'T' },
		{ 0x1000, "__x86_return_thunk", 'T' },
		{ 0x1000, "second", 't' },
	};
	add_symbols(f, symbols, G_N_ELEMENTS(symbols));
	make(f, &(struct vms_calls_options) { .only = only, .without = without });
	g_assert_cmpuint(f->functions->len, ==, 2);
	g_assert_cmpint(flags(f, 0x1000), ==,
			VMS_AGENT_FUNCTION_RETURN | VMS_AGENT_FUNCTION_ONLY |
				VMS_AGENT_FUNCTION_NOT);
	g_assert_cmpint(flags(f, 0x2000), ==, 0);
}

/* Names that Debian's kernels 6.1 and 6.12 have. */
static void test_x86_64(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const struct {
		const char *name;
		int flags;
	} expected[] = {
		{ "asm_exc_page_fault", VMS_AGENT_FUNCTION_ENTRY },
		{ "asm_exc_nmi", VMS_AGENT_FUNCTION_ENTRY },
		{ "asm_sysvec_apic_timer_interrupt", VMS_AGENT_FUNCTION_ENTRY },
		{ "asm_common_interrupt", VMS_AGENT_FUNCTION_ENTRY },
		{ "entry_SYSCALL_64", VMS_AGENT_FUNCTION_ENTRY },
		{ "entry_SYSCALL_64_after_hwframe", 0 },
		{ "entry_SYSENTER_compat", VMS_AGENT_FUNCTION_ENTRY },
		{ "entry_INT80_compat", VMS_AGENT_FUNCTION_ENTRY },
		{ "entry_ibpb", 0 },
		{ "error_entry", 0 },
		{ "exc_page_fault", 0 },
		{ "asm_load_gs_index", 0 },
		{ "__x86_indirect_thunk_rax", VMS_AGENT_FUNCTION_TRANSPARENT },
		{ "__x86_indirect_thunk_array", VMS_AGENT_FUNCTION_TRANSPARENT },
		{ "__x86_indirect_call_thunk_r11", VMS_AGENT_FUNCTION_TRANSPARENT },
		{ "__x86_indirect_jump_thunk_rcx", VMS_AGENT_FUNCTION_TRANSPARENT },
		{ "__x86_return_thunk", VMS_AGENT_FUNCTION_RETURN },
		{ "srso_return_thunk", VMS_AGENT_FUNCTION_RETURN },
		{ "srso_alias_return_thunk", VMS_AGENT_FUNCTION_RETURN },
		{ "srso_alias_safe_ret", VMS_AGENT_FUNCTION_RETURN },
		{ "srso_safe_ret", VMS_AGENT_FUNCTION_RETURN },
		{ "retbleed_return_thunk", VMS_AGENT_FUNCTION_RETURN },
		{ "srso_alias_untrain_ret", 0 },
		{ "__switch_to", 0 },
		{ "__switch_to_asm", 0 },
		{ "__switch_to_xtra", 0 },
		{ "exit_mmap", 0 },
		{ "mmap_exit", 0 },
	};
	struct symbol symbols[G_N_ELEMENTS(expected)];
	for (size_t i = 0; i < G_N_ELEMENTS(expected); i++)
		symbols[i] = (struct symbol) { 0x1000 + i * 16, expected[i].name, 'T' };
	add_symbols(f, symbols, G_N_ELEMENTS(symbols));
	make(f, &(struct vms_calls_options) { 0 });
	for (size_t i = 0; i < G_N_ELEMENTS(expected); i++)
		if (flags(f, 0x1000 + i * 16) != expected[i].flags)
			g_error("%s has other flags", expected[i].name);
}

static void test_aarch64(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const char *const entries[] = { "el1t_64_sync", "el1h_64_irq", "el0t_64_fiq",
					       "el0t_32_error", "el0t_64_sync" };
	static const char *const others[] = { "el0t_64_sync_handler", "el1_interrupt",
					      "__switch_to", "el2t_64_irq" };
	struct symbol symbols[G_N_ELEMENTS(entries) + G_N_ELEMENTS(others) + 1];
	for (size_t i = 0; i < G_N_ELEMENTS(entries); i++)
		symbols[i] = (struct symbol) { 0x1000 + i * 16, entries[i], 't' };
	for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
		symbols[G_N_ELEMENTS(entries) + i] =
			(struct symbol) { 0x2000 + i * 16, others[i], 't' };
	symbols[G_N_ELEMENTS(symbols) - 1] = (struct symbol) { 0x3000, "cpu_switch_to", 'T' };
	add_symbols(f, symbols, G_N_ELEMENTS(symbols));
	make(f, &(struct vms_calls_options) { 0 });
	for (size_t i = 0; i < G_N_ELEMENTS(entries); i++)
		g_assert_cmpint(flags(f, 0x1000 + i * 16), ==, VMS_AGENT_FUNCTION_ENTRY);
	for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
		g_assert_cmpint(flags(f, 0x2000 + i * 16), ==, 0);
	g_assert_cmpint(flags(f, 0x3000), ==, 0);
}

static const struct symbol program[] = {
	{ 0x1000, "start", 'T' }, { 0x1100, "twice", 't' }, { 0x1200, "stop", 'T' },
	{ 0x1300, "twice", 't' }, { 0x1400, "data", 'D' },
};

static void test_filters(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const char *const start[] = { "start", NULL }, *const stop[] = { "stop", NULL };
	static const char *const only[] = { "twice", "start", NULL };
	const struct vms_calls_options options = { .only = only,
						   .start_at = start,
						   .stop_at = stop };
	add_symbols(f, program, G_N_ELEMENTS(program));
	make(f, &options);
	g_assert_cmpint(flags(f, 0x1000), ==, VMS_AGENT_FUNCTION_ONLY | VMS_AGENT_FUNCTION_START);
	g_assert_cmpint(flags(f, 0x1100), ==, VMS_AGENT_FUNCTION_ONLY);
	g_assert_cmpint(flags(f, 0x1300), ==, VMS_AGENT_FUNCTION_ONLY);
	g_assert_cmpint(flags(f, 0x1200), ==, VMS_AGENT_FUNCTION_STOP);
	g_assert_true(vms_calls_has_names(&options));
	g_assert_false(vms_calls_has_names(&(struct vms_calls_options) { .max_depth = 1 }));
}

static void test_unknown_filter(struct fixture *f, gconstpointer data G_GNUC_UNUSED)
{
	static const char *const names[] = { "nowhere", "data", "star" };
	add_symbols(f, program, G_N_ELEMENTS(program));
	for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
		g_autoptr(GError) error = NULL;
		const char *const without[] = { "start", names[i], NULL };
		g_assert_null(vms_calls_list_functions(
			&f->guest, vms_calls_abi_of(&vms_arch_x86_64),
			&(struct vms_calls_options) { .without = without }, &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND);
		g_assert_nonnull(strstr(error->message, names[i]));
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
#define ADD(path, arch, test) g_test_add(path, struct fixture, arch, set_up, test, tear_down)
	ADD("/calls_functions/kinds", &vms_arch_x86_64, test_kinds);
	ADD("/calls_functions/aliases", &vms_arch_x86_64, test_aliases);
	ADD("/calls_functions/x86_64", &vms_arch_x86_64, test_x86_64);
	ADD("/calls_functions/aarch64", &vms_arch_aarch64, test_aarch64);
	ADD("/calls_functions/filters", &vms_arch_x86_64, test_filters);
	ADD("/calls_functions/unknown-filter", &vms_arch_x86_64, test_unknown_filter);
	return g_test_run();
}
