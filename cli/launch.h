/* SPDX-License-Identifier: MIT */
/* The QEMU that a command starts. */
#pragma once

#include <vmscope/launch.h>

/*
 * Prepares a command with the agent of this vmscope, be it installed or not: vms_launch_new with
 * the place of the agent's objects. Errors: as of that.
 */
struct vms_launch *launch_prepare(char *const *command, enum vms_launch_agent agent, bool paused,
				  GError **error);
