/* SPDX-License-Identifier: MIT */
/*
 * A file that appears complete or not at all. It is written into the target's folder, without a
 * name or under a temporary one, and gets the target's name when it is complete. A target that
 * cannot be replaced like that (a terminal, a pipe, a device, an open file by its link in /proc) is
 * written directly, at its end.
 *
 * A symbolic link is followed, and the file that it points to is replaced. A link of another user
 * is refused (base/path.h). Only this user may read the file (mode 0600).
 *
 * On a file system without O_TMPFILE a process that is killed leaves its temporary file behind. The
 * next process that writes into that folder logs its name and removes it.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct vms_outfile vms_outfile;

/* Opens a file that is written in order. Errors: IO, PERMISSION. */
struct vms_outfile *vms_outfile_open(const char *path, GError **error);
/*
 * Opens a file that is written in any order. Errors: IO, PERMISSION, UNSUPPORTED (the target is no
 * regular file), EXISTS (the target exists, and `overwrite` is false; the commit may find that,
 * too).
 */
struct vms_outfile *vms_outfile_open_random(const char *path, bool overwrite, GError **error);
/* Writes all of `data`. Errors: IO; the file cannot be used any more then. */
bool vms_outfile_write(struct vms_outfile *file, const void *data, size_t size, GError **error);
/*
 * Writes all of `data` at `offset`, in bytes. Bytes that are never written read as zeros. Several
 * threads may call it at once.
 */
bool vms_outfile_write_at(struct vms_outfile *file, uint64_t offset, const void *data, size_t size,
			  GError **error);
/* A path in /proc that leads to the file while it is open. Newly allocated. */
char *vms_outfile_link(const struct vms_outfile *file);
/* Cuts or lengthens the file to `size` bytes. Errors: IO. */
bool vms_outfile_set_size(struct vms_outfile *file, uint64_t size, GError **error);
/* The size of the file in bytes, holes included. Not after the commit. */
uint64_t vms_outfile_size(const struct vms_outfile *file);
/* How many bytes have been written so far. For any thread. */
uint64_t vms_outfile_written(const struct vms_outfile *file);
/* True if a write failed because the disk is full, or a quota or a file's size limit is reached. */
bool vms_outfile_is_full(const struct vms_outfile *file);
/*
 * Brings what was written to the disk, piece by piece, so that the commit is quick. Ends early when
 * `*cancelled` (atomic) is set. Errors: IO, CANCELLED.
 */
bool vms_outfile_sync(struct vms_outfile *file, const gint *cancelled, GError **error);
/* Brings everything to the disk, then gives the file its name. Errors: IO, EXISTS. */
bool vms_outfile_commit(struct vms_outfile *file, GError **error);
/* Closes the file, and removes it if it was not committed. NULL is allowed. */
void vms_outfile_close(struct vms_outfile *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_outfile, vms_outfile_close)
