/* SPDX-License-Identifier: MIT */
/*
 * Finds where a path leads, without following symbolic links of other users. Such a link could make
 * root write into a file that nobody named. Only links of this user and of root are followed,
 * whatever the sysctl fs.protected_symlinks says.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <sys/types.h>

/* The folder of a file, and the file's name in it. */
struct vms_place {
	int folder; /* O_PATH; -1: none */
	char *name; /* without slashes; the file need not exist */
};

/* True if `owner` is this user or root: links that they made are followed. */
bool vms_place_trusts(uid_t owner);

/*
 * Finds the place of a path. The last part of the path need not exist. If it is a link, that is
 * followed, too, unless it is a link of /proc, which leads to an open file. The caller clears the
 * place even when this fails. Errors: PERMISSION (also for a link of another user), IO.
 */
bool vms_place_find(struct vms_place *ret, const char *path, GError **error);
void vms_place_clear(struct vms_place *place);
