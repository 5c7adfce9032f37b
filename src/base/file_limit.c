/* SPDX-License-Identifier: MIT */
#include "base/file_limit.h"

#include <sys/resource.h>

void vms_raise_file_limit(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}
