/* SPDX-License-Identifier: MIT */
#include "uftrace_reader.h"

#include <stdio.h>
#include <string.h>

char *uftrace_read_file(const char *directory, const char *name, gsize *size)
{
	g_autofree char *path = g_build_filename(directory, name, NULL);
	g_autoptr(GError) error = NULL;
	char *data;
	g_file_get_contents(path, &data, size, &error);
	g_assert_no_error(error);
	return data;
}

struct uftrace_record uftrace_read_record(const char *directory, const char *name, size_t index)
{
	gsize size;
	g_autofree char *data = uftrace_read_file(directory, name, &size);
	uint64_t words[2];
	g_assert_cmpuint(size % 16, ==, 0);
	g_assert_cmpuint(size, >=, 16 * (index + 1));
	memcpy(words, data + 16 * index, 16);
	uint64_t word = GUINT64_FROM_LE(words[1]);
	return (struct uftrace_record) {
		GUINT64_FROM_LE(words[0]), word & 3,  word >> 2 & 1, word >> 3 & 7,
		word >> 6 & 0x3ff,	   word >> 16
	};
}

char *uftrace_find_symbol(const char *text, uint64_t offset)
{
	g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
	for (unsigned i = 0; lines[i] && *lines[i] && lines[i + 1] && *lines[i + 1]; i++) {
		char *name, *next;
		uint64_t start = g_ascii_strtoull(lines[i], &name, 16);
		uint64_t end = g_ascii_strtoull(lines[i + 1], &next, 16);
		g_assert_cmpuint(end, >, start);
		g_assert_true(name[0] == ' ' && name[1] && strchr("tT?", name[1]) &&
			      name[2] == ' ' && name[3]);
		if (start <= offset && offset < end)
			return name[1] == '?' ? NULL : g_strdup(name + 3);
	}
	return NULL;
}

/* The mapping's path and the address' offset in it. */
static char *find_mapping(const char *directory, uint64_t address, uint64_t *offset)
{
	g_autofree char *text = uftrace_read_file(directory, "sid-0000000000000000.map", NULL);
	g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
	g_autofree char *previous = NULL;
	for (char **line = lines; **line; line++) {
		unsigned long start, end;
		char protection[5], path[4096], more;
		int n = sscanf(*line, "%lx-%lx %4s %*x %*x:%*x %*d %4095s%c", &start, &end,
			       protection, path, &more);
		g_assert_cmpint(n, ==, 4);
		/* It would be taken for a part of the one before. */
		g_assert_cmpstr(path, !=, previous);
		g_free(previous);
		previous = g_strdup(path);
		if (path[0] != '[' && start <= address && address < end) {
			*offset = address - start;
			return g_steal_pointer(&previous);
		}
	}
	return NULL;
}

static char *name_of(const char *directory, uint64_t address)
{
	uint64_t offset;
	g_autofree char *path = find_mapping(directory, address, &offset);
	if (!path)
		return NULL;
	g_autofree char *base = g_path_get_basename(path);
	g_autofree char *file = g_strdup_printf("%s.sym", base);
	g_autofree char *symbols = uftrace_read_file(directory, file, NULL);
	return uftrace_find_symbol(symbols, offset);
}

void uftrace_assert_name(const char *directory, const char *file, size_t index,
			 const char *expected)
{
	struct uftrace_record record = uftrace_read_record(directory, file, index);
	g_autofree char *name = name_of(directory, record.address);
	g_assert_cmpstr(name, ==, expected);
	g_assert_cmpuint(record.magic, ==, 5);
	g_assert_cmpuint(record.more, ==, 0);
}
