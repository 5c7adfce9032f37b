/* SPDX-License-Identifier: MIT */
/* Loaded modules in memory laid out by hand, the way a kernel has them and in ways that none has.
 */
#include "guest/linux/module.h"
#include "fake_linux.h"
#include "guest/linux/kernel_code.h"
#include "guest/linux/types.h"
#include "guest/linux/unwind_info.h"

#define BASE	    UINT64_C(0xffff888000000000)
#define HEAD	    (BASE + 0x10)
#define TREE	    (BASE + 0x40) /* by which the kernel finds modules */
#define MODULE(i)   (BASE + 0x1000 + (i)*0x400)
#define KALLSYMS(i) (BASE + 0x4000 + (i)*0x40)
#define EXPORTS	    (BASE + 0x5000)
#define TYPES	    (BASE + 0x6000) /* a letter for each symbol */
#define NAMES	    (BASE + 0x100000)
#define SYMTAB	    (BASE + 0x1000000)
#define RAM	    0x3000000
#define BTF_HEAD    (BASE + 0x7000)
#define BTF(i)	    (BASE + 0x7100 + (i)*0x40) /* a struct btf_module and a struct btf */
#define BLOB	    (BASE + 0x7800)
#define TEXT(i)	    (UINT64_C(0xffffffffc0000000) + (i)*0x10000)
#define LIMIT	    4096 /* modules that are believed */
#define KSYM_SIZE   512
#define BUDGET	    (UINT64_C(256) << 20) /* bytes that are read and kept of all modules */

/* Where this kernel has its members. */
enum {
	STATE = 0,
	LIST = 8,
	NAME = 24,
	KALLSYMS_POINTER = 80,
	SYMS = 88,
	NUM_SYMS = 96,
	MEM = 104,
	CORE_KALLSYMS = 0x380,
	MEMORY_SIZE = 16,
	MEMORIES = 20, /* more than any kernel has */
	COUNTER = 8,   /* where the tree counts its changes */
	INIT_TEXT = 4, /* which part that is; the number of its enumerator */
	LIVE = 0,
	COMING = 1,
	UNFORMED = 3
};

struct fixture {
	struct vms_machine *machine;
	struct vms_linux *guest;
};

static GByteArray *types(void)
{
	static const struct encoder_member module[] = {
		{ "state", STATE, 4 },
		{ "list", LIST, 16 },
		{ "name", NAME, 56 },
		{ "kallsyms", KALLSYMS_POINTER, 8 },
		{ "core_kallsyms", CORE_KALLSYMS, 0x20 },
		{ "syms", SYMS, 8 },
		{ "num_syms", NUM_SYMS, 4 },
		{ "mem", MEM, MEMORIES * MEMORY_SIZE },
	};
	static const struct encoder_member memory[] = { { "base", 0, 8 }, { "size", 8, 4 } };
	static const struct encoder_member kallsyms[] = {
		{ "symtab", 0, 8 },
		{ "num_symtab", 8, 4 },
		{ "strtab", 16, 8 },
		{ "typetab", 24, 8 },
	};
	static const struct encoder_member export[] = { { "value_offset", 0, 4 },
							{ "name_offset", 4, 4 } };
	static const struct encoder_member counter[] = { { "seq", 0, 4 }, { 0 } };
	static const struct encoder_member tree[] = { { "root", COUNTER, 24, counter } };
	static const char *const enumerators[] = { "MODULE_STATE_LIVE", "MODULE_STATE_COMING",
						   "MODULE_STATE_GOING", "MODULE_STATE_UNFORMED",
						   "MOD_INIT_TEXT" };
	static const struct encoder_member btf_module[] = { { "list", 0, 16 },
							    { "module", 16, 8 },
							    { "btf", 24, 8 } };
	static const struct encoder_member btf[] = { { "data", 0, 8 }, { "data_size", 8, 4 } };
	struct encoder encoder = encoder_new();
	put_type(&encoder, "states", ENUM, G_N_ELEMENTS(enumerators), false, 4);
	for (uint32_t i = 0; i < G_N_ELEMENTS(enumerators); i++) {
		put(&encoder, name_offset(&encoder, enumerators[i]));
		put(&encoder, i);
	}
	put_structure(&encoder, "mod_tree_root", 0x40, G_N_ELEMENTS(tree), tree);
	put_structure(&encoder, "module", 0x400, G_N_ELEMENTS(module), module);
	put_structure(&encoder, "module_memory", MEMORY_SIZE, G_N_ELEMENTS(memory), memory);
	put_structure(&encoder, "mod_kallsyms", 0x20, G_N_ELEMENTS(kallsyms), kallsyms);
	put_structure(&encoder, "kernel_symbol", 8, G_N_ELEMENTS(export), export);
	put_structure(&encoder, "btf_module", 0x20, G_N_ELEMENTS(btf_module), btf_module);
	put_structure(&encoder, "btf", 0x10, G_N_ELEMENTS(btf), btf);
	return finish(&encoder);
}

static void write_u64(struct fixture *f, uint64_t va, uint64_t value)
{
	fake_machine_write_u64(f->machine, va, value);
}

static void write_u32(struct fixture *f, uint64_t va, uint32_t value)
{
	value = GUINT32_TO_LE(value);
	memcpy(fake_machine_at(f->machine, va), &value, sizeof(value));
}

static void write_string(struct fixture *f, uint64_t va, const char *text)
{
	memcpy(fake_machine_at(f->machine, va), text, strlen(text) + 1);
}

/* A module without symbols, linked to the one after it, or to the head. */
static void write_module(struct fixture *f, unsigned i, const char *name, uint64_t next)
{
	write_u64(f, MODULE(i) + LIST, next);
	write_string(f, MODULE(i) + NAME, name);
	write_u64(f, MODULE(i) + KALLSYMS_POINTER, KALLSYMS(i));
	write_u64(f, MODULE(i) + MEM, TEXT(i));
	write_u64(f, MODULE(i) + MEM + 8, 0x8000);
}

static void write_kallsyms(struct fixture *f, unsigned i, uint32_t n)
{
	write_u64(f, KALLSYMS(i), SYMTAB);
	write_u32(f, KALLSYMS(i) + 8, n);
	write_u64(f, KALLSYMS(i) + 16, NAMES);
	write_u64(f, KALLSYMS(i) + 24, TYPES);
}

/* An Elf64_Sym. */
static void write_symbol(struct fixture *f, uint32_t i, uint32_t name, uint16_t section,
			 uint64_t value)
{
	const uint64_t va = SYMTAB + i * UINT64_C(24);
	write_u32(f, va, name);
	write_u32(f, va + 4, (uint32_t)section << 16);
	write_u64(f, va + 8, value);
}

static void setup(struct fixture *f, const void *data)
{
	/* Without the tree's symbol, for kernels that leave out data. */
	const struct fake_symbol symbols[] = { { "modules", HEAD },
					       { data ? "other" : "mod_tree", TREE },
					       { "btf_modules", BTF_HEAD },
					       { NULL, 0 } };
	f->machine = fake_machine_new(&vms_arch_x86_64, 1);
	fake_machine_add_ram(f->machine, BASE, RAM);
	f->guest = fake_linux_new(f->machine, symbols, types());
	f->guest->modules = vms_linux_modules_new(f->guest);
	g_assert_nonnull(f->guest->modules);
	write_u64(f, HEAD, MODULE(0) + LIST);
	write_module(f, 0, "first", HEAD);
}

static void teardown(struct fixture *f, const void *data)
{
	(void)data;
	vms_linux_free(f->guest);
	vms_machine_unref(f->machine);
}

static const struct vms_module *module_at(struct fixture *f, guint index)
{
	const GPtrArray *list = vms_linux_modules_list(f->guest);
	g_assert_cmpuint(index, <, list->len);
	return list->pdata[index];
}

static void refresh(struct fixture *f)
{
	GError *error = NULL;
	g_assert_true(vms_linux_refresh_code(f->guest, &error));
	g_assert_no_error(error);
}

/* What a kernel address is called now. */
static bool locate(struct fixture *f, uint64_t va, struct vms_location *ret)
{
	return vms_symbolizer_locate(f->guest->symbolizer, VMS_KERNEL_SPACE, 0, va, ret);
}

/* The same of what was noted. */
static bool locate_noted(struct fixture *f, uint32_t code, uint64_t va, struct vms_location *ret)
{
	return vms_symbolizer_locate(f->guest->symbolizer, VMS_KERNEL_SPACE, code, va, ret);
}

static uint32_t note(struct fixture *f, uint64_t va)
{
	return vms_symbolizer_note_code(f->guest->symbolizer, va);
}

static void check_symbol(const struct vms_module *module, size_t index, const char *name,
			 uint64_t va, char type)
{
	struct vms_symbol symbol = vms_symbol_table_get(module->symbols, index);
	g_assert_cmpstr(symbol.name, ==, name);
	g_assert_cmphex(symbol.va, ==, va);
	g_assert_cmpint(symbol.type, ==, type);
}

static void write_export(struct fixture *f, uint64_t value, const char *name)
{
	write_u64(f, MODULE(0) + SYMS, EXPORTS);
	write_u32(f, MODULE(0) + NUM_SYMS, 1);
	write_u32(f, EXPORTS, (uint32_t)(value - EXPORTS));
	write_u32(f, EXPORTS + 4, 0x100 - 4);
	write_string(f, EXPORTS + 0x100, name);
}

static void test_symbols(struct fixture *f, const void *data)
{
	(void)data;
	const uint64_t code = EXPORTS + 0x800; /* near enough for a relative reference */
	write_module(f, 0, "first", MODULE(1) + LIST);
	write_module(f, 1, "second", HEAD);
	write_kallsyms(f, 0, 6);
	memcpy(fake_machine_at(f->machine, NAMES), "\0open\0close\0elsewhere\0$x", 25);
	write_string(f, TYPES, "ttTdut");
	write_symbol(f, 5, 22, 1, code); /* marks code */
	write_symbol(f, 1, 1, 1, code);
	write_symbol(f, 2, 6, 1, code + 0x10);
	write_symbol(f, 3, 0, 1, code + 0x20); /* has no name */
	write_symbol(f, 4, 12, 0, 0);	       /* is another module's */
	write_export(f, code, "open");
	refresh(f);
	g_assert_cmpuint(vms_linux_modules_list(f->guest)->len, ==, 2);
	const struct vms_module *first = module_at(f, 0);
	g_assert_cmpstr(first->name, ==, "first");
	g_assert_cmphex(first->text, ==, TEXT(0));
	g_assert_cmpuint(first->size, ==, 0x8000);
	g_assert_cmpuint(vms_symbol_table_count(first->symbols), ==, 2);
	check_symbol(first, 0, "open", code, 'T');
	check_symbol(first, 1, "close", code + 0x10, 't');
	g_assert_true(vms_linux_module_at(f->guest, TEXT(1) + 0x7fff, NULL) == module_at(f, 1));
	g_assert_null(vms_linux_module_at(f->guest, TEXT(1) + 0x8000, NULL));
	/* What has not changed is not read again. */
	refresh(f);
	g_assert_true(module_at(f, 0) == first);
}

static bool has_changed(struct fixture *f)
{
	return vms_linux_modules_changed(f->guest, f->guest->memory);
}

static void write_init(struct fixture *f, unsigned i, uint64_t va, uint32_t size)
{
	write_u64(f, MODULE(i) + MEM + INIT_TEXT * MEMORY_SIZE, va);
	write_u32(f, MODULE(i) + MEM + INIT_TEXT * MEMORY_SIZE + 8, size);
}

/* A module comes, its init function runs and returns, its init part goes, it goes. */
static void test_life(struct fixture *f, const void *data)
{
	const uint32_t changes[] = { 2, 4, 6 };
	const uint64_t init = TEXT(1) + 0x8000, counter = TREE + COUNTER;
	(void)data;
	refresh(f);
	g_assert_false(has_changed(f));

	write_module(f, 1, "second", MODULE(0) + LIST);
	write_init(f, 1, init, 0x1000);
	write_u32(f, MODULE(1) + STATE, UNFORMED);
	write_u64(f, HEAD, MODULE(1) + LIST);
	write_u32(f, counter, changes[0]);
	g_assert_true(has_changed(f));
	refresh(f);
	g_assert_cmpuint(vms_linux_modules_list(f->guest)->len, ==, 1);
	g_assert_true(has_changed(f)); /* it is one at any moment */

	write_u32(f, MODULE(1) + STATE, COMING);
	refresh(f);
	g_assert_cmpuint(vms_linux_modules_list(f->guest)->len, ==, 2);
	g_assert_true(vms_linux_module_at(f->guest, init, NULL) == module_at(f, 0));
	g_assert_true(vms_linux_is_text(f->guest, init + 0xfff));
	g_assert_true(vms_linux_is_text(f->guest, TEXT(1)));
	g_assert_cmphex(module_at(f, 0)->text, ==, TEXT(1));
	g_assert_false(has_changed(f));

	write_u32(f, MODULE(1) + STATE, LIVE);
	write_u32(f, counter, changes[1]);
	g_assert_true(has_changed(f));
	refresh(f);
	g_assert_true(has_changed(f)); /* the init part goes at any moment */
	g_assert_cmphex(module_at(f, 0)->init_text, ==, init);
	write_u64(f, MODULE(1) + KALLSYMS_POINTER, MODULE(1) + CORE_KALLSYMS);
	refresh(f);
	g_assert_cmpuint(module_at(f, 0)->init_text_size, ==, 0); /* its names are gone */
	write_init(f, 1, 0, 0);
	refresh(f);
	g_assert_false(vms_linux_is_text(f->guest, init));
	g_assert_false(has_changed(f));

	write_u64(f, HEAD, MODULE(0) + LIST);
	write_u32(f, counter, changes[2]);
	g_assert_true(has_changed(f));
	refresh(f);
	g_assert_null(vms_linux_module_at(f->guest, TEXT(1), NULL));
	g_assert_false(has_changed(f));
}

/* Where nothing counts, the list's head tells what comes, and what has an init part may change. */
static void test_uncounted(struct fixture *f, const void *data)
{
	(void)data;
	refresh(f);
	g_assert_false(has_changed(f));
	write_u32(f, TREE + COUNTER, 1);
	g_assert_false(has_changed(f));
	write_module(f, 1, "second", MODULE(0) + LIST);
	write_init(f, 1, TEXT(1) + 0x8000, 0x1000);
	write_u32(f, MODULE(1) + STATE, COMING);
	write_u64(f, HEAD, MODULE(1) + LIST);
	g_assert_true(has_changed(f));
	refresh(f);
	g_assert_true(has_changed(f));
	write_init(f, 1, 0, 0);
	refresh(f);
	g_assert_false(has_changed(f));
}

/* Data is no name for code of another part, nor for what lies between. */
static void test_parts(struct fixture *f, const void *data)
{
	const uint64_t code = TEXT(0) + 0x10, init = TEXT(0) + 0x9000;
	struct vms_location location = { 0 };
	(void)data;
	write_init(f, 0, init, 0x1000);
	write_u64(f, MODULE(0) + MEM + MEMORY_SIZE, TEXT(0) + 0x8000);
	write_u32(f, MODULE(0) + MEM + MEMORY_SIZE + 8, 0x800);
	write_kallsyms(f, 0, 3);
	memcpy(fake_machine_at(f->machine, NAMES), "\0open\0__this_module", 20);
	write_string(f, TYPES, "ttd");
	write_symbol(f, 1, 1, 1, code);
	write_symbol(f, 2, 6, 1, TEXT(0) + 0x8100);
	refresh(f);
	g_assert_true(locate(f, code + 1, &location));
	g_assert_cmpstr(location.symbol, ==, "open");
	g_assert_cmphex(location.part, ==, TEXT(0));
	g_assert_true(locate(f, TEXT(0) + 0x87ff, &location));
	g_assert_cmpstr(location.symbol, ==, "__this_module");
	g_assert_false(vms_linux_is_text(f->guest, TEXT(0) + 0x87ff));
	g_assert_false(locate(f, TEXT(0) + 0x8800, &location));
	g_assert_false(locate(f, init, &location));

	write_u64(f, MODULE(0) + MEM, 0); /* it has no code */
	write_init(f, 0, 0, 0);
	refresh(f);
	g_assert_cmphex(module_at(f, 0)->text, ==, TEXT(0) + 0x8000);
	g_assert_cmpuint(module_at(f, 0)->text_size, ==, 0);
}

/* What was noted of a module is called the same when another lies where it was. */
static void test_noted(struct fixture *f, const void *data)
{
	struct vms_location location = { 0 };
	(void)data;
	write_kallsyms(f, 0, 2);
	memcpy(fake_machine_at(f->machine, NAMES), "\0open", 6);
	write_string(f, TYPES, "tt");
	write_symbol(f, 1, 1, 1, TEXT(0));
	g_assert_cmpuint(note(f, TEXT(0)), ==, 0);
	refresh(f);
	const uint32_t first = note(f, TEXT(0));
	g_assert_cmpuint(first, >, 0);
	g_assert_cmpuint(note(f, TEXT(0) + 8), ==, first);

	write_string(f, MODULE(0) + NAME, "other");
	write_string(f, NAMES + 1, "read");
	refresh(f);
	const uint32_t second = note(f, TEXT(0));
	g_assert_cmpuint(second, !=, first);
	g_assert_true(locate_noted(f, first, TEXT(0) + 4, &location));
	g_assert_cmpstr(location.symbol, ==, "open");
	g_assert_cmpstr(location.module, ==, "first");
	g_assert_cmpuint(location.offset, ==, 4);
	g_assert_true(locate_noted(f, second, TEXT(0), &location));
	g_assert_cmpstr(location.symbol, ==, "read");
	g_assert_cmpstr(location.module, ==, "other");
	g_assert_false(locate_noted(f, second + 1, TEXT(0), &location));
	g_assert_false(locate_noted(f, second + 2, TEXT(0), &location));
}

/* All names begin before the same 14 MiB of text: who looks for its end each time never ends. */
static void test_one_long_name(struct fixture *f, const void *data)
{
	enum { N = 400000, LENGTH = 14 << 20 };
	(void)data;
	memset(fake_machine_at(f->machine, NAMES), 'x', LENGTH);
	write_kallsyms(f, 0, N);
	for (uint32_t i = 0; i < N; i++)
		write_symbol(f, i, i < N - 1 ? 0 : LENGTH, 1, TEXT(0) + i);
	refresh(f);
	const struct vms_symbol_table *symbols = module_at(f, 0)->symbols;
	g_assert_cmpuint(vms_symbol_table_count(symbols), ==, N - 1);
	g_assert_cmpuint(strlen(vms_symbol_table_get(symbols, 0).name), ==, KSYM_SIZE - 1);
}

/* Symbols of other modules are not kept, but their names are read: they count, too. */
static void test_budget(struct fixture *f, const void *data)
{
	(void)data;
	const uint32_t n = (uint32_t)(BUDGET / KSYM_SIZE);
	memset(fake_machine_at(f->machine, NAMES), 'x', KSYM_SIZE);
	write_kallsyms(f, 0, n);
	write_symbol(f, 0, 0, 1, TEXT(0));
	write_symbol(f, n - 1, 0, 1, TEXT(0) + 1);
	refresh(f);
	g_assert_cmpuint(vms_symbol_table_count(module_at(f, 0)->symbols), ==, 1);
	/* A module after it has none. */
	write_module(f, 0, "first", MODULE(1) + LIST);
	write_module(f, 1, "second", HEAD);
	write_u32(f, KALLSYMS(0) + 8, n - 1);
	write_kallsyms(f, 1, 1);
	refresh(f);
	g_assert_cmpuint(vms_symbol_table_count(module_at(f, 1)->symbols), ==, 0);
}

/* Parts that are too large, and more of them than a module can have. */
static void test_hostile_regions(struct fixture *f, const void *data)
{
	enum { MOST = 16 };
	const uint32_t largest = 1 << 30;
	(void)data;
	for (unsigned i = 0; i < MEMORIES; i++) {
		write_u64(f, MODULE(0) + MEM + i * MEMORY_SIZE, TEXT(i));
		write_u32(f, MODULE(0) + MEM + i * MEMORY_SIZE + 8, 0x8000);
	}
	refresh(f);
	g_assert_nonnull(vms_linux_module_at(f->guest, TEXT(MOST - 1), NULL));
	g_assert_null(vms_linux_module_at(f->guest, TEXT(MOST), NULL));
	for (unsigned more = 0; more < 2; more++) {
		write_u64(f, MODULE(0) + MEM, BASE);
		write_u32(f, MODULE(0) + MEM + 8, largest + more);
		refresh(f);
		g_assert_true(!vms_linux_module_at(f->guest, BASE, NULL) == (more == 1));
	}
}

/* More exports than are believed: none is. */
static void test_many_exports(struct fixture *f, const void *data)
{
	const uint64_t code = EXPORTS + 0x800;
	(void)data;
	write_kallsyms(f, 0, 1);
	write_string(f, NAMES, "open");
	write_string(f, TYPES, "t");
	write_symbol(f, 0, 0, 1, code);
	write_export(f, code, "open");
	write_u32(f, MODULE(0) + NUM_SYMS, BUDGET / KSYM_SIZE);
	refresh(f);
	check_symbol(module_at(f, 0), 0, "open", code, 't');
}

static void assert_fails(struct fixture *f, int code)
{
	g_autoptr(GError) error = NULL;
	g_assert_false(vms_linux_modules_refresh(f->guest, &error));
	g_assert_error(error, VMS_ERROR, code);
}

/* Tables of a size that cannot be are not even allocated. */
static void test_hostile_sizes(struct fixture *f, const void *data)
{
	static const uint32_t sizes[] = { BUDGET / 24 + 1, INT32_MAX, UINT32_MAX };
	(void)data;
	for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
		write_kallsyms(f, 0, sizes[i]);
		refresh(f);
		g_assert_cmpuint(vms_symbol_table_count(module_at(f, 0)->symbols), ==, 0);
	}
	write_kallsyms(f, 0, 1);
	write_symbol(f, 0, UINT32_MAX, 1, TEXT(0)); /* a name at the end of 4 GiB of names */
	refresh(f);
	g_assert_cmpuint(vms_symbol_table_count(module_at(f, 0)->symbols), ==, 0);
	write_symbol(f, 0, 0, 1, TEXT(0));
	write_string(f, NAMES, "name");
	for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
		write_u32(f, MODULE(0) + NUM_SYMS, sizes[i]);
		write_u64(f, KALLSYMS(0), SYMTAB + 24 * (i + 1)); /* another than before */
		write_symbol(f, (uint32_t)i + 1, 0, 1, TEXT(0));
		refresh(f);
		g_assert_cmpuint(vms_symbol_table_count(module_at(f, 0)->symbols), ==, 1);
	}
}

static void test_hostile_list(struct fixture *f, const void *data)
{
	(void)data;
	write_u64(f, MODULE(0) + LIST, MODULE(0) + LIST);
	assert_fails(f, VMS_ERROR_MALFORMED);
	write_u64(f, MODULE(0) + LIST, BASE + RAM - 4);
	assert_fails(f, VMS_ERROR_UNREADABLE);
	/* One module after the other, a word apart: they overlap. */
	for (unsigned i = 0; i <= LIMIT; i++)
		write_u64(f, SYMTAB + i * UINT64_C(8), SYMTAB + (i + 1) * UINT64_C(8));
	write_u64(f, HEAD, SYMTAB);
	assert_fails(f, VMS_ERROR_MALFORMED);
	g_assert_cmpuint(vms_linux_modules_list(f->guest)->len, ==, LIMIT);
}

/* A struct btf_module with its struct btf, linked to the next one. */
static void write_btf(struct fixture *f, unsigned i, uint64_t module, uint64_t next, uint64_t data,
		      uint32_t size)
{
	write_u64(f, BTF(i), next);
	write_u64(f, BTF(i) + 8, i ? BTF(i - 1) : BTF_HEAD);
	write_u64(f, BTF(i) + 16, module);
	write_u64(f, BTF(i) + 24, BTF(i) + 0x20);
	write_u64(f, BTF(i) + 0x20, data);
	write_u32(f, BTF(i) + 0x28, size);
}

static void assert_no_types(struct fixture *f, uint64_t va, int code)
{
	g_autoptr(GError) error = NULL;
	g_assert_null(vms_linux_types(f->guest, va, &error));
	g_assert_error(error, VMS_ERROR, code);
}

/* Types of a module are where the kernel keeps them, and go on after those of the kernel. */
static void test_types(struct fixture *f, const void *data)
{
	(void)data;
	struct encoder encoder = encoder_new();
	/* Its name is the first one that the kernel has. */
	put(&encoder, 1), put(&encoder, STRUCT << 24), put(&encoder, 24);
	g_autoptr(GByteArray) blob = finish(&encoder);
	struct vms_type type;
	struct vms_type_info info;
	write_module(f, 0, "first", MODULE(1) + LIST);
	write_module(f, 1, "second", HEAD);
	refresh(f);
	memcpy(fake_machine_at(f->machine, BLOB), blob->data, blob->len);
	write_u64(f, BTF_HEAD, BTF(0));
	write_u64(f, BTF_HEAD + 8, BTF(1));
	write_btf(f, 0, MODULE(7), BTF(1), 0, 0);
	write_btf(f, 1, MODULE(1), BTF_HEAD, BLOB, blob->len);
	g_autoptr(vms_types) kernel = vms_linux_types(f->guest, BASE, NULL);
	g_autoptr(vms_types) second = vms_linux_types(f->guest, TEXT(1) + 8, NULL);
	g_autoptr(vms_types) again = vms_linux_types(f->guest, TEXT(1), NULL);
	g_assert_true(again == second);
	g_assert_true(vms_types_find(second, "struct states", &type, NULL));
	vms_type_get_info(type, &info);
	g_assert_cmpuint(info.size, ==, 24);
	g_assert_true(vms_types_find(second, "struct module", &type, NULL));
	g_assert_false(vms_types_find(kernel, "struct states", &type, NULL));
	assert_no_types(f, TEXT(0), VMS_ERROR_UNSUPPORTED);
	write_btf(f, 1, MODULE(1), BTF_HEAD, BLOB, 64 << 20);
	assert_no_types(f, TEXT(1), VMS_ERROR_MALFORMED);
	write_btf(f, 1, MODULE(1), BTF_HEAD, BLOB, blob->len - 1);
	assert_no_types(f, TEXT(1), VMS_ERROR_MALFORMED);
	write_btf(f, 1, MODULE(1), BTF_HEAD, BASE + RAM, blob->len);
	assert_no_types(f, TEXT(1), VMS_ERROR_UNREADABLE);
	/* What is found before a list is damaged counts. */
	write_btf(f, 1, MODULE(1), BASE + RAM, BLOB, blob->len);
	GError *error = NULL;
	g_autoptr(vms_types) damaged = vms_linux_types(f->guest, TEXT(1), &error);
	g_assert_no_error(error);
	g_assert_true(damaged == second);
	/* A list that never ends. */
	write_u64(f, BTF(0), BTF(0));
	write_u64(f, BTF_HEAD + 8, BTF(0));
	write_u64(f, BTF(0) + 8, BTF(0));
	assert_no_types(f, TEXT(1), VMS_ERROR_MALFORMED);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
#define ADD(path, test) g_test_add(path, struct fixture, NULL, setup, test, teardown)
	ADD("/module/symbols", test_symbols);
	ADD("/module/life", test_life);
	g_test_add("/module/uncounted", struct fixture, "uncounted", setup, test_uncounted,
		   teardown);
	ADD("/module/parts", test_parts);
	ADD("/module/noted", test_noted);
	ADD("/module/one-long-name", test_one_long_name);
	ADD("/module/budget", test_budget);
	ADD("/module/hostile-sizes", test_hostile_sizes);
	ADD("/module/hostile-regions", test_hostile_regions);
	ADD("/module/many-exports", test_many_exports);
	ADD("/module/hostile-list", test_hostile_list);
	ADD("/module/types", test_types);
	return g_test_run();
}
