/* SPDX-License-Identifier: MIT */
#include "profile_flags.h"
#include "values.h"

static const struct choice bys[] = { { "function", 0 },
				     { "address", VMS_PROFILE_BY_ADDRESS },
				     { NULL, 0 } };

static const struct choice all_processes[] = { { "pid", 0 },
					       { "name", VMS_PROFILE_BY_COMM },
					       { "none", VMS_PROFILE_WITHOUT_PROCESSES },
					       { "container", VMS_PROFILE_BY_CONTAINER },
					       { NULL, 0 } };

bool profile_flags_parse(const char *by, const char *processes, unsigned *flags, GError **error)
{
	int by_flag = 0, processes_flag = 0;
	if (!value_choose("--by", by, bys, &by_flag, error) ||
	    !value_choose("--processes", processes, all_processes, &processes_flag, error))
		return false;
	*flags |= (unsigned)(by_flag | processes_flag);
	return true;
}
