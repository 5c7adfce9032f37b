/* SPDX-License-Identifier: MIT */
/*
 * A symbol file of any content.
 *
 * Covers: src/symbol/symbol_file.c.
 */
#include <vmscope/symbol.h>

#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(struct vms_symbol_file *file)
{
	vms_symbol_file_base(file);
	vms_symbol_file_set_bias(file, 0x1000);
	g_autoptr(vms_symbol_table) offsets = vms_symbol_file_offsets(file);
	g_autoptr(vms_symbol_table) table = vms_symbol_file_table(file);
	g_assert_cmpuint(vms_symbol_table_count(offsets), <=, vms_symbol_table_count(table));
	for (size_t i = 0; i < vms_symbol_table_count(table); i++) {
		struct vms_symbol symbol = vms_symbol_table_get(table, i);
		const char *source;
		unsigned line;
		uint64_t va;
		g_assert_true(vms_symbol_file_lookup(file, symbol.name, &va));
		vms_symbol_file_line(file, symbol.va, &source, &line);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("symbols", MFD_CLOEXEC);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		g_error("no memory file");
	g_autofree char *path = g_strdup_printf("/proc/self/fd/%d", fd);
	g_autoptr(vms_symbol_file) file = vms_symbol_file_open(path, NULL);
	if (file)
		ask(file);
	close(fd);
	return 0;
}
