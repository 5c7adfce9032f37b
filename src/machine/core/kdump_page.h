/* SPDX-License-Identifier: MIT */
/* Reads the pages of a kdump file. Any number of threads may do so at once. */
#pragma once

#include "machine/core/core_file.h"
#include "machine/core/kdump_format.h"

typedef struct vms_kdump_pages vms_kdump_pages;

struct vms_kdump_pages *vms_kdump_pages_new(const struct vms_core_file *file, size_t block_size);
void vms_kdump_pages_free(struct vms_kdump_pages *pages);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_kdump_pages, vms_kdump_pages_free)

/*
 * Copies `size` bytes from byte `at` of the page whose descriptor is at the offset `descriptor` of
 * the file. The bytes must not cross the page's end. False if the page is not in the file, or is
 * not exactly a block when decompressed.
 */
bool vms_kdump_page_read(struct vms_kdump_pages *pages, uint64_t descriptor, size_t at, void *buf,
			 size_t size);
/* Reads a descriptor, and converts its integers to the host's byte order. */
bool vms_kdump_page_descriptor(const struct vms_core_file *file, uint64_t descriptor,
			       struct vms_kdump_page *ret);
