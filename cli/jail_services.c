/* SPDX-License-Identifier: MIT */
#include "jail_services.h"
#include "base/jail_process.h"
#include <string.h>

/* All services, each with its own kinds of requests. */
static const struct vms_jail_service *const services[] = { NULL };

bool serve_as_jail(int argc, char **argv, int *status)
{
	if (argc != 2 || strcmp(argv[1], VMS_JAIL_ARGUMENT) != 0)
		return false;
	*status = vms_jail_serve(services);
	return true;
}
