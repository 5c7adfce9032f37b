/* SPDX-License-Identifier: MIT */
/*
 * Where a path leads, without following symbolic links of other users: they could make root write
 * where it was not asked to. Only links of this user and of root are followed, whatever
 * fs.protected_symlinks says.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <sys/types.h>

/* The folder of a file, and the file's name in it. */
struct vms_place {
	int folder; /* O_PATH; -1: none */
	char *name; /* without slashes; what has it may be missing, but is no link that was followed
		     */
};

/* Is that this user or root? What they have made is followed. */
bool vms_place_trusts(uid_t owner);

/*
 * Finds the place of a path. Its last part need not exist; a link there is followed, too, but for
 * those of /proc, which lead to open files. To be cleared in any case. Errors: PERMISSION (also
 * for a link of another user), IO.
 */
bool vms_place_find(struct vms_place *ret, const char *path, GError **error);
void vms_place_clear(struct vms_place *place);
