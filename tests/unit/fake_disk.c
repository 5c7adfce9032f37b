/* SPDX-License-Identifier: MIT */
#include "fake_disk.h"
#include <string.h>

static bool read_disk(void *data, uint64_t offset, void *buf, size_t size)
{
	struct fake_disk *disk = data;
	disk->reads++;
	if (offset < disk->lost_end && offset + size > disk->lost_begin) {
		memset(buf, 0x55, size);
		return false;
	}
	if (disk->far_begin && offset >= disk->far_begin)
		offset = offset - disk->far_begin + disk->far_place;
	memcpy(buf, disk->bytes + offset, size);
	return true;
}

struct fake_disk *fake_disk_new(size_t size)
{
	struct fake_disk *disk = g_new0(struct fake_disk, 1);
	disk->bytes = g_malloc0(size);
	disk->source = (struct vms_file_source) { .size = size, .read = read_disk, .data = disk };
	return disk;
}

void fake_disk_free(struct fake_disk *disk)
{
	g_free(disk->bytes);
	g_free(disk);
}

void fake_disk_put(struct fake_disk *disk, uint64_t at, const void *bytes, size_t size)
{
	g_assert_cmpuint(at + size, <=, disk->source.size);
	memcpy(disk->bytes + at, bytes, size);
}

void fake_disk_put_le(struct fake_disk *disk, uint64_t at, unsigned size, uint64_t value)
{
	value = GUINT64_TO_LE(value);
	fake_disk_put(disk, at, &value, size);
}

void fake_disk_put_be(struct fake_disk *disk, uint64_t at, unsigned size, uint64_t value)
{
	value = GUINT64_TO_BE(value);
	fake_disk_put(disk, at, (const uint8_t *)&value + sizeof(value) - size, size);
}

void fake_content(uint8_t *bytes, size_t size, unsigned seed)
{
	g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)g_rand_int(rand);
}

void fake_disk_fill(struct fake_disk *disk, uint64_t at, size_t size, unsigned seed)
{
	g_assert_cmpuint(at + size, <=, disk->source.size);
	fake_content(disk->bytes + at, size, seed);
}

void fake_disk_check(const struct vms_file_source *source, uint64_t begin, uint64_t end,
		     const uint8_t *expected)
{
	const size_t size = end - begin;
	g_autofree uint8_t *bytes = g_malloc(size + 1);
	for (size_t piece = size; piece > 0; piece /= 3)
		for (size_t at = 0; at < size; at += MAX(piece, size / 50 + 1)) {
			const size_t part = MIN(piece, size - at);
			bytes[part] = 0xa5;
			g_assert_true(vms_file_source_read(source, begin + at, bytes, part));
			g_assert_cmpmem(bytes, part, expected + at, part);
			g_assert_cmphex(bytes[part], ==, 0xa5);
		}
}

struct vms_budget *fake_disk_budget(uint64_t steps, uint64_t bytes)
{
	const struct vms_budget_options options = {
		.size = sizeof(options),
		.processor_ns = steps * VMS_BUDGET_STEP_NS,
		.bytes = bytes,
	};
	return vms_budget_new(&options, NULL);
}
