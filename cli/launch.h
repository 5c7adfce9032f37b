/* SPDX-License-Identifier: MIT */
/* Starting QEMU with what vmscope needs to reach it. */
#pragma once

#include <vmscope/machine.h>

/*
 * The command with a QMP socket added, in a directory that only this user can enter; the socket's
 * path in *socket. Both newly allocated. `pid` names the socket.
 */
char **launch_command(char *const *command, pid_t pid, char **socket, GError **error);
/* Starts it as a child and opens it, waiting until it can be reached or ends. */
struct vms_machine *launch_start(char *const *command, pid_t *pid, GError **error);
/* Ends a QEMU that launch_start has started; 0 is ignored. */
void launch_end(pid_t pid);
