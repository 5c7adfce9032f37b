/* SPDX-License-Identifier: MIT */
/* The pages of a kdump file, decompressed. For any number of threads at once. */
#pragma once

#include "machine/core/core_file.h"
#include "machine/core/kdump_format.h"

typedef struct vms_kdump_pages vms_kdump_pages;

struct vms_kdump_pages *vms_kdump_pages_new(const struct vms_core_file *file, size_t block_size);
void vms_kdump_pages_free(struct vms_kdump_pages *pages);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_kdump_pages, vms_kdump_pages_free)

/*
 * Copies `size` bytes from byte `at` of the page whose descriptor lies at `descriptor` in the file;
 * they must not cross the page's end. False when the page is not in the file or does not decompress
 * to exactly a block.
 */
bool vms_kdump_page_read(struct vms_kdump_pages *pages, uint64_t descriptor, size_t at, void *buf,
			 size_t size);
/* A descriptor with its integers in the host's byte order. */
bool vms_kdump_page_descriptor(const struct vms_core_file *file, uint64_t descriptor,
			       struct vms_kdump_page *ret);
