/* SPDX-License-Identifier: MIT */
#include "base/program_name.h"
#include <glib.h>
#include <string.h>

#define NAME_MAX_BYTES 15 /* TASK_COMM_LEN of Linux, without the end */

char *vms_program_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return g_strndup(slash ? slash + 1 : path, NAME_MAX_BYTES);
}
