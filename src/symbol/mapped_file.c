/* SPDX-License-Identifier: MIT */
#include "symbol/mapped_file.h"
#include "symbol/build_id.h"
#include <string.h>

#define COPY_LIMIT (UINT64_C(256) << 20) /* bytes of a file that is copied to be read */

int vms_mapped_file_open(const char *path, const char *build_id, struct vms_budget *budget)
{
	const struct vms_foreign_name name = { .path = path };
	char found[2 * VMS_BUILD_ID_MAX + 1];
	int fd = -1, number;
	struct vms_foreign_files *files = vms_foreign_files_new(budget);
	struct vms_foreign_file *file = vms_foreign_files_open(files, &name, budget, &number);
	if (file) {
		struct vms_file_source source = vms_file_source_of_foreign(file, budget);
		if (vms_build_id_find(&source, found) && strcmp(found, build_id) == 0)
			fd = vms_foreign_file_copy(file, COPY_LIMIT);
		vms_file_source_clear(&source);
	}
	vms_foreign_files_unref(files);
	return fd;
}
