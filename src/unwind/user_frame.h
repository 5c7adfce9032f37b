/* SPDX-License-Identifier: MIT */
/*
 * Steps out of frames of user programs: by the unwind tables of their files, and by frame pointers
 * where a file has no table.
 */
#pragma once

#include "unwind/cursor.h"

/*
 * Moves the cursor to the caller's frame and returns true. Else *end tells why not. Without
 * cursor->process there are frame pointers only. It need not check that the step leads outwards.
 */
bool vms_step_user_frame(struct vms_cursor *cursor, enum vms_walk_end *end);
/* As above, by frame pointers. For code of a guest that is not known, too. */
bool vms_step_frame_pointer(struct vms_cursor *cursor, enum vms_walk_end *end);
/* Reads memory as the cursor's stack, or as code of the file that the cursor's frame is in. */
bool vms_read_user_code(const struct vms_cursor *cursor, uint64_t va, void *buf, size_t size);
