/* SPDX-License-Identifier: MIT */
/* The bytes of a guest's file: from its page cache, and what that lacks from the guest's disk. */
#pragma once

#include "disk/drives.h"
#include "guest/linux/page_cache.h"

/*
 * Makes a source of a file. References `cache` and `drives`. To read it never waits for a disk; to
 * fetch does. The disk is used only if it says the same as the page cache where both have the file,
 * save for what the guest has written and the kernel has not: the guest may be writing to it. If it
 * cannot be used, the log says why, the first time, and it is tried again ever more rarely.
 */
struct vms_file_source vms_guest_file_source(struct vms_page_cache *cache,
					     struct vms_drives *drives, const char *path,
					     const struct vms_cached_file *file);
