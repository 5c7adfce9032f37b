/* SPDX-License-Identifier: MIT */
#include "memory_file.h"
#include <sys/mman.h>
#include <unistd.h>

struct memory_file *memory_file_new(const void *data, size_t size)
{
	struct memory_file *file = g_new(struct memory_file, 1);
	file->fd = memfd_create("memory-file", MFD_CLOEXEC);
	g_assert_cmpint(file->fd, >=, 0);
	file->path = g_strdup_printf("/proc/self/fd/%d", file->fd);
	if (size)
		memory_file_put(file, 0, data, size);
	return file;
}

void memory_file_put(struct memory_file *file, uint64_t offset, const void *data, size_t size)
{
	for (const char *at = data; size;) {
		ssize_t n = pwrite(file->fd, at, size, (off_t)offset);
		g_assert_cmpint(n, >, 0);
		at += n;
		offset += (uint64_t)n;
		size -= (size_t)n;
	}
}

void memory_file_free(struct memory_file *file)
{
	close(file->fd);
	g_free(file->path);
	g_free(file);
}
