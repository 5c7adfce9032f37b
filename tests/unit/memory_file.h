/* SPDX-License-Identifier: MIT */
/* A file in memory, with a path that can be opened as long as it lives. */
#pragma once

#include <glib.h>
#include <stdint.h>

typedef struct memory_file memory_file;

struct memory_file {
	int fd;
	char *path;
};

struct memory_file *memory_file_new(const void *data, size_t size);
void memory_file_put(struct memory_file *file, uint64_t offset, const void *data, size_t size);
void memory_file_free(struct memory_file *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(memory_file, memory_file_free)
