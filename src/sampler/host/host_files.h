/* SPDX-License-Identifier: MIT */
/* The files that processes of this host have mapped, by number, with their build ids. */
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
 * Returns the number of the file that a process knows as `path`, if that is still the file with
 * this device and inode. Others have a number, too, but no build id.
 */
uint32_t vms_host_files_number(struct vms_host_files *files, pid_t pid, const char *path,
			       dev_t device, ino_t inode);
