/* SPDX-License-Identifier: MIT */
/* Numbers the files that processes of this host have mapped, and reads their build ids. */
#pragma once

#include <glib.h>
#include <stdint.h>
#include <sys/types.h>

struct vms_host_files;

/* `found` is called for each new file. `build_id` may be NULL. */
struct vms_host_files *vms_host_files_new(void (*found)(uint32_t number, const char *path,
							const char *build_id, void *data),
					  void *data);
void vms_host_files_free(struct vms_host_files *files);
/*
 * Returns the number of a file, which a process knows as `path`. The build id is only read if the
 * path still leads to the file with this device and inode.
 */
uint32_t vms_host_files_number(struct vms_host_files *files, pid_t pid, const char *path,
			       dev_t device, ino_t inode);
