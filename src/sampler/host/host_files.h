/* SPDX-License-Identifier: MIT */
/*
 * Numbers the files that processes of this host have mapped, and finds out how to recognise them. A
 * thread of its own reads the files, because whoever drains the rings of samples must not wait for
 * a file system.
 */
#pragma once

#include "base/foreign_file.h"
#include <glib.h>
#include <stdint.h>
#include <sys/types.h>

struct vms_host_files;

/* How a file is recognised later. */
struct vms_file_identity {
	const char *build_id; /* NULL: it has none */
	uint64_t stamp;	      /* of one without a build id (vms_file_stamp); 0: not known */
};

/*
 * `found` is called once for each new file, by any thread, later than vms_host_files_number
 * returns. What is read of files is part of `budget`, which is referenced.
 */
struct vms_host_files *vms_host_files_new(struct vms_budget *budget,
					  void (*found)(uint32_t number, const char *path,
							const struct vms_file_identity *identity,
							void *data),
					  void *data);
/* Ends the thread without reading what is left. */
void vms_host_files_free(struct vms_host_files *files);
/*
 * Returns the number of a file by what a process has mapped; see struct vms_foreign_name. A path
 * that does not begin with "/" is no file's. One thread at a time.
 */
uint32_t vms_host_files_number(struct vms_host_files *files, const struct vms_foreign_name *name);
/* Waits until all files were found, and ends the thread. */
void vms_host_files_finish(struct vms_host_files *files);
