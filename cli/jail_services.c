/* SPDX-License-Identifier: MIT */
#include "jail_services.h"
#include "disk/disk_service.h"
#include "jailed_command.h"
#include "symbol/functions_service.h"
#include <string.h>

/* All services, each with its own kinds of requests. */
static const struct vms_jail_service *const services[] = { &jailed_command_service,
							   &vms_disk_service,
							   &vms_functions_service, NULL };

void serve_if_jail(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], VMS_JAIL_ARGUMENT) == 0)
		vms_jail_serve(services);
}
