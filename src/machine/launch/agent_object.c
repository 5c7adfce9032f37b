/* SPDX-License-Identifier: MIT */
/*
 * QEMU's plugin interface changes, and a QEMU takes only objects that were built for what it has.
 * Neither its version nor its symbols tell that reliably, and the command may be a script. So QEMU
 * is offered the objects, the oldest first. The agent refuses to work without a socket: where QEMU
 * says so, it has taken the object; else it says what is wrong with it (plugins/loader.c of QEMU).
 */
#include "machine/launch/agent_object.h"

#include "base/text.h"
#include "machine/launch/qemu_command.h"
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MS  10000
#define ANSWER_MAX 16384

/* By the interface that they are built for, the oldest first. */
static const char *const objects[] = { "libvmscope-agent-api4.so", "libvmscope-agent-api7.so" };

static char *find_object(const char *name, const char *folder, GError **error)
{
	const char *told = g_getenv("VMSCOPE_AGENT_DIR");
	g_autofree char *path = g_build_filename(told	  ? told
						 : folder ? folder
							  : VMS_AGENT_DIR,
						 name, NULL);
	if (g_file_test(path, G_FILE_TEST_IS_REGULAR))
		return g_canonicalize_filename(path, NULL);
	g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
		    "the agent's object is not at %s: install vmscope, or name the objects' "
		    "directory in VMSCOPE_AGENT_DIR",
		    path);
	return NULL;
}

/* ---- asking QEMU -------------------------------------------------------------- */

/* Whatever becomes of us, and whatever the command has started, can be ended with it. */
static void lead_group(gpointer data)
{
	(void)data;
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* What comes out of `fd` until its end, NULL where that takes too long. */
static char *read_answer(int fd)
{
	g_autoptr(GString) text = g_string_new(NULL);
	gint64 deadline = g_get_monotonic_time() + ANSWER_MS * 1000;
	char part[1024];
	ssize_t size = 1;
	while (size > 0) {
		gint64 left = (deadline - g_get_monotonic_time()) / 1000;
		struct pollfd wait = { fd, POLLIN, 0 };
		if (left <= 0 || poll(&wait, 1, (int)left) == 0)
			return NULL;
		size = read(fd, part, sizeof(part));
		if (size > 0 && text->len < ANSWER_MAX)
			g_string_append_len(text, part, size);
	}
	return g_string_free(g_steal_pointer(&text), FALSE);
}

/* Runs the words; what they write to stderr. */
static char *run(char **words, GError **error)
{
	g_autoptr(GError) cause = NULL;
	GPid pid;
	int fd;
	if (!g_spawn_async_with_pipes(NULL, words, NULL,
				      G_SPAWN_SEARCH_PATH | G_SPAWN_DO_NOT_REAP_CHILD |
					      G_SPAWN_STDOUT_TO_DEV_NULL,
				      lead_group, NULL, &pid, NULL, NULL, &fd, &cause)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot start %s: %s", words[0],
			    cause->message);
		return NULL;
	}
	char *answer = read_answer(fd);
	kill(-pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
	if (!answer)
		g_set_error(error, VMS_ERROR, VMS_ERROR_TIMEOUT,
			    "%s does not say within %d s which plugins it takes: is it QEMU, or a "
			    "script that hands on its options to QEMU?",
			    words[0], ANSWER_MS / 1000);
	return answer;
}

enum reaction { TAKEN, TOO_NEW, TOO_OLD, NO_PLUGINS, OTHER_MACHINE, UNCLEAR };

/* What QEMU says of an object, and what of that it is known by. */
static const struct {
	const char *says;
	enum reaction means;
} reactions[] = {
	{ "is not supported: machines of", OTHER_MACHINE }, /* our agent says */
	{ "qemu_plugin_install returned error code", TAKEN },
	{ "supports only a minimum version of", TOO_NEW },
	{ "supports only up to version", TOO_OLD },
	{ "undefined symbol", TOO_OLD },
	{ "plugin interface not enabled", NO_PLUGINS },
	{ "-plugin: invalid option", NO_PLUGINS },
};

static enum reaction reaction_of(const char *answer)
{
	for (size_t i = 0; i < G_N_ELEMENTS(reactions); i++) {
		if (strstr(answer, reactions[i].says))
			return reactions[i].means;
	}
	return UNCLEAR;
}

/* What the QEMU of the command says to an object, without the options of its machine. */
static char *offer(const char *const *command, const char *object, bool no_machine, GError **error)
{
	g_autoptr(GPtrArray) words = g_ptr_array_new();
	g_autofree char *plugin = vms_qemu_command_escape(object);
	for (size_t i = 0; i < vms_qemu_command_count_leading_words(command); i++)
		g_ptr_array_add(words, (char *)command[i]);
	if (no_machine) {
		g_ptr_array_add(words, (char *)"-machine");
		g_ptr_array_add(words, (char *)"none");
	}
	g_ptr_array_add(words, (char *)"-plugin");
	g_ptr_array_add(words, plugin);
	g_ptr_array_add(words, NULL);
	return run((char **)words->pdata, error);
}

/* The first line of what QEMU says. */
static char *quote(const char *answer)
{
	g_autofree char *line = g_strndup(answer, strcspn(answer, "\n"));
	vms_text_clean(line);
	return line[0] ? g_strdup_printf("it says \"%s\"", line) : g_strdup("it says nothing");
}

static void set_refusal(const char *program, enum reaction reaction, const char *answer,
			GError **error)
{
	g_autofree char *quoted = quote(answer);
	if (reaction == NO_PLUGINS)
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "%s was built without plugins (--enable-plugins), one of which the "
			    "agent is",
			    program);
	else if (reaction == OTHER_MACHINE)
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "%s has another processor than the agent knows: %s", program, quoted);
	else if (reaction == TOO_OLD)
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "%s is too old for the agent, which needs QEMU 9.2 or newer: %s",
			    program, quoted);
	else if (reaction == TOO_NEW)
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "%s is too new for this vmscope's agent: %s", program, quoted);
	else
		g_set_error(error, VMS_ERROR, VMS_ERROR_PROTOCOL,
			    "%s does not say which plugins it takes: %s; is it QEMU, or a "
			    "script that hands on its options to QEMU?",
			    program, quoted);
}

/* A script may give QEMU options of a machine, which the machine "none" does not take. */
static bool ask(const char *const *command, const char *object, char **answer, enum reaction *ret,
		GError **error)
{
	*ret = UNCLEAR;
	for (int no_machine = 1; no_machine >= 0 && *ret == UNCLEAR; no_machine--) {
		g_free(*answer);
		*answer = offer(command, object, no_machine, error);
		if (!*answer)
			return false;
		*ret = reaction_of(*answer);
	}
	return true;
}

char *vms_agent_object_find(const char *const *command, const char *folder, GError **error)
{
	enum reaction reaction = TOO_NEW;
	g_autofree char *answer = NULL;
	for (size_t i = 0; i < G_N_ELEMENTS(objects) && reaction == TOO_NEW; i++) {
		g_autofree char *object = find_object(objects[i], folder, error);
		if (!object || !ask(command, object, &answer, &reaction, error))
			return NULL;
		if (reaction == TAKEN)
			return g_steal_pointer(&object);
	}
	set_refusal(command[0], reaction, answer, error);
	return NULL;
}
