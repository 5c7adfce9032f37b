/* SPDX-License-Identifier: MIT */
/*
 * Starts QEMU so that it can be reached: with QMP sockets, and with the agent in it. The sockets
 * lie in a folder that only this user can enter: /run/vmscope of root; $XDG_RUNTIME_DIR/vmscope or
 * /run/user/UID/vmscope of others, or else one with a random name in the folder for temporary
 * files.
 *
 * Threads: one at a time may use a launch.
 */
#pragma once

#include <vmscope/machine.h>

VMS_BEGIN_DECLS

typedef struct vms_launch vms_launch;

/* Whether QEMU gets the agent, and what happens if it cannot take it. */
enum vms_launch_agent {
	VMS_LAUNCH_WITHOUT_AGENT,
	VMS_LAUNCH_MAY_HAVE_AGENT, /* QEMU is started without it if it cannot be used; the log says
				      why (INFO) */
	/* The same, but a WARNING, unless QEMU's accelerator is the reason. */
	VMS_LAUNCH_TRY_AGENT,
	VMS_LAUNCH_NEED_AGENT, /* QEMU is not started */
};

struct vms_launch_options {
	size_t size; /* sizeof(struct vms_launch_options) */
	enum vms_launch_agent agent;
	/*
	 * The machine executes nothing until vms_launch_let_go. If the command itself has -S, its
	 * user lets the machine go, not vms_launch_let_go.
	 */
	bool paused;
	/*
	 * The folder of the agent's objects. NULL means the folder in which they are installed. The
	 * environment variable VMSCOPE_AGENT_DIR takes precedence over both.
	 */
	const char *agent_folder;
};

/*
 * Prepares a command that starts QEMU, which may be a script that hands its options on to QEMU.
 * `command` ends with NULL, and is copied. `options` may be NULL. To find the agent's object that
 * QEMU takes, QEMU is started for a moment, without a machine. Errors: IO, PERMISSION (the folder
 * of the sockets), INVALID_ARGUMENT (the options); if the agent is needed: UNSUPPORTED (QEMU is too
 * old or too new, was built without plugins, has another accelerator than TCG), NOT_FOUND (the
 * agent's objects), PROTOCOL and TIMEOUT (the command does not answer as QEMU does). IO, if the
 * command cannot be started, is an error in any case.
 */
struct vms_launch *vms_launch_new(const char *const *command,
				  const struct vms_launch_options *options, GError **error);
/* A QEMU that was started runs on. */
void vms_launch_free(struct vms_launch *launch);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_launch, vms_launch_free)

/*
 * The command with what was added to it, NULL-terminated, for a caller that does not use
 * vms_launch_start. Owned by the launch.
 */
char *const *vms_launch_command(const struct vms_launch *launch);
/* True if QEMU gets the agent. */
bool vms_launch_has_agent(const struct vms_launch *launch);

/*
 * Starts the command as a child, which inherits the standard files and other descriptors without
 * FD_CLOEXEC. The caller waits for the child (waitpid) or calls vms_launch_end. Errors: IO,
 * INVALID_STATE (it was started already).
 */
bool vms_launch_start(struct vms_launch *launch, GError **error);
/* The child's process id; 0 before it is started, and after vms_launch_end. */
pid_t vms_launch_pid(const struct vms_launch *launch);
/*
 * Opens the machine, by the agent if QEMU has it. Waits until it can be reached, 10 s at most.
 * Errors: CLOSED (the child has ended), TIMEOUT, INVALID_STATE (not started), and those of
 * vms_machine_open_agent and vms_machine_open_qmp.
 */
struct vms_machine *vms_launch_open(const struct vms_launch *launch, GError **error);
/*
 * Lets a machine go that was started paused: it executes its first instruction. Does nothing for
 * other machines. Errors: those of vms_machine_open_qmp.
 */
bool vms_launch_let_go(struct vms_launch *launch, GError **error);
/*
 * Ends the child, if it was started, and waits for it: by SIGTERM, after 5 s by SIGKILL. Close the
 * machine before.
 */
void vms_launch_end(struct vms_launch *launch);

/*
 * True if a command gives QEMU the option `name` ("daemonize" is -daemonize or --daemonize). Words
 * before QEMU's name are ignored.
 */
bool vms_launch_has_option(const char *const *command, const char *name);

VMS_END_DECLS
