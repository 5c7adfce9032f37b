/* SPDX-License-Identifier: MIT */
/*
 * A core file's bytes: plain, or those that a flattened file stands for.
 *
 * Covers: src/machine/core/core_file.c.
 */
#include "machine/core/core_file.h"
#include "../unit/memory_file.h"

#define LOAD_LIMIT 65536
#define FLATTENED  "makedumpfile"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	g_autoptr(memory_file) memory = memory_file_new(data, size);
	g_autoptr(vms_core_file) file = vms_core_file_open(memory->path, NULL);
	uint8_t buf[256];
	if (!file)
		return 0;
	uint64_t end = vms_core_file_size(file), begin, stop;
	unsigned calls = 0;
	for (uint64_t at = 0; at < end && calls < 100; at = stop, calls++) {
		vms_core_file_next_data(file, at, end, &begin, &stop);
		g_assert_cmpuint(begin, >=, at);
		g_assert_cmpuint(begin, <=, stop);
		g_assert_cmpuint(stop, <=, end);
		if (begin == stop)
			break;
		g_assert_true(vms_core_file_read(file, begin, buf, MIN(stop - begin, sizeof(buf))));
		g_assert_true(vms_core_file_read(file, stop - 1, buf, 1));
	}
	g_assert_false(vms_core_file_read(file, end, buf, 1));
	g_free(vms_core_file_load(file, 0, end, LOAD_LIMIT, "all", NULL));
	g_assert_null(vms_core_file_load(file, end, 1, LOAD_LIMIT, "more", NULL));
	if (size < strlen(FLATTENED) || memcmp(data, FLATTENED, strlen(FLATTENED)) != 0)
		g_assert_null(vms_core_file_damage(file));
	g_assert_cmpuint(vms_core_file_disk_size(file), <=, size + 4095);
	g_assert_cmpstr(vms_core_file_path(file), ==, memory->path);
	return 0;
}
