/* SPDX-License-Identifier: MIT */
/*
 * Writes a data directory of uftrace as lines on the standard input tell:
 *
 *	image ID KEY NAME            symbol ID VA SIZE TYPE NAME      symbols ID BASE
 *	map SPACE START END OFFSET ID (SPACE 0: the kernel's)         clear SPACE
 *	stream TID PID TIME NAME     switch TID SPACE
 *	entry TID TIME DEPTH VA      exit TID TIME DEPTH VA           lost TID TIME DEPTH COUNT
 *	update                       kill (as kill -9 does)
 *
 * Addresses, keys and sizes are hexadecimal. Records are handed on in blocks, at a change of
 * stream and before anything else happens.
 */
#include "calls/directory.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N 64 /* images, spaces */

struct tool {
	struct vms_calls_directory *directory;
	struct vms_calls_image *images[N];
	struct vms_symbol_table *tables[N];
	struct vms_calls_mappings *spaces[N];
	uint64_t stream; /* of the records that wait */
	GByteArray *records;
};

static void check(bool done, GError *error)
{
	if (done)
		return;
	fprintf(stderr, "%s\n", error ? error->message : "failed");
	exit(1);
}

static void flush(struct tool *tool)
{
	GError *error = NULL;
	if (tool->records->len > 0)
		check(vms_calls_directory_append(tool->directory, tool->stream, tool->records->data,
						 tool->records->len, &error),
		      error);
	g_byte_array_set_size(tool->records, 0);
}

static uint64_t hex(const char *text)
{
	return g_ascii_strtoull(text, NULL, 16);
}

static unsigned number(const char *text)
{
	unsigned n = (unsigned)g_ascii_strtoull(text, NULL, 10);
	check(n < N, NULL);
	return n;
}

static struct vms_calls_mappings *space(struct tool *tool, const char *text)
{
	unsigned n = number(text);
	if (n == 0)
		return vms_calls_directory_kernel(tool->directory);
	if (!tool->spaces[n])
		tool->spaces[n] = vms_calls_mappings_new(tool->directory);
	return tool->spaces[n];
}

static void add_record(struct tool *tool, unsigned type, char **word)
{
	uint64_t stream = g_ascii_strtoull(word[1], NULL, 10);
	if (stream != tool->stream)
		flush(tool);
	tool->stream = stream;
	uint64_t depth = MIN(g_ascii_strtoull(word[3], NULL, 10), 1023);
	uint64_t record[2] = {
		GUINT64_TO_LE(g_ascii_strtoull(word[2], NULL, 10)),
		GUINT64_TO_LE(type | UINT64_C(5) << 3 | depth << 6 | hex(word[4]) << 16),
	};
	g_byte_array_append(tool->records, (const guint8 *)record, sizeof(record));
}

static bool do_names(struct tool *tool, char **word, guint n)
{
	if (n == 4 && !strcmp(word[0], "image")) {
		unsigned i = number(word[1]);
		tool->images[i] = vms_calls_directory_image(tool->directory, hex(word[2]), word[3]);
		tool->tables[i] = vms_symbol_table_new(word[3]);
	} else if (n == 6 && !strcmp(word[0], "symbol")) {
		vms_symbol_table_add(tool->tables[number(word[1])], word[5], hex(word[2]),
				     hex(word[3]), *word[4]);
	} else if (n == 3 && !strcmp(word[0], "symbols")) {
		unsigned i = number(word[1]);
		vms_symbol_table_finish(tool->tables[i], UINT64_MAX);
		vms_calls_image_set_symbols(tool->images[i], tool->tables[i], hex(word[2]));
	} else if (n == 6 && !strcmp(word[0], "map")) {
		vms_calls_mappings_add(space(tool, word[1]), hex(word[2]), hex(word[3]),
				       hex(word[4]), tool->images[number(word[5])]);
	} else if (n == 2 && !strcmp(word[0], "clear")) {
		vms_calls_mappings_clear(space(tool, word[1]));
	} else {
		return false;
	}
	return true;
}

static bool do_streams(struct tool *tool, char **word, guint n)
{
	GError *error = NULL;
	if (n == 5 && !strcmp(word[0], "stream")) {
		const struct vms_calls_thread thread = {
			.pid = (uint32_t)g_ascii_strtoull(word[2], NULL, 10),
			.time_ns = g_ascii_strtoull(word[3], NULL, 10),
			.name = word[4],
		};
		vms_calls_directory_name_stream(tool->directory,
						g_ascii_strtoull(word[1], NULL, 10), &thread);
	} else if (n == 3 && !strcmp(word[0], "switch")) {
		vms_calls_directory_set_space(tool->directory, g_ascii_strtoull(word[1], NULL, 10),
					      space(tool, word[2]));
	} else if (n == 1 && !strcmp(word[0], "update")) {
		check(vms_calls_directory_update(tool->directory, &error), error);
	} else if (n == 1 && !strcmp(word[0], "kill")) {
		kill(getpid(), SIGKILL);
	} else {
		return false;
	}
	return true;
}

static void do_line(struct tool *tool, char *line)
{
	static const char *const records[] = { "entry", "exit", "lost" };
	/* The last word of these may have spaces. */
	gint limit = g_str_has_prefix(line, "symbol ")	 ? 6
		     : g_str_has_prefix(line, "stream ") ? 5
		     : g_str_has_prefix(line, "image ")	 ? 4
							 : 0;
	g_auto(GStrv) word = g_strsplit(line, " ", limit);
	guint n = g_strv_length(word);
	for (unsigned type = 0; type < G_N_ELEMENTS(records); type++) {
		if (n == 5 && !strcmp(word[0], records[type])) {
			add_record(tool, type, word);
			return;
		}
	}
	flush(tool);
	if (!do_names(tool, word, n) && !do_streams(tool, word, n)) {
		fprintf(stderr, "no such command: %s\n", line);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	GError *error = NULL;
	struct tool tool = { .records = g_byte_array_new() };
	char *line = NULL;
	size_t room = 0;

	check(argc == 2, NULL);
	tool.directory = vms_calls_directory_open(argv[1], &error);
	check(tool.directory, error);
	while (getline(&line, &room, stdin) > 0)
		do_line(&tool, g_strchomp(line));
	free(line);
	flush(&tool);
	check(vms_calls_directory_close(tool.directory, &error), error);
	for (unsigned i = 0; i < N; i++) {
		vms_calls_mappings_unref(tool.spaces[i]);
		vms_symbol_table_unref(tool.tables[i]);
	}
	g_byte_array_unref(tool.records);
	return 0;
}
