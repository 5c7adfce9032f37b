/* SPDX-License-Identifier: MIT */
/*
 * A binary of any content, of which one block in so many is missing: the first byte of the input
 * says which. The rest is the file.
 *
 * Covers: src/symbol/binary.c src/symbol/binary_functions.c src/symbol/elf_image.c
 * src/base/file_source.c src/symbol/file_table.c src/symbol/go_functions.c.
 */
#include "symbol/binary.h"
#include "base/bytes.h"
#include "symbol/binary_functions.h"

struct input {
	struct vms_bytes bytes;
	uint64_t period; /* in pieces of 64 bytes; 0: nothing is missing */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool read_input(void *data, uint64_t offset, void *buf, size_t size)
{
	const struct input *input = data;
	struct vms_bytes part;
	g_assert_true(vms_bytes_slice(input->bytes, offset, size, &part));
	for (uint64_t piece = offset / 64; input->period && piece <= (offset + size - 1) / 64;
	     piece++)
		if (piece % input->period == input->period - 1)
			return false;
	memcpy(buf, part.data, size);
	return true;
}

static void check_functions(struct vms_binary *binary)
{
	const struct vms_elf_image *elf = vms_binary_elf(binary);
	struct vms_symbol_table *functions = vms_binary_functions(binary);
	for (size_t i = 0; i < vms_symbol_table_count(functions); i++) {
		const struct vms_symbol symbol = vms_symbol_table_get(functions, i);
		struct vms_symbol found;
		uint64_t address;
		g_assert_true(vms_elf_image_code_address(elf, symbol.va, &address));
		g_assert_true(g_utf8_validate(symbol.name, -1, NULL));
		vms_symbol_table_find(functions, symbol.va, &found);
	}
}

/* The file with the symbols may lie as well: here it is the same one. */
static void read_separate(struct vms_binary *binary, const struct vms_file_source *source)
{
	const struct vms_elf_image *elf = vms_binary_elf(binary);
	if (!elf)
		return;
	const struct vms_separate_symbols separate = { *source, *elf };
	vms_has_all_functions(source, elf);
	vms_symbol_table_unref(vms_read_functions(source, elf, &separate, "input"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { { data, size }, 0 };
	if (size > 0)
		input = (struct input) { { data + 1, size - 1 }, data[0] };
	const struct vms_file_source source = {
		.size = input.bytes.size,
		.read = read_input,
		.data = &input,
	};
	g_autoptr(vms_binary) binary = vms_binary_new("input", &source);
	check_functions(binary);
	read_separate(binary, &source);
	return 0;
}
