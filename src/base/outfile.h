/* SPDX-License-Identifier: MIT */
/*
 * A file that is there whole or not at all: written under a temporary name in the target's folder,
 * and renamed when it is complete. What cannot be replaced like that (a terminal, a pipe, a
 * device) is written directly. A symbolic link is followed: what it points to is replaced.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <sys/types.h>

typedef struct vms_outfile vms_outfile;

/* `mode`: permissions of a new file, before the umask. Errors: IO, PERMISSION. */
struct vms_outfile *vms_outfile_open(const char *path, mode_t mode, GError **error);
/* Writes all of it. Errors: IO; the file is of no use then. */
bool vms_outfile_write(struct vms_outfile *file, const void *data, size_t size, GError **error);
/* Gives the file its name, once everything is on the disk. Errors: IO. */
bool vms_outfile_commit(struct vms_outfile *file, GError **error);
/* Removes what was not committed. */
void vms_outfile_close(struct vms_outfile *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_outfile, vms_outfile_close)
