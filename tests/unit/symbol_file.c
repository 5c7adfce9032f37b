/* SPDX-License-Identifier: MIT */
/* The ELF file is this program itself: what the compiler and the linker say of it is the truth. */
#include <vmscope/symbol.h>

#include <elf.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern const char __executable_start[];

int visible_object = 7;
int visible_function(int value);
enum { FIRST_LINE = __LINE__ + 1 };
__attribute__((noinline)) int visible_function(int value)
{
	return value * visible_object;
}
enum { LAST_LINE = __LINE__ - 1 };

__attribute__((noinline, used)) static int hidden_function(int value)
{
	return value - visible_object;
}

/* A symbol without a size, and behind its section one without symbols. */
__asm__(".pushsection .sizeless,\"ax\"\n"
	".globl sizeless\n"
	"sizeless: .zero 8\n"
	".section .nameless,\"ax\"\n"
	".zero 8\n"
	".popsection\n");

static uint64_t va_of_code(int (*function)(int))
{
	return (uint64_t)(uintptr_t)function;
}

static struct vms_symbol_file *open_self(void)
{
	g_autoptr(GError) error = NULL;
	struct vms_symbol_file *file = vms_symbol_file_open("/proc/self/exe", &error);
	g_assert_no_error(error);
	uint64_t bias = (uint64_t)(uintptr_t)__executable_start - vms_symbol_file_base(file);
	vms_symbol_file_set_bias(file, bias);
	return file;
}

static void check_symbol(struct vms_symbol_table *table, const char *name, uint64_t va, char type,
			 uint64_t offset)
{
	struct vms_symbol symbol;
	g_assert_true(vms_symbol_table_lookup(table, name, &symbol));
	g_assert_cmphex(symbol.va, ==, va);
	g_assert_cmpint(symbol.type, ==, type);
	g_assert_true(vms_symbol_table_find(table, va + offset, &symbol));
	g_assert_cmpstr(symbol.name, ==, name);
}

static void test_symbols(void)
{
	g_autoptr(vms_symbol_file) file = open_self();
	g_autoptr(vms_symbol_table) table = vms_symbol_file_table(file);
	uint64_t object_va = (uint64_t)(uintptr_t)&visible_object;
	check_symbol(table, "visible_function", va_of_code(visible_function), 'T', 1);
	check_symbol(table, "hidden_function", va_of_code(hidden_function), 't', 1);
	check_symbol(table, "visible_object", object_va, 'D', sizeof(int) - 1);

	uint64_t va;
	uint64_t bias = (uint64_t)(uintptr_t)__executable_start - vms_symbol_file_base(file);
	g_assert_true(vms_symbol_file_lookup(file, "visible_function", &va));
	g_assert_cmphex(va + bias, ==, va_of_code(visible_function));
	g_assert_false(vms_symbol_file_lookup(file, "no_function", &va));
	/* Defined elsewhere. */
	g_assert_false(vms_symbol_file_lookup(file, "g_test_run", &va));
}

/* As it is in the file, without bias. */
static uint64_t section_va(const char *name)
{
	g_autofree char *data = NULL;
	Elf64_Ehdr header;
	Elf64_Shdr section, names;
	g_assert_true(g_file_get_contents("/proc/self/exe", &data, NULL, NULL));
	memcpy(&header, data, sizeof(header));
	const char *sections = data + header.e_shoff;
	memcpy(&names, sections + header.e_shstrndx * sizeof(names), sizeof(names));
	for (unsigned i = 0; i < header.e_shnum; i++) {
		memcpy(&section, sections + i * sizeof(section), sizeof(section));
		if (strcmp(data + names.sh_offset + section.sh_name, name) == 0)
			return section.sh_addr;
	}
	g_assert_not_reached();
}

static void test_sizeless(void)
{
	g_autoptr(vms_symbol_file) file = open_self();
	g_autoptr(vms_symbol_table) table = vms_symbol_file_table(file);
	const uint64_t bias = (uint64_t)(uintptr_t)__executable_start - vms_symbol_file_base(file);
	const uint64_t va = section_va(".sizeless") + bias, next = section_va(".nameless") + bias;
	struct vms_symbol symbol;
	g_assert_cmphex(next, ==, va + 8);
	check_symbol(table, "sizeless", va, 'T', 7);
	for (unsigned i = 0; i < 8; i++)
		g_assert_false(vms_symbol_table_find(table, next + i, &symbol));
}

/* Where an address of this program lies in its file, as the kernel says. */
static uint64_t mapped_offset(uint64_t va)
{
	g_autofree char *maps = NULL;
	g_assert_true(g_file_get_contents("/proc/self/maps", &maps, NULL, NULL));
	for (const char *line = maps; line && *line; line = strchr(line, '\n'), line += !!line) {
		unsigned long start, end, offset;
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 && start <= va &&
		    va < end)
			return va - start + offset;
	}
	g_assert_not_reached();
}

static void test_offsets(void)
{
	g_autoptr(vms_symbol_file) file = open_self();
	g_autoptr(vms_symbol_table) table = vms_symbol_file_offsets(file);
	struct vms_symbol symbol;
	check_symbol(table, "visible_function", mapped_offset(va_of_code(visible_function)), 'T',
		     1);
	check_symbol(table, "hidden_function", mapped_offset(va_of_code(hidden_function)), 't', 1);
	g_assert_false(vms_symbol_table_lookup(table, "visible_object", &symbol));
}

/* Links lead to files below the root directory, wherever they point. */
static void test_below(void)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *root = g_dir_make_tmp("vmscope-root-XXXXXX", NULL);
	g_autofree char *bin = g_build_filename(root, "bin", NULL);
	g_autofree char *program = g_build_filename(bin, "program", NULL);
	g_autofree char *link = g_build_filename(root, "link", NULL);
	g_autofree char *outside = g_build_filename(root, "outside", NULL);
	g_autofree char *self = g_file_read_link("/proc/self/exe", NULL);
	g_autofree char *data = NULL;
	gsize size;
	g_assert_true(g_file_get_contents(self, &data, &size, NULL));
	g_assert_cmpint(g_mkdir(bin, 0700), ==, 0);
	g_assert_true(g_file_set_contents(program, data, (gssize)size, NULL));
	g_assert_cmpint(symlink("/../../bin/program", link), ==, 0);
	g_assert_cmpint(symlink(self, outside), ==, 0);

	static const char *const found[] = { "/bin/program", "link", "/../bin/../link" };
	for (unsigned i = 0; i < G_N_ELEMENTS(found); i++) {
		g_autoptr(vms_symbol_file) file =
			vms_symbol_file_open_below(root, found[i], &error);
		g_assert_no_error(error);
		g_assert_nonnull(file);
	}
	g_autofree char *way_out = g_strdup_printf("../../../..%s", self);
	const char *const refused[] = { "outside", "/bin", way_out, self };
	for (unsigned i = 0; i < G_N_ELEMENTS(refused); i++) {
		g_assert_null(vms_symbol_file_open_below(root, refused[i], &error));
		g_assert_error(error, VMS_ERROR, VMS_ERROR_IO);
		g_clear_error(&error);
	}
	g_unlink(program);
	g_unlink(link);
	g_unlink(outside);
	g_rmdir(bin);
	g_assert_cmpint(g_rmdir(root), ==, 0);
	g_assert_null(vms_symbol_file_open_below(root, "x", &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_IO);
}

static void test_lines(void)
{
	g_autoptr(vms_symbol_file) file = open_self();
	const char *source;
	unsigned line;
	g_assert_true(vms_symbol_file_line(file, va_of_code(visible_function), &source, &line));
	g_assert_true(g_str_has_suffix(source, "tests/unit/symbol_file.c"));
	g_assert_cmpuint(line, >=, FIRST_LINE);
	g_assert_cmpuint(line, <=, LAST_LINE);
	g_assert_false(vms_symbol_file_line(file, 0, &source, &line));
	g_assert_false(vms_symbol_file_line(file, UINT64_MAX, &source, &line));
}

/* ---- bad files -------------------------------------------------------- */

static char *scratch_file(const void *data, size_t size)
{
	char *path = g_strdup("/tmp/vmscope-test-XXXXXX");
	g_assert_cmpint(g_close(g_mkstemp(path), NULL), ==, TRUE);
	g_assert_true(g_file_set_contents(path, data, (gssize)size, NULL));
	return path;
}

/* Opens a file of these bytes and asks it everything; what is wrong with it, or -1. */
static int try_file(const void *data, size_t size)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *path = scratch_file(data, size);
	g_autoptr(vms_symbol_file) file = vms_symbol_file_open(path, &error);
	if (file) {
		g_autoptr(vms_symbol_table) table = vms_symbol_file_table(file);
		const char *source;
		unsigned line;
		uint64_t va;
		g_assert_cmpuint(vms_symbol_table_count(table), >, 0);
		g_autoptr(vms_symbol_table) offsets = vms_symbol_file_offsets(file);
		g_assert_nonnull(offsets);
		vms_symbol_file_lookup(file, "visible_function", &va);
		vms_symbol_file_line(file, vms_symbol_table_get(table, 0).va, &source, &line);
	} else {
		g_assert_nonnull(strstr(error->message, path));
	}
	g_unlink(path);
	return error ? error->code : -1;
}

static uint8_t *read_self(size_t *size)
{
	char *data;
	g_assert_true(g_file_get_contents("/proc/self/exe", &data, size, NULL));
	return (uint8_t *)data;
}

static void test_not_elf(void)
{
	g_autoptr(GError) error = NULL;
	g_assert_cmpint(try_file("", 0), ==, VMS_ERROR_MALFORMED);
	g_assert_cmpint(try_file("#!/bin/sh\n", 10), ==, VMS_ERROR_MALFORMED);
	g_assert_cmpint(try_file("!<arch>\n", 8), ==, VMS_ERROR_MALFORMED);
	g_assert_null(vms_symbol_file_open("/nonexistent/vmlinux", &error));
	g_assert_error(error, VMS_ERROR, VMS_ERROR_IO);
	g_clear_error(&error);
	g_assert_null(vms_symbol_file_open("/tmp", &error));
	g_assert_nonnull(error);
}

static void test_unusable(void)
{
	size_t size;
	g_autofree uint8_t *data = read_self(&size);
	Elf64_Ehdr header, changed;
	memcpy(&header, data, sizeof(header));

	changed = header;
	changed.e_type = ET_REL;
	memcpy(data, &changed, sizeof(changed));
	g_assert_cmpint(try_file(data, size), ==, VMS_ERROR_UNSUPPORTED);

	changed = header;
	changed.e_shnum = changed.e_shstrndx = 0;
	changed.e_shoff = 0;
	memcpy(data, &changed, sizeof(changed));
	g_assert_cmpint(try_file(data, size), ==, VMS_ERROR_NOT_FOUND);
}

static void test_truncated(void)
{
	size_t size;
	g_autofree uint8_t *data = read_self(&size);
	for (size_t part = 1; part < 16; part++)
		g_assert_cmpint(try_file(data, size * part / 16), !=, -1);
	for (size_t part = 0; part < 128; part += 9)
		g_assert_cmpint(try_file(data, part), !=, -1);
}

/* Every section in turn claims a size, an entry size and a link that cannot be. */
static void test_hostile_sections(void)
{
	size_t size;
	g_autofree uint8_t *data = read_self(&size);
	Elf64_Ehdr header;
	memcpy(&header, data, sizeof(header));
	for (unsigned i = 0; i < header.e_shnum; i++) {
		uint8_t *at = data + header.e_shoff + i * sizeof(Elf64_Shdr);
		Elf64_Shdr section, changed;
		memcpy(&section, at, sizeof(section));
		changed = section;
		changed.sh_size = UINT64_MAX - 64;
		changed.sh_link = UINT32_MAX;
		memcpy(at, &changed, sizeof(changed));
		try_file(data, size);
		changed = section;
		changed.sh_entsize = i % 2;
		changed.sh_offset = UINT64_MAX / 2;
		memcpy(at, &changed, sizeof(changed));
		try_file(data, size);
		memcpy(at, &section, sizeof(section));
	}
	g_assert_cmpint(try_file(data, size), ==, -1);
}

/* This program with other segments with code before its own, which hold nothing. */
static bool has_offsets_behind(unsigned n_others)
{
	static const char name[] = "visible_function";
	size_t size;
	g_autofree uint8_t *data = read_self(&size);
	g_autoptr(GByteArray) bytes = g_byte_array_new();
	Elf64_Ehdr header;
	memcpy(&header, data, sizeof(header));
	g_byte_array_append(bytes, data, (guint)size);
	for (unsigned i = 0; i < n_others; i++) {
		const Elf64_Phdr other = { .p_type = PT_LOAD, .p_flags = PF_X };
		g_byte_array_append(bytes, (const guint8 *)&other, sizeof(other));
	}
	g_byte_array_append(bytes, data + header.e_phoff,
			    (guint)(header.e_phnum * sizeof(Elf64_Phdr)));
	header.e_phoff = size;
	header.e_phnum += n_others;
	memcpy(bytes->data, &header, sizeof(header));

	g_autofree char *path = g_build_filename(g_get_tmp_dir(), "vmscope-segments-XXXXXX", NULL);
	close(g_mkstemp(path));
	g_assert_true(g_file_set_contents(path, (char *)bytes->data, bytes->len, NULL));
	g_autoptr(vms_symbol_file) file = vms_symbol_file_open(path, NULL);
	g_assert_nonnull(file);
	unlink(path);
	g_autoptr(vms_symbol_table) table = vms_symbol_file_offsets(file);
	struct vms_symbol symbol;
	return vms_symbol_table_lookup(table, name, &symbol);
}

/* Each symbol is looked for in each segment with code: in so many of them only. */
static void test_many_segments(void)
{
	g_assert_true(has_offsets_behind(0));
	g_assert_true(has_offsets_behind(63));
	g_assert_false(has_offsets_behind(64));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/symbol_file/symbols", test_symbols);
	g_test_add_func("/symbol_file/sizeless", test_sizeless);
	g_test_add_func("/symbol_file/offsets", test_offsets);
	g_test_add_func("/symbol_file/many_segments", test_many_segments);
	g_test_add_func("/symbol_file/below", test_below);
	g_test_add_func("/symbol_file/lines", test_lines);
	g_test_add_func("/symbol_file/not_elf", test_not_elf);
	g_test_add_func("/symbol_file/unusable", test_unusable);
	g_test_add_func("/symbol_file/truncated", test_truncated);
	g_test_add_func("/symbol_file/hostile_sections", test_hostile_sections);
	return g_test_run();
}
