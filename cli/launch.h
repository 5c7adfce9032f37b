/* SPDX-License-Identifier: MIT */
/* The QEMU that a command starts. */
#pragma once

#include <vmscope/launch.h>

/*
 * Prepares a command with the agent of this vmscope, installed or not: calls vms_launch_new with
 * the folder of the agent's objects. Errors: those of vms_launch_new.
 */
struct vms_launch *launch_prepare(char *const *command, enum vms_launch_agent agent, bool paused,
				  GError **error);
