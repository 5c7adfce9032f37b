/* SPDX-License-Identifier: MIT */
/*
 * A file that is there whole or not at all: written under no name or a temporary one in the
 * target's folder, and named when it is complete. What cannot be replaced like that (a terminal, a
 * pipe, a device, an open file by its link in /proc) is written directly, at its end.
 *
 * A symbolic link is followed, and what it points to is replaced, but for links of other users
 * (base/path.h). Nobody but this user may read the file (mode 0600).
 *
 * Where a file cannot be without a name, one that was killed leaves its temporary file behind. The
 * next that writes into that folder names and removes it.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct vms_outfile vms_outfile;

/* Errors: IO, PERMISSION. */
struct vms_outfile *vms_outfile_open(const char *path, GError **error);
/*
 * The same for a file that is written at random. Refuses a target that is no regular file, and
 * one that is there unless `overwrite`: EXISTS, here or when it is committed.
 */
struct vms_outfile *vms_outfile_open_random(const char *path, bool overwrite, GError **error);
/* Writes all of it. Errors: IO; the file is of no use then. */
bool vms_outfile_write(struct vms_outfile *file, const void *data, size_t size, GError **error);
/* Writes all of it at `offset`; what is never written reads as zeros. For any number of threads. */
bool vms_outfile_write_at(struct vms_outfile *file, uint64_t offset, const void *data, size_t size,
			  GError **error);
/* A path that leads to the file while it is open, whatever it is called. Newly allocated. */
char *vms_outfile_link(const struct vms_outfile *file);
/* Cuts or lengthens the file. Errors: IO. */
bool vms_outfile_set_size(struct vms_outfile *file, uint64_t size, GError **error);
/* Bytes of the file until it is committed, holes included. */
uint64_t vms_outfile_size(const struct vms_outfile *file);
/* Bytes that were written so far. For any thread. */
uint64_t vms_outfile_written(const struct vms_outfile *file);
/* Has a write failed because the disk, a quota or the largest size of a file is exhausted? */
bool vms_outfile_is_full(const struct vms_outfile *file);
/*
 * Brings what was written to the disk, piece by piece, until `*cancelled` (atomic) is set; for a
 * commit that does not take long then. Errors: IO, CANCELLED.
 */
bool vms_outfile_sync(struct vms_outfile *file, const gint *cancelled, GError **error);
/* Gives the file its name, once everything is on the disk. Errors: IO, EXISTS. */
bool vms_outfile_commit(struct vms_outfile *file, GError **error);
/* Removes what was not committed. */
void vms_outfile_close(struct vms_outfile *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_outfile, vms_outfile_close)
