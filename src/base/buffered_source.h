/* SPDX-License-Identifier: MIT */
/*
 * A source that keeps blocks of another one, for sources whose reads are slow whatever their size
 * is: a read from a guest's page cache takes dozens of system calls. Tables of symbols and of
 * unwind information are read a few bytes at a time.
 */
#pragma once

#include "base/file_source.h"

/*
 * Makes a source with the bytes of `source`, which it takes. A block that was read once is not read
 * again soon, so the bytes may be older than those of `source`. Missing blocks are not kept. Keeps
 * up to VMS_BUFFERED_BLOCKS blocks.
 */
struct vms_file_source vms_file_source_buffered(const struct vms_file_source *source);

#define VMS_BUFFERED_BLOCKS 64
