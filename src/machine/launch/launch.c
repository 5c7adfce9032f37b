/* SPDX-License-Identifier: MIT */
#include <vmscope/launch.h>

#include "base/options.h"
#include "machine/launch/agent_object.h"
#include "machine/launch/qemu_command.h"
#include "machine/launch/socket_folder.h"
#include "machine/qemu/cmdline.h"
#include "machine/qemu/qmp.h"
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vmscope/log.h>

/* How many processes of vmscope can use a QEMU at once: a QMP socket serves one. */
#define QMP_SOCKETS 4

#define REACH_TRIES    1000
#define REACH_PAUSE_US 10000
#define END_TRIES      500

struct vms_launch {
	char **words; /* the command with the added options */
	char *qmp;    /* path of the first socket; vmscope uses the last one that is free */
	char *agent;  /* path of the agent's socket, or NULL without agent */
	bool paused;  /* the machine waits for vms_launch_let_go */
	pid_t pid;    /* of the child, or 0 */
};

/* ---- the command -------------------------------------------------------- */

static void add_word(struct vms_launch *launch, const char *word)
{
	size_t n = g_strv_length(launch->words);
	launch->words = g_renew(char *, launch->words, n + 2);
	launch->words[n] = g_strdup(word);
	launch->words[n + 1] = NULL;
}

bool vms_launch_has_option(const char *const *command, const char *name)
{
	for (command += vms_qemu_command_count_leading_words(command); *command; command++) {
		if (g_str_has_prefix(*command, "-") &&
		    strcmp(*command + 1 + ((*command)[1] == '-'), name) == 0)
			return true;
	}
	return false;
}

/* Plugins work only with TCG. Other accelerators load them, but never call them. */
static bool check_accelerator(const char *const *command, GError **error)
{
	struct vms_cmdline cmdline;
	vms_cmdline_parse((char **)command, &cmdline);
	bool is_tcg = g_strcmp0(cmdline.accelerator, "tcg") == 0;
	if (!is_tcg)
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "the agent does not work with -accel %s, because QEMU does not execute "
			    "the guest's code itself: it needs -accel tcg",
			    cmdline.accelerator ? cmdline.accelerator : "?");
	vms_cmdline_clear(&cmdline);
	return is_tcg;
}

/* Finds the agent's object for a command. *object is NULL if QEMU is started without the agent. */
static bool choose_agent(const char *const *command, const struct vms_launch_options *options,
			 char **object, GError **error)
{
	g_autoptr(GError) obstacle = NULL;
	*object = NULL;
	if (options->agent == VMS_LAUNCH_WITHOUT_AGENT)
		return true;
	bool is_tcg = check_accelerator(command, &obstacle);
	if (is_tcg)
		*object = vms_agent_object_find(command, options->agent_folder, &obstacle);
	if (*object)
		return true;
	if (options->agent == VMS_LAUNCH_NEED_AGENT ||
	    g_error_matches(obstacle, VMS_ERROR, VMS_ERROR_IO)) {
		g_propagate_error(error, g_steal_pointer(&obstacle));
		return false;
	}
	bool is_surprise = is_tcg && options->agent == VMS_LAUNCH_TRY_AGENT;
	vms_log(is_surprise ? VMS_LOG_WARNING : VMS_LOG_INFO,
		"QEMU is started without the agent: %s", obstacle->message);
	return true;
}

static void add_qmp(struct vms_launch *launch, const struct vms_socket_folder *folder)
{
	for (unsigned i = 0; i < QMP_SOCKETS; i++) {
		g_autofree char *name = g_strdup_printf("qmp%u", i);
		g_autofree char *path = vms_socket_folder_path(folder, name);
		g_autofree char *escaped = vms_qemu_command_escape(path);
		g_autofree char *option = g_strdup_printf("unix:%s,server=on,wait=off", escaped);
		add_word(launch, "-qmp");
		add_word(launch, option);
		if (i == 0)
			launch->qmp = g_steal_pointer(&path);
	}
}

static void add_agent(struct vms_launch *launch, const struct vms_socket_folder *folder,
		      const char *object)
{
	launch->agent = vms_socket_folder_path(folder, "agent");
	g_autofree char *file = vms_qemu_command_escape(object),
			*escaped = vms_qemu_command_escape(launch->agent);
	g_autofree char *option = g_strdup_printf("%s,socket=%s", file, escaped);
	add_word(launch, "-plugin");
	add_word(launch, option);
}

/* Adds -S, unless the command has it already: then its user starts the machine. */
static void add_pause(struct vms_launch *launch, const char *const *command)
{
	if (vms_launch_has_option(command, "S"))
		return;
	add_word(launch, "-S");
	launch->paused = true;
}

struct vms_launch *vms_launch_new(const char *const *command,
				  const struct vms_launch_options *given, GError **error)
{
	struct vms_launch_options options;
	struct vms_socket_folder folder = { 0 };
	g_autofree char *object = NULL;
	struct vms_launch *launch = NULL;
	if (vms_options_copy(given, &options, sizeof(options), "vms_launch_options", error) &&
	    vms_socket_folder_open(&folder, error) &&
	    choose_agent(command, &options, &object, error)) {
		launch = g_new0(struct vms_launch, 1);
		launch->words = g_strdupv((char **)command);
		add_qmp(launch, &folder);
		if (object)
			add_agent(launch, &folder, object);
		if (options.paused)
			add_pause(launch, command);
		vms_log(VMS_LOG_INFO, "QMP sockets %s and following, agent %s", launch->qmp,
			object ? object : "none");
	}
	vms_socket_folder_clear(&folder);
	return launch;
}

void vms_launch_free(struct vms_launch *launch)
{
	if (!launch)
		return;
	g_strfreev(launch->words);
	g_free(launch->qmp);
	g_free(launch->agent);
	g_free(launch);
}

char *const *vms_launch_command(const struct vms_launch *launch)
{
	return launch->words;
}

bool vms_launch_has_agent(const struct vms_launch *launch)
{
	return launch->agent;
}

/* ---- the child ------------------------------------------------------------ */

bool vms_launch_start(struct vms_launch *launch, GError **error)
{
	g_autoptr(GError) cause = NULL;
	if (launch->pid) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
			    "cannot start %s: it has already been started as process %d",
			    launch->words[0], (int)launch->pid);
		return false;
	}
	if (!g_spawn_async(NULL, launch->words, NULL,
			   G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_SEARCH_PATH |
				   G_SPAWN_CHILD_INHERITS_STDIN | G_SPAWN_LEAVE_DESCRIPTORS_OPEN,
			   NULL, NULL, &launch->pid, &cause)) {
		launch->pid = 0;
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot start %s: %s", launch->words[0],
			    cause->message);
		return false;
	}
	return true;
}

pid_t vms_launch_pid(const struct vms_launch *launch)
{
	return launch->pid;
}

/* True if a child has ended. Does not collect its exit status, which the caller waits for. */
static bool has_ended(pid_t pid)
{
	siginfo_t info = { 0 };
	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid;
}

static struct vms_machine *try_to_open(const struct vms_launch *launch, GError **error)
{
	return launch->agent ? vms_machine_open_agent(launch->agent, error)
			     : vms_machine_open_qmp(launch->qmp, error);
}

/* True if a socket does not exist yet, or QEMU does not listen on it yet. */
static bool is_early(const GError *error)
{
	return g_error_matches(error, VMS_ERROR, VMS_ERROR_CLOSED) ||
	       g_error_matches(error, VMS_ERROR, VMS_ERROR_NOT_FOUND);
}

struct vms_machine *vms_launch_open(const struct vms_launch *launch, GError **error)
{
	g_autoptr(GError) obstacle = NULL;
	if (!launch->pid) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_STATE,
			    "cannot open the machine of %s: the command was not started",
			    launch->words[0]);
		return NULL;
	}
	for (unsigned i = 0; i < REACH_TRIES; i++) {
		if (has_ended(launch->pid)) {
			g_set_error(error, VMS_ERROR, VMS_ERROR_CLOSED,
				    "%s ended before its sockets were open: see what it printed",
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
		    "cannot reach %s within %d s: %s; is it QEMU?", launch->words[0],
		    REACH_TRIES * REACH_PAUSE_US / 1000000, obstacle->message);
	return NULL;
}

bool vms_launch_let_go(struct vms_launch *launch, GError **error)
{
	struct vms_qmp qmp = { 0 };
	vms_autojson *answer = NULL;
	if (!launch->paused)
		return true;
	if (vms_stream_connect(&qmp.stream, "QMP socket", launch->qmp, error) &&
	    vms_qmp_open(&qmp, error))
		answer = vms_qmp_execute(&qmp, "cont", NULL, -1, error);
	vms_qmp_close(&qmp);
	launch->paused = !answer;
	return answer;
}

void vms_launch_end(struct vms_launch *launch)
{
	pid_t pid = launch->pid;
	launch->pid = 0;
	if (!pid)
		return;
	if (!has_ended(pid))
		kill(pid, SIGTERM);
	for (unsigned i = 0; i < END_TRIES; i++) {
		if (waitpid(pid, NULL, WNOHANG) != 0)
			return;
		g_usleep(REACH_PAUSE_US);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}
