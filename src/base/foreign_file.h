/* SPDX-License-Identifier: MIT */
/*
 * The one way to open a file whose name somebody else chose: a process by its mappings, a guest, a
 * recording. What the user names is not opened here.
 *
 * Such a name may lead to a device, a pipe, another file than is meant, or a file system that does
 * not answer, where open, stat and read block for good. So a side process (foreign_opener.h) looks
 * at what is there without opening it, opens it if it is a regular file, and hands it over. If it
 * does not answer in time it is killed, and another one is started: 3 are given up at most. A file
 * of a file system that may not answer (FUSE, a network's) stays with that process, which reads it.
 *
 * For any thread, but only one thread at a time reads a file.
 */
#pragma once

#include "base/budget.h"
#include <sys/stat.h>
#include <sys/types.h>

struct vms_foreign_files;
struct vms_foreign_file;

/* A name. All members that are 0 or NULL are not known. */
struct vms_foreign_name {
	/*
	 * The process that maps the file, and where. The file is opened by the mapping itself
	 * (/proc/PID/map_files, which takes CAP_CHECKPOINT_RESTORE), or else by `path` below the
	 * process's root. Below this program's root it is only looked for if that one is hidden,
	 * because the process has ended or is another user's, and if the inode is known.
	 */
	pid_t pid;
	uint64_t start, end;
	/* Without a process: `path` is below this folder, which the user named. NULL: "/". */
	const char *root;
	/* No symbolic link leads out of the root. */
	const char *path;
	/* The file must be this one, as a list of mappings tells; inode 0: whichever it is. */
	uint64_t device, inode;
};

/*
 * Makes what opens files. What it could not open is noted in `budget`, whose cancellation ends all
 * waiting; it is referenced, and may be NULL. No process is started before the first file.
 */
struct vms_foreign_files *vms_foreign_files_new(struct vms_budget *budget);
struct vms_foreign_files *vms_foreign_files_ref(struct vms_foreign_files *files);
void vms_foreign_files_unref(struct vms_foreign_files *files);

/*
 * Opens a regular file to read it. `budget`, which may be NULL, pays for it. Returns NULL and sets
 * `*number` to one of errno(3): EINVAL (no regular file, or not the one that is meant), ETIMEDOUT
 * (the file system does not answer, or too many did not), EDQUOT (the budget is used up),
 * ECANCELED, those of openat2(2).
 */
struct vms_foreign_file *vms_foreign_files_open(struct vms_foreign_files *files,
						const struct vms_foreign_name *name,
						struct vms_budget *budget, int *number);
void vms_foreign_file_close(struct vms_foreign_file *file);

/* What fstat(2) says of it. The file owns it. */
const struct stat *vms_foreign_file_status(const struct vms_foreign_file *file);
/* Reads [offset, offset + size) of it. False if that is not all there. It is never mapped. */
bool vms_foreign_file_read(struct vms_foreign_file *file, uint64_t offset, void *buf, size_t size);
/*
 * Returns a descriptor with the bytes of the file, for libraries: the file itself, or a copy in
 * memory of one that its file system may not give. The caller closes it. -1 if that fails, or the
 * copy is larger than `limit` bytes.
 */
int vms_foreign_file_copy(struct vms_foreign_file *file, uint64_t limit);
