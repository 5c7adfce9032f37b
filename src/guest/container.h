/* SPDX-License-Identifier: MIT */
/* Names of containers, as the paths of Linux's control groups tell them. */
#pragma once

#include <stddef.h>

/*
 * Gives the name of the container, the virtual machine or else the service that a control group is
 * of: "docker-0123456789ab" for "/system.slice/docker-0123456789ab….scope", "nginx.service". Of
 * several, the innermost. A group of another kind is called by its path, the root by NULL. Newly
 * allocated.
 */
char *vms_container_name(const char *path);
