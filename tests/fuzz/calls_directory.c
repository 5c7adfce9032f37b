/* SPDX-License-Identifier: MIT */
/*
 * What an agent and a guest tell: names, mappings and records, a byte each for what follows. The
 * files must be such that uftrace, which has no limits of its own for lines, can read them.
 *
 * Covers: src/calls/directory.c src/calls/directory_tasks.c src/calls/directory_symbols.c.
 */
#include "base/bytes.h"
#include "calls/directory.h"

#include <glib/gstdio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 4 /* images, address spaces */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct world {
	struct vms_bytes input;
	struct vms_calls_directory *directory;
	struct vms_calls_image *images[N];
	struct vms_calls_mappings *mappings[N];
};

static uint64_t take(struct world *world, size_t size)
{
	uint64_t value = 0;
	size = MIN(size, world->input.size);
	memcpy(&value, world->input.data, size);
	world->input.data += size;
	world->input.size -= size;
	return value;
}

static char *take_name(struct world *world)
{
	size_t wanted = take(world, 1) * 8, size = MIN(wanted, world->input.size);
	char *name = g_strndup((const char *)world->input.data, size);
	world->input.data += size;
	world->input.size -= size;
	return name;
}

static struct vms_calls_image *take_image(struct world *world)
{
	unsigned i = take(world, 1) % N;
	if (!world->images[i]) {
		g_autofree char *name = take_name(world);
		world->images[i] =
			vms_calls_directory_image(world->directory, take(world, 1), name);
	}
	return world->images[i];
}

static void set_symbols(struct world *world)
{
	g_autoptr(vms_symbol_table) table = vms_symbol_table_new("table");
	unsigned n = take(world, 1) % 8;
	for (unsigned i = 0; i < n; i++) {
		g_autofree char *name = take_name(world);
		uint64_t va = take(world, 8);
		vms_symbol_table_add(table, name, va, take(world, 2), (char)take(world, 1));
	}
	vms_symbol_table_finish(table, take(world, 8));
	struct vms_calls_image *image = take_image(world);
	vms_calls_image_set_symbols(image, table, take(world, 8));
}

static void map(struct world *world)
{
	struct vms_calls_mappings *mappings = world->mappings[take(world, 1) % N];
	uint64_t start = take(world, 6) << 16 >> 8, length = take(world, 2) << 8;
	uint64_t offset = take(world, 5);
	vms_calls_mappings_add(mappings, start, start + length, offset, take_image(world));
}

static void append(struct world *world)
{
	uint64_t id = take(world, 1);
	size_t wanted = take(world, 1) * 16, size = MIN(wanted, world->input.size);
	const uint8_t *records = world->input.data;
	world->input.data += size;
	world->input.size -= size;
	vms_calls_directory_append(world->directory, id, records, size, NULL);
}

static void describe(struct world *world)
{
	g_autofree char *name = take_name(world);
	const struct vms_calls_about about = { name, name, name, name, (unsigned)take(world, 2) };
	vms_calls_directory_describe(world->directory, &about);
}

/* Half of what is not known is in some image. */
static void learn(struct vms_calls_mappings *mappings, uint64_t va, void *data)
{
	struct world *world = data;
	if (va & 0x1000)
		vms_calls_mappings_add(mappings, va, va + 0x100, 0, take_image(world));
}

static void act(struct world *world)
{
	switch (take(world, 1) % 8) {
	case 0: take_image(world); break;
	case 1: map(world); break;
	case 2: {
		uint64_t id = take(world, 1);
		g_autofree char *name = take_name(world);
		const struct vms_calls_thread thread = {
			.time_ns = take(world, 8),
			.pid = (uint32_t)take(world, 4),
			.name = name,
		};
		vms_calls_directory_name_stream(world->directory, id, &thread);
		break;
	}
	case 3: {
		uint64_t id = take(world, 1);
		vms_calls_directory_set_space(world->directory, id,
					      world->mappings[take(world, 1) % N]);
		break;
	}
	case 4: append(world); break;
	case 5: set_symbols(world); break;
	case 6: vms_calls_directory_update(world->directory, NULL); break;
	case 7: describe(world); break;
	default: break;
	}
}

/* ---- what was written --------------------------------------------------- */

static void check(bool right)
{
	if (!right)
		abort();
}

static void check_map(char **lines)
{
	char paths[2][4096] = { "", "" };
	for (unsigned i = 0; lines[i] && *lines[i]; i++) {
		unsigned long start, end;
		char more;
		check(strlen(lines[i]) < 4000);
		check(sscanf(lines[i], "%lx-%lx %*s %*x %*x:%*x %*d %4095s%c", &start, &end,
			     paths[i % 2], &more) == 3);
		check(start < end && strcmp(paths[0], paths[1]) != 0);
	}
}

static void check_symbols(char **lines)
{
	uint64_t next = 0;
	for (; *lines && **lines; lines++) {
		char *rest;
		uint64_t va = g_ascii_strtoull(*lines, &rest, 16);
		check(va >= next && rest[0] == ' ' && strchr("tT?", rest[1]) && rest[2] == ' ');
		next = va + 1;
	}
}

static void check_tasks(char **lines)
{
	for (; *lines && **lines; lines++) {
		unsigned long seconds, ns;
		unsigned a, b;
		char name[512];
		check(sscanf(*lines, "TASK timestamp=%lu.%lu tid=%u pid=%u", &seconds, &ns, &a,
			     &b) == 4 ||
		      sscanf(*lines,
			     "SESS timestamp=%lu.%lu pid=%u sid=0000000000000000 "
			     "exename=\"%511[^\"]\"",
			     &seconds, &ns, &a, name) == 4);
	}
}

static void check_records(const char *data, size_t size)
{
	check(size % 16 == 0);
	for (size_t i = 8; i < size; i += 16)
		check(((uint8_t)data[i] & 0x3c) == 5 << 3);
}

static void check_files(const char *folder)
{
	g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
	for (const char *name = g_dir_read_name(dir); name; name = g_dir_read_name(dir)) {
		g_autofree char *file = g_build_filename(folder, name, NULL);
		g_autofree char *text = NULL;
		gsize size;
		check(g_file_get_contents(file, &text, &size, NULL));
		g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
		if (g_str_has_suffix(name, ".map"))
			check_map(lines);
		else if (g_str_has_suffix(name, ".sym"))
			check_symbols(lines);
		else if (strcmp(name, "task.txt") == 0)
			check_tasks(lines);
		else if (g_str_has_suffix(name, ".dat"))
			check_records(text, size);
		check(g_unlink(file) == 0);
	}
}

static char *path; /* of the directory, which is empty between two inputs */

static void remove_directory(void)
{
	g_rmdir(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world world = { .input = { data, MIN(size, 4096) } };
	if (!path) {
		path = g_dir_make_tmp("vmscope-fuzz-calls-XXXXXX", NULL);
		atexit(remove_directory);
	}
	world.directory = vms_calls_directory_open(path, NULL);
	check(world.directory);
	vms_calls_directory_set_learn(world.directory, learn, &world);
	world.mappings[0] = vms_calls_directory_kernel(world.directory);
	for (unsigned i = 1; i < N; i++)
		world.mappings[i] = vms_calls_mappings_new(world.directory);
	while (world.input.size > 0)
		act(&world);
	for (unsigned i = 1; i < N; i++)
		vms_calls_mappings_unref(world.mappings[i]);
	vms_calls_directory_written(world.directory);
	vms_calls_directory_close(world.directory, NULL);
	check_files(path);
	return 0;
}
