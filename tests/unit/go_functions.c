/* SPDX-License-Identifier: MIT */
/* The table of functions of programs in Go, as this file encodes it; and tables that lie. */
#include "symbol/go_functions.h"
#include "symbol/binary.h"
#include "unwind/go_stack.h"
#include <glib.h>
#include <string.h>

#define TEXT	  0x401000u /* address */
#define TEXT_AT	  0x200u    /* offset in the file */
#define TEXT_SIZE 0x300u
#define TABLE	  0x500000u /* address */

static const char section_names[] = "\0.text\0.gopclntab\0.data.rel.ro.gopclntab\0.rela.dyn";
enum { NAME_TEXT = 1, NAME_TABLE = 7, NAME_TABLE_PIE = 18, NAME_RELOCATIONS = 41 };

struct function {
	const char *name;
	uint32_t entry;
};
static const struct function functions[] = {
	{ "runtime.goexit", 0 },
	{ "main.(*shape).area", 0x20 },
	{ "main.main", 0x60 },
	{ "runtime.mcall", 0x70 },
	{ "runtime.systemstack.abi0", 0x80 },
	{ "runtime.systemstack_switch.abi0", 0x88 },
};
#define END 0x90 /* of the last function */

static void put(GByteArray *out, uint64_t value, unsigned size)
{
	g_byte_array_append(out, (const guint8 *)&value, size);
}

static void put_at(GByteArray *out, size_t at, uint64_t value, unsigned size)
{
	memcpy(out->data + at, &value, size);
}

/* Returns the table: header, names, functions. `text` as the file has it. */
static GByteArray *encode_table(uint32_t magic, uint64_t text)
{
	enum { N = G_N_ELEMENTS(functions), HEADER = 72 };
	GByteArray *table = g_byte_array_new(), *names = g_byte_array_new();
	put(table, magic, 4);
	put(table, 0, 2);
	put(table, 1, 1); /* the smallest instruction */
	put(table, 8, 1);
	put(table, N, 8);
	put(table, 0, 8);
	put(table, text, 8);
	put(table, HEADER, 8);
	for (unsigned i = 0; i < 4; i++)
		put(table, 0, 8); /* set below */
	uint32_t name_at[N];
	for (unsigned i = 0; i < N; i++) {
		name_at[i] = names->len;
		g_byte_array_append(names, (const guint8 *)functions[i].name,
				    (guint)strlen(functions[i].name) + 1);
	}
	g_byte_array_append(table, names->data, names->len);
	put_at(table, 40, table->len, 8); /* what follows the names */
	put_at(table, 64, table->len, 8); /* the functions: here they follow at once */
	for (unsigned i = 0; i < N; i++) {
		put(table, functions[i].entry, 4);
		put(table, (N * 2 + 1) * 4 + i * 12, 4);
	}
	put(table, END, 4);
	for (unsigned i = 0; i < N; i++) {
		put(table, functions[i].entry, 4);
		put(table, name_at[i], 4);
		put(table, 0, 4);
	}
	g_byte_array_unref(names);
	return table;
}

static void put_section(GByteArray *file, uint32_t name, uint32_t type, uint64_t flags,
			uint64_t address, uint64_t offset, uint64_t size)
{
	const Elf64_Shdr section = { .sh_name = name,
				     .sh_type = type,
				     .sh_flags = flags,
				     .sh_addr = address,
				     .sh_offset = offset,
				     .sh_size = size };
	g_byte_array_append(file, (const guint8 *)&section, sizeof(section));
}

/* Returns a file with the table. `moved`: the address that a relocation gives; 0: there is none. */
static GByteArray *encode_file(const GByteArray *table, uint64_t moved)
{
	const Elf64_Phdr segment = { .p_type = PT_LOAD,
				     .p_flags = PF_R | PF_X,
				     .p_offset = TEXT_AT,
				     .p_vaddr = TEXT,
				     .p_filesz = TEXT_SIZE,
				     .p_memsz = TEXT_SIZE };
	const Elf64_Rela relocations[] = {
		{ .r_offset = TABLE + 8, .r_addend = 0x1234 },
		{ .r_offset = TABLE + 24, .r_addend = (int64_t)moved },
	};
	GByteArray *file = g_byte_array_new();
	g_byte_array_set_size(file, TEXT_AT + TEXT_SIZE);
	memset(file->data, 0, file->len);
	const size_t table_at = file->len;
	g_byte_array_append(file, table->data, table->len);
	const size_t relocations_at = file->len;
	g_byte_array_append(file, (const guint8 *)relocations, sizeof(relocations));
	const size_t names_at = file->len;
	g_byte_array_append(file, (const guint8 *)section_names, sizeof(section_names));
	const Elf64_Ehdr header = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_phoff = sizeof(header),
		.e_shoff = file->len,
		.e_phentsize = sizeof(segment),
		.e_phnum = 1,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = 5,
		.e_shstrndx = 4,
	};
	memcpy(file->data, &header, sizeof(header));
	memcpy(file->data + sizeof(header), &segment, sizeof(segment));
	put_section(file, 0, SHT_NULL, 0, 0, 0, 0);
	put_section(file, NAME_TEXT, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT, TEXT_AT,
		    TEXT_SIZE);
	put_section(file, moved ? NAME_TABLE_PIE : NAME_TABLE, SHT_PROGBITS, SHF_ALLOC, TABLE,
		    table_at, table->len);
	put_section(file, NAME_RELOCATIONS, moved ? SHT_RELA : SHT_PROGBITS, SHF_ALLOC, 0x600000,
		    relocations_at, sizeof(relocations));
	put_section(file, 0, SHT_STRTAB, 0, 0, names_at, sizeof(section_names));
	return file;
}

static struct vms_binary *open_bytes(GByteArray *file)
{
	const gsize size = file->len;
	const struct vms_file_source source =
		vms_file_source_of_memory(g_byte_array_free(file, FALSE), size);
	return vms_binary_new("go", &source);
}

static void check_functions(struct vms_binary *binary, uint64_t first)
{
	struct vms_symbol_table *table = vms_binary_functions(binary);
	g_assert_cmpuint(vms_symbol_table_count(table), ==, G_N_ELEMENTS(functions));
	for (size_t i = 0; i < G_N_ELEMENTS(functions); i++) {
		const struct vms_symbol symbol = vms_symbol_table_get(table, i);
		const bool is_last = i + 1 == G_N_ELEMENTS(functions);
		const uint64_t end = is_last ? END : functions[i + 1].entry;
		g_assert_cmpstr(symbol.name, ==, functions[i].name);
		g_assert_cmphex(symbol.va, ==, first + functions[i].entry);
		g_assert_cmphex(symbol.size, ==, end - functions[i].entry);
	}
}

/* Of programs at a fixed address, of either version of the table. */
static void test_fixed(void)
{
	static const uint32_t magics[] = { 0xfffffff0, 0xfffffff1 };
	for (size_t i = 0; i < G_N_ELEMENTS(magics); i++) {
		g_autoptr(GByteArray) table = encode_table(magics[i], TEXT + 0x100);
		g_autoptr(vms_binary) binary = open_bytes(encode_file(table, 0));
		check_functions(binary, TEXT_AT + 0x100);
	}
}

/* Of programs that can be moved: what the loader writes is in a relocation, or the text's begin. */
static void test_moved(void)
{
	g_autoptr(GByteArray) table = encode_table(0xfffffff1, 0);
	g_autoptr(vms_binary) relocated = open_bytes(encode_file(table, TEXT + 0x200));
	check_functions(relocated, TEXT_AT + 0x200);
	g_autoptr(vms_binary) plain = open_bytes(encode_file(table, 0));
	check_functions(plain, TEXT_AT);
}

/* Tables that are older, cut, or lie about sizes and places have no functions, or fewer. */
static void test_lies(void)
{
	static const struct {
		size_t at;
		uint64_t value;
		unsigned size;
	} lies[] = {
		{ 0, 0xfffffffa, 4 }, /* of Go 1.16 */
		{ 7, 4, 1 },	      /* addresses of 32 bits */
		{ 8, UINT64_MAX, 8 },
		{ 8, 0, 8 },
		{ 32, UINT64_MAX, 8 }, /* names */
		{ 40, UINT64_MAX, 8 },
		{ 64, UINT64_MAX, 8 }, /* functions */
		{ 64, UINT64_MAX - 64, 8 },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(lies); i++) {
		g_autoptr(GByteArray) table = encode_table(0xfffffff1, TEXT);
		put_at(table, lies[i].at, lies[i].value, lies[i].size);
		g_autoptr(vms_binary) binary = open_bytes(encode_file(table, 0));
		g_assert_cmpuint(vms_symbol_table_count(vms_binary_functions(binary)), ==, 0);
	}
	g_autoptr(GByteArray) table = encode_table(0xfffffff1, TEXT);
	put_at(table, 8, 1000, 8); /* more functions than there are */
	g_autoptr(vms_binary) binary = open_bytes(encode_file(table, 0));
	g_assert_cmpuint(vms_symbol_table_count(vms_binary_functions(binary)), >=, 2);
}

/* At which functions a stack ends, and how. */
static void test_stack_end(void)
{
	enum vms_walk_end end;
	g_autoptr(GByteArray) table = encode_table(0xfffffff1, TEXT);
	g_autoptr(vms_binary) binary = open_bytes(encode_file(table, 0));
	for (uint64_t at = 0; at < END; at++) {
		const bool ends = vms_go_stack_end(binary, TEXT_AT + at, true, &end);
		g_assert_cmpint(ends, ==, at >= 0x70 && at < 0x88);
		if (ends)
			g_assert_cmpint(end, ==, at < 0x80 ? VMS_WALK_ROOT : VMS_WALK_GOROUTINE);
	}
	g_assert_false(vms_go_stack_end(binary, TEXT_AT + TEXT_SIZE, true, &end));
	put_at(table, 0, 0xfffffffa, 4); /* a table that is not understood */
	g_autoptr(vms_binary) other = open_bytes(encode_file(table, 0));
	g_assert_false(vms_go_stack_end(other, TEXT_AT + 0x80, true, &end));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/go-functions/fixed", test_fixed);
	g_test_add_func("/go-functions/moved", test_moved);
	g_test_add_func("/go-functions/lies", test_lies);
	g_test_add_func("/go-functions/stack-end", test_stack_end);
	return g_test_run();
}
