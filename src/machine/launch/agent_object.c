/* SPDX-License-Identifier: MIT */
/*
 * QEMU's plugin interface changes, and a QEMU loads only objects that were built for its version of
 * the interface. Neither QEMU's version nor its symbols show that version reliably, and the command
 * may be a script. So QEMU is started with each object, the oldest first. The agent refuses to
 * start without a socket. If QEMU reports this, it has loaded the object. Otherwise it reports what
 * is wrong with the object (plugins/loader.c of QEMU).
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

/* Sorted by the interface that they are built for, the oldest first. */
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
	g_set_error(
		error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
		"the agent's object is missing at %s: install vmscope, or set VMSCOPE_AGENT_DIR "
		"to the directory of the objects",
		path);
	return NULL;
}

/* ---- testing an object with QEMU ---------------------------------------------- */

/*
 * Called in the child. The child ends when this process ends. All processes that the child starts
 * can be ended as one group.
 */
static void become_group_leader(gpointer data)
{
	(void)data;
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* Reads `fd` until its end. NULL if that takes too long. */
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

/* Runs a command and returns what it writes to stderr. */
static char *run_and_read_stderr(char **words, GError **error)
{
	g_autoptr(GError) cause = NULL;
	GPid pid;
	int fd;
	if (!g_spawn_async_with_pipes(NULL, words, NULL,
				      G_SPAWN_SEARCH_PATH | G_SPAWN_DO_NOT_REAP_CHILD |
					      G_SPAWN_STDOUT_TO_DEV_NULL,
				      become_group_leader, NULL, &pid, NULL, NULL, &fd, &cause)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot start %s: %s", words[0],
			    cause->message);
		return NULL;
	}
	char *answer = read_answer(fd);
	kill(-pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
	if (!answer)
		g_set_error(
			error, VMS_ERROR, VMS_ERROR_TIMEOUT,
			"cannot test the agent with %s: it did not end within %d s; is it QEMU, "
			"or a script that passes its options on to QEMU?",
			words[0], ANSWER_MS / 1000);
	return answer;
}

enum reaction { LOADED, TOO_NEW, TOO_OLD, NO_PLUGINS, OTHER_MACHINE, UNCLEAR };

/* Texts in QEMU's messages, and what they mean. */
static const struct {
	const char *text;
	enum reaction reaction;
} reactions[] = {
	{ "is not supported: machines of", OTHER_MACHINE }, /* from agent/plugin.c */
	{ "qemu_plugin_install returned error code", LOADED },
	{ "supports only a minimum version of", TOO_NEW },
	{ "supports only up to version", TOO_OLD },
	{ "undefined symbol", TOO_OLD },
	{ "plugin interface not enabled", NO_PLUGINS },
	{ "-plugin: invalid option", NO_PLUGINS },
};

static enum reaction classify_answer(const char *answer)
{
	for (size_t i = 0; i < G_N_ELEMENTS(reactions); i++) {
		if (strstr(answer, reactions[i].text))
			return reactions[i].reaction;
	}
	return UNCLEAR;
}

/* Starts the command's QEMU with an object, without the command's options. Returns its messages. */
static char *offer_object(const char *const *command, const char *object, bool no_machine,
			  GError **error)
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
	return run_and_read_stderr((char **)words->pdata, error);
}

/* Quotes the first line of QEMU's messages. */
static char *quote_answer(const char *answer)
{
	g_autofree char *line = g_strndup(answer, strcspn(answer, "\n"));
	vms_text_clean(line);
	return line[0] ? g_strdup_printf("it printed \"%s\"", line)
		       : g_strdup("it printed nothing");
}

static void set_refusal(const char *program, enum reaction reaction, const char *answer,
			GError **error)
{
	g_autofree char *quoted = quote_answer(answer);
	if (reaction == NO_PLUGINS)
		g_set_error(
			error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			"%s was built without plugins (--enable-plugins), so it cannot load the "
			"agent",
			program);
	else if (reaction == OTHER_MACHINE)
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "%s cannot load the agent, which does not support its processor: %s",
			    program, quoted);
	else if (reaction == TOO_OLD)
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "%s is too old for the agent, which needs QEMU 9.2 or newer: %s",
			    program, quoted);
	else if (reaction == TOO_NEW)
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "%s is too new for this vmscope's agent: %s", program, quoted);
	else
		g_set_error(
			error, VMS_ERROR, VMS_ERROR_PROTOCOL,
			"cannot test the agent with %s: %s; is it QEMU, or a script that passes "
			"its options on to QEMU?",
			program, quoted);
}

/*
 * Tests an object, first with the machine "none". If the answer is unclear, tests it without that:
 * a script may add options that the machine "none" does not accept.
 */
static bool test_object(const char *const *command, const char *object, char **answer,
			enum reaction *ret, GError **error)
{
	*ret = UNCLEAR;
	for (int no_machine = 1; no_machine >= 0 && *ret == UNCLEAR; no_machine--) {
		g_free(*answer);
		*answer = offer_object(command, object, no_machine, error);
		if (!*answer)
			return false;
		*ret = classify_answer(*answer);
	}
	return true;
}

char *vms_agent_object_find(const char *const *command, const char *folder, GError **error)
{
	enum reaction reaction = TOO_NEW;
	g_autofree char *answer = NULL;
	for (size_t i = 0; i < G_N_ELEMENTS(objects) && reaction == TOO_NEW; i++) {
		g_autofree char *object = find_object(objects[i], folder, error);
		if (!object || !test_object(command, object, &answer, &reaction, error))
			return NULL;
		if (reaction == LOADED)
			return g_steal_pointer(&object);
	}
	set_refusal(command[0], reaction, answer, error);
	return NULL;
}
