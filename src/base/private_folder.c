/* SPDX-License-Identifier: MIT */
#include "base/private_folder.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vmscope/error.h>

bool vms_private_folder_make(const char *path, GError **error)
{
	struct stat status;
	if (g_mkdir_with_parents(path, 0700) != 0 || lstat(path, &status) != 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot make the folder %s: %s", path,
			    g_strerror(errno));
		return false;
	}
	if (S_ISDIR(status.st_mode) && status.st_uid == geteuid() && !(status.st_mode & 0077))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_PERMISSION,
		    "cannot use %s: it must be a folder, not a link, that belongs to user %u and "
		    "that nobody else can enter (mode 0700)",
		    path, (unsigned)geteuid());
	return false;
}
