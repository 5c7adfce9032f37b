/* SPDX-License-Identifier: MIT */
/* Numbers the files that processes of this host have mapped, and finds out how to recognise them.
 */
#pragma once

#include <glib.h>
#include <stdint.h>
#include <sys/types.h>

struct vms_host_files;

/* How a file is recognised later. */
struct vms_file_identity {
	char *build_id; /* NULL: it has none */
	uint64_t stamp; /* of one without a build id (vms_file_stamp); 0: not known */
};

/* `found` is called for each new file. */
struct vms_host_files *vms_host_files_new(void (*found)(uint32_t number, const char *path,
							const struct vms_file_identity *identity,
							void *data),
					  void *data);
void vms_host_files_free(struct vms_host_files *files);
/*
 * Returns the number of a file, which a process knows as `path`. Its identity is only read if the
 * path still leads to the file with this device and inode.
 */
uint32_t vms_host_files_number(struct vms_host_files *files, pid_t pid, const char *path,
			       dev_t device, ino_t inode);
