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
