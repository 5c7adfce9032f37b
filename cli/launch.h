/* SPDX-License-Identifier: MIT */
/* Starting QEMU with what vmscope needs to reach it. */
#pragma once

#include <vmscope/machine.h>

/* Whether QEMU gets the agent, and what happens where it cannot take it. */
enum launch_agent {
	LAUNCH_WITHOUT_AGENT,
	LAUNCH_MAY_HAVE_AGENT, /* it is started without; said at -v */
	LAUNCH_TRY_AGENT,      /* it is started without, with a warning */
	LAUNCH_NEED_AGENT,     /* it is not started */
};

/* A QEMU that can be reached. */
struct launch {
	char **words; /* the command with what was added */
	char *qmp;   /* path of the first of them; who opens the machine takes the last that is free
		      */
	char *agent; /* path of the agent's socket, or NULL without agent */
};

/*
 * Adds QMP sockets and the agent to a command, in a directory that only this user can enter.
 * Errors: IO, PERMISSION (the directory), and those of agent_object_find where the agent is needed.
 */
bool launch_prepare(char *const *command, enum launch_agent agent, struct launch *ret,
		    GError **error);
void launch_clear(struct launch *launch);
/* Adds an option before the command is started. */
void launch_add(struct launch *launch, const char *option);
/* Starts it as a child, which has our standard files and those that are open for programs. */
bool launch_spawn(const struct launch *launch, pid_t *pid, GError **error);
/* Opens what runs as the process `pid`, waiting until it can be reached, or ends. */
struct vms_machine *launch_open(const struct launch *launch, pid_t pid, GError **error);

/* Starts a command as a child and opens it. */
struct vms_machine *launch_start(char *const *command, enum launch_agent agent, pid_t *pid,
				 GError **error);
/* Ends a QEMU that launch_start has started; 0 is ignored. */
void launch_end(pid_t pid);
