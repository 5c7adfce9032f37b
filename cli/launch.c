/* SPDX-License-Identifier: MIT */
#include "launch.h"
#include "agent_object.h"
#include "machine/qemu/cmdline.h"
#include "qemu_command.h"
#include "socket_directory.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vmscope/log.h>

/* How many vmscope can look at a QEMU at once: a QMP socket serves one. */
#define QMP_SOCKETS 4

#define REACH_TRIES    1000
#define REACH_PAUSE_US 10000
#define END_TRIES      500

void launch_add(struct launch *launch, const char *option)
{
	size_t n = g_strv_length(launch->words);
	launch->words = g_renew(char *, launch->words, n + 2);
	launch->words[n] = g_strdup(option);
	launch->words[n + 1] = NULL;
}

/* Plugins work in TCG's translator; other accelerators load them and never call them. */
static bool check_accelerator(char *const *command, GError **error)
{
	struct vms_cmdline cmdline;
	vms_cmdline_parse((char **)command, &cmdline);
	bool is_tcg = g_strcmp0(cmdline.accelerator, "tcg") == 0;
	if (!is_tcg)
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "with -accel %s the guest's code does not pass through QEMU, where the "
			    "agent is: it needs -accel tcg",
			    cmdline.accelerator ? cmdline.accelerator : "?");
	vms_cmdline_clear(&cmdline);
	return is_tcg;
}

/* The agent's object for a command, NULL where it is to be started without. False on error. */
static bool choose_agent(char *const *command, enum launch_agent wanted, char **object,
			 GError **error)
{
	g_autoptr(GError) obstacle = NULL;
	*object = NULL;
	if (wanted == LAUNCH_WITHOUT_AGENT)
		return true;
	bool is_tcg = check_accelerator(command, &obstacle);
	if (is_tcg)
		*object = agent_object_find(command, &obstacle);
	if (*object)
		return true;
	if (wanted == LAUNCH_NEED_AGENT || g_error_matches(obstacle, VMS_ERROR, VMS_ERROR_IO)) {
		g_propagate_error(error, g_steal_pointer(&obstacle));
		return false;
	}
	vms_log(is_tcg && wanted == LAUNCH_TRY_AGENT ? VMS_LOG_WARNING : VMS_LOG_INFO,
		"QEMU is started without the agent: %s", obstacle->message);
	return true;
}

static void add_qmp(struct launch *launch, const char *directory)
{
	for (unsigned i = 0; i < QMP_SOCKETS; i++) {
		g_autofree char *name = g_strdup_printf("qmp%u", i);
		g_autofree char *path = socket_directory_path(directory, name);
		g_autofree char *escaped = qemu_command_escape(path);
		g_autofree char *option = g_strdup_printf("unix:%s,server=on,wait=off", escaped);
		launch_add(launch, "-qmp");
		launch_add(launch, option);
		if (i == 0)
			launch->qmp = g_steal_pointer(&path);
	}
}

static void add_agent(struct launch *launch, const char *directory, const char *object)
{
	launch->agent = socket_directory_path(directory, "agent");
	g_autofree char *file = qemu_command_escape(object),
			*escaped = qemu_command_escape(launch->agent);
	g_autofree char *option = g_strdup_printf("%s,socket=%s", file, escaped);
	launch_add(launch, "-plugin");
	launch_add(launch, option);
}

bool launch_prepare(char *const *command, enum launch_agent agent, struct launch *ret,
		    GError **error)
{
	g_autofree char *directory = socket_directory_open(error), *object = NULL;
	*ret = (struct launch) { 0 };
	if (!directory || !choose_agent(command, agent, &object, error))
		return false;
	ret->words = g_strdupv((char **)command);
	add_qmp(ret, directory);
	if (object)
		add_agent(ret, directory, object);
	vms_log(VMS_LOG_INFO, "QMP sockets %s and following, agent %s", ret->qmp,
		object ? object : "none");
	return true;
}

void launch_clear(struct launch *launch)
{
	g_strfreev(launch->words);
	g_free(launch->qmp);
	g_free(launch->agent);
}

/* Leaves its exit status to whoever waits for it, who may have got it already. */
static bool has_ended(pid_t pid)
{
	siginfo_t info = { 0 };
	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid;
}

static struct vms_machine *try_to_open(const struct launch *launch, GError **error)
{
	return launch->agent ? vms_machine_open_agent(launch->agent, error)
			     : vms_machine_open_qmp(launch->qmp, error);
}

/* Its sockets are not there yet, or nobody listens yet. */
static bool is_early(const GError *error)
{
	return g_error_matches(error, VMS_ERROR, VMS_ERROR_CLOSED) ||
	       g_error_matches(error, VMS_ERROR, VMS_ERROR_NOT_FOUND);
}

struct vms_machine *launch_open(const struct launch *launch, pid_t pid, GError **error)
{
	g_autoptr(GError) obstacle = NULL;
	for (unsigned i = 0; i < REACH_TRIES; i++) {
		if (has_ended(pid)) {
			g_set_error(error, VMS_ERROR, VMS_ERROR_CLOSED,
				    "%s ended before it could be reached: see what it printed",
				    launch->words[0]);
			return NULL;
		}
		g_clear_error(&obstacle);
		struct vms_machine *machine = try_to_open(launch, &obstacle);
		if (machine)
			return machine;
		if (!is_early(obstacle)) {
			g_propagate_error(error, g_steal_pointer(&obstacle));
			return NULL;
		}
		g_usleep(REACH_PAUSE_US);
	}
	g_set_error(error, VMS_ERROR, VMS_ERROR_TIMEOUT,
		    "%s cannot be reached within %d s: is it QEMU? %s", launch->words[0],
		    REACH_TRIES * REACH_PAUSE_US / 1000000, obstacle->message);
	return NULL;
}

bool launch_spawn(const struct launch *launch, pid_t *pid, GError **error)
{
	g_autoptr(GError) cause = NULL;
	GPid child;
	if (!g_spawn_async(NULL, launch->words, NULL,
			   G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_SEARCH_PATH |
				   G_SPAWN_CHILD_INHERITS_STDIN | G_SPAWN_LEAVE_DESCRIPTORS_OPEN,
			   NULL, NULL, &child, &cause)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot start %s: %s", launch->words[0],
			    cause->message);
		return false;
	}
	*pid = child;
	return true;
}

struct vms_machine *launch_start(char *const *command, enum launch_agent agent, pid_t *pid,
				 GError **error)
{
	struct launch launch;
	struct vms_machine *machine = NULL;
	if (launch_prepare(command, agent, &launch, error) && launch_spawn(&launch, pid, error))
		machine = launch_open(&launch, *pid, error);
	launch_clear(&launch);
	return machine;
}

void launch_end(pid_t pid)
{
	if (pid == 0)
		return;
	kill(pid, SIGTERM);
	for (unsigned i = 0; i < END_TRIES; i++) {
		if (waitpid(pid, NULL, WNOHANG) != 0)
			return;
		g_usleep(REACH_PAUSE_US);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}
