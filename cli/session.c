/* SPDX-License-Identifier: MIT */
#include "session.h"
#include "base/budget.h"
#include "base/outfile.h"
#include "base/text.h"
#include "streams.h"
#include "values.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Adds the options that name the target of a command. */
static void add_target_options(GOptionContext *context, struct session *session)
{
	const bool running = session->command->options & SESSION_RUNNING;
	const bool may = session->command->options & SESSION_MAY_TARGET;
	const GOptionEntry pid = { "pid",
				   'p',
				   0,
				   G_OPTION_ARG_STRING,
				   &session->pid,
				   "The machine of process PID: a QEMU, or any that uses KVM",
				   "PID" };
	const GOptionEntry guest = {
		"guest",
		0,
		0,
		G_OPTION_ARG_STRING,
		&session->pid,
		"The machine of process PID: a QEMU, or any that uses KVM; auto: the only one",
		"PID|auto"
	};
	const GOptionEntry entries[] = {
		may ? guest : pid,
		{ "domain", 0, 0, G_OPTION_ARG_STRING, &session->domain,
		  "The machine of that name or UUID: a domain of libvirt", "NAME" },
		{ "memory", 0, 0, G_OPTION_ARG_STRING_ARRAY, &session->memory,
		  "With the process: guest-physical PA has SIZE bytes at its VA; may be repeated",
		  "PA:SIZE@VA" },
		{ "qmp", 0, 0, G_OPTION_ARG_STRING, &session->qmp,
		  "The QEMU behind a QMP socket: a path or HOST:PORT", "ADDR" },
		{ "agent", 0, 0, G_OPTION_ARG_FILENAME, &session->agent,
		  "The QEMU with vmscope's agent, by the agent's socket", "PATH" },
		{ "gdb", 0, 0, G_OPTION_ARG_STRING, &session->gdb,
		  "Any gdb remote stub: a path or HOST:PORT", "ADDR" },
		{ "allow-stop", 0, 0, G_OPTION_ARG_NONE, &session->allow_stop,
		  "Stop the machine by its gdb stub even if another client of its monitor, as "
		  "libvirt, sees that",
		  NULL },
		/* If the machine must run, known only so that its refusal can be explained. */
		{ "core", 'c', running ? G_OPTION_FLAG_HIDDEN : 0, G_OPTION_ARG_FILENAME,
		  &session->core, "A core file of vmscope, QEMU, VirtualBox or Linux", "FILE" },
		{ NULL }
	};
	GOptionGroup *group =
		may ? g_option_group_new("guest",
					 "Guest options:", "Show the options that name a guest",
					 NULL, NULL)
		    : g_option_group_new("target", "Target options:",
					 "Show the options that name a target (without one: the "
					 "only machine here)",
					 NULL, NULL);
	g_option_group_add_entries(group, entries);
	g_option_context_add_group(context, group);
}

static void add_description(GOptionContext *context, const struct command *command)
{
	g_autofree char *own = command->explain ? command->explain() : NULL;
	const char *launch =
		command->options & SESSION_TARGET
			? "In place of a target, \"-- qemu-system-x86_64 …\" starts one."
			: NULL;
	g_autofree char *both = own && launch ? g_strconcat(own, "\n", launch, NULL) : NULL;
	g_option_context_set_description(context, both ? both : own ? own : launch);
}

static GOptionContext *make_context(struct session *session, const GOptionEntry *own)
{
	const struct command *command = session->command;
	const bool directory = command->options & SESSION_DIRECTORY;
	const GOptionEntry output[] = {
		{ "output", 'o', 0, G_OPTION_ARG_FILENAME_ARRAY, &session->outputs,
		  directory ? "The directory to write" : "Write to FILE instead of the terminal",
		  directory ? "DIR" : "FILE" },
		{ NULL }
	};
	const GOptionEntry budget[] = {
		{ "budget", 0, 0, G_OPTION_ARG_STRING, &session->budget_seconds,
		  "Processor time for what the guest, its disks or a file holds (default 4); "
		  "memory grows with it",
		  "SECONDS" },
		{ NULL }
	};
	const GOptionEntry common[] = { { "quiet", 'q', 0, G_OPTION_ARG_NONE, &session->quiet,
					  "No warnings, no progress", NULL },
					{ "verbose", 'v', 0, G_OPTION_ARG_NONE, &session->verbose,
					  "Say what is done and how long it takes", NULL },
					{ NULL } };
	const GOptionEntry json[] = {
		{ "json", 0, 0, G_OPTION_ARG_NONE, &session->json, "Print JSON", NULL }, { NULL }
	};
	const GOptionEntry guest[] = {
		{ "symbols", 0, 0, G_OPTION_ARG_STRING_ARRAY, &session->symbols,
		  "ELF file with symbols, loaded at ADDR; may be repeated", "FILE[@ADDR]" },
		{ "sysroot", 0, 0, G_OPTION_ARG_FILENAME, &session->sysroot,
		  "Directory with the guest's files, to name functions of its programs", "DIR" },
		{ "debug-dir", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &session->debug_folders,
		  "Directory with their symbols by build id (default /usr/lib/debug); may be "
		  "repeated",
		  "DIR" },
		{ NULL }
	};
	const bool target = command->options & SESSION_TARGET;
	g_autofree char *usage = g_strconcat(target ? "[TARGET] " : "", command->arguments, NULL);
	g_strchomp(usage);
	GOptionContext *context = g_option_context_new(usage);
	g_option_context_set_summary(context, command->summary);
	if (own)
		g_option_context_add_main_entries(context, own, NULL);
	if (command->options & SESSION_JSON)
		g_option_context_add_main_entries(context, json, NULL);
	if (!(command->options & SESSION_NO_OUTPUT))
		g_option_context_add_main_entries(context, output, NULL);
	g_option_context_add_main_entries(context, common, NULL);
	g_option_context_add_main_entries(context, budget, NULL);
	if (command->options & SESSION_GUEST)
		g_option_context_add_main_entries(context, guest, NULL);
	if (command->options & (SESSION_TARGET | SESSION_MAY_TARGET))
		add_target_options(context, session);
	add_description(context, command);
	return context;
}

static void print_log(enum vms_log_level level, const char *message, void *data)
{
	g_autofree char *escaped = vms_text_escape(message);
	(void)data;
	fprintf(stderr, "vmscope: %s%s\n", level == VMS_LOG_WARNING ? "warning: " : "", escaped);
}

/* Returns why `path` cannot be written, or NULL if it can. */
static const char *find_output_obstacle(const char *path)
{
	g_autofree char *directory = g_path_get_dirname(path);
	bool exists = g_file_test(path, G_FILE_TEST_EXISTS);
	if (g_file_test(path, G_FILE_TEST_IS_DIR))
		return "it is a directory";
	/* A pipe or a device is written directly. A file is replaced, which needs its directory. */
	bool replaced = !exists || g_file_test(path, G_FILE_TEST_IS_REGULAR);
	return access(replaced ? directory : path, W_OK) == 0 ? NULL : g_strerror(errno);
}

static bool is_stdout(const char *path)
{
	return strcmp(path, "-") == 0;
}

/* Sets `prints`, and removes "-" from `outputs`, so that names of files are left. */
static void remove_stdout(struct session *session)
{
	char **kept = session->outputs;
	session->prints = !session->outputs || session->command->options & SESSION_DIRECTORY;
	if (session->prints)
		return;
	for (char **path = session->outputs; *path; path++) {
		if (is_stdout(*path)) {
			session->prints = true;
			g_free(*path);
		} else {
			*kept++ = *path;
		}
	}
	*kept = NULL;
	if (kept == session->outputs)
		g_clear_pointer(&session->outputs, g_strfreev);
}

/* True if the same file is named before `path`. One would replace the other. */
static bool is_repeated(char **outputs, char *const *path)
{
	g_autofree char *name = g_canonicalize_filename(*path, NULL);
	for (char **earlier = outputs; earlier < path; earlier++) {
		g_autofree char *other = g_canonicalize_filename(*earlier, NULL);
		if (strcmp(other, name) == 0)
			return true;
	}
	return false;
}

static bool check_output(const struct session *session, char *const *path, GError **error)
{
	const bool directory = session->command->options & SESSION_DIRECTORY;
	const char *obstacle = directory || is_stdout(*path) ? NULL : find_output_obstacle(*path);
	if (path != session->outputs && !(session->command->options & SESSION_OUTPUTS))
		usage_error(error, "more than one --output");
	else if (**path == '\0' || (directory && is_stdout(*path)))
		usage_error(error, "--output \"%s\": it must be the name of a %s", *path,
			    directory ? "directory" : "file");
	else if (is_repeated(session->outputs, path))
		usage_error(error, "--output %s is given twice", *path);
	else if (obstacle)
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot write %s: %s", *path, obstacle);
	else
		return true;
	return false;
}

/* Checks the outputs first: a run whose results cannot be written should not begin. */
static bool check_outputs(struct session *session, GError **error)
{
	for (char **path = session->outputs; path && *path; path++) {
		if (!check_output(session, path, error))
			return false;
	}
	remove_stdout(session);
	return true;
}

static bool check_running(const struct session *session, GError **error)
{
	if (!session->core || !(session->command->options & SESSION_RUNNING))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
		    "a core file does not run: \"%s\" takes a running machine, not %s",
		    session->command->name, session->core);
	return false;
}

/* Splits off the command after "--", if there is one. */
static bool split_launch(struct session *session, int *argc, char **argv, GError **error)
{
	for (int i = 1; i < *argc; i++) {
		if (strcmp(argv[i], "--") != 0)
			continue;
		session->launch = argv + i + 1;
		argv[i] = NULL;
		*argc = i;
		if (!session->launch[0])
			usage_error(error, "no command after \"--\"");
		return session->launch[0];
	}
	return true;
}

static bool check_directory(const char *option, const char *path, const char *what, GError **error)
{
	if (!path || g_file_test(path, G_FILE_TEST_IS_DIR))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND, "%s %s: it must be a directory with %s",
		    option, path, what);
	return false;
}

/* Makes the files of this host that complete what is found of the guest's programs. */
static bool make_debug_files(struct session *session, GError **error)
{
	const struct vms_debug_files_options options = {
		.size = sizeof(options),
		.sysroot = session->sysroot,
		.folders = (const char *const *)session->debug_folders,
		.asks_servers = true,
		.budget = session->budget,
	};
	if (!(session->command->options & SESSION_GUEST))
		return true;
	if (!check_directory("--sysroot", session->sysroot, "the guest's files", error))
		return false;
	for (char **folder = session->debug_folders; folder && *folder; folder++)
		if (!check_directory("--debug-dir", *folder, "symbols by build id", error))
			return false;
	session->debug_files = vms_debug_files_new(&options, error);
	return session->debug_files;
}

/* Commands that go on while the guest runs get a part of a processor for it, too. */
static bool make_budget(struct session *session, GError **error)
{
	const double usual_seconds = VMS_BUDGET_USUAL_NS / 1e9;
	double seconds = usual_seconds;
	if (!value_number("--budget", session->budget_seconds, 0.1, 1e6, "from 0.1 to 1000000 s",
			  &seconds, error))
		return false;
	const double share = MAX(seconds / usual_seconds, 1);
	const struct vms_budget_options options = {
		.size = sizeof(options),
		.processor_ns = (uint64_t)(seconds * 1e9),
		.bytes = (uint64_t)(share * VMS_BUDGET_USUAL_BYTES),
		.items = (uint64_t)(share * VMS_BUDGET_USUAL_ITEMS),
		.printed = (uint64_t)(share * VMS_BUDGET_USUAL_PRINTED),
		.percent = session->command->options & SESSION_RUNNING ? VMS_BUDGET_RUNNING_PERCENT
								       : 0,
		.jail = "/proc/self/exe",
	};
	session->budget = vms_budget_new(&options, error);
	return session->budget;
}

void session_note_cuts(struct session *session)
{
	g_autofree char *cuts =
		session->budget ? vms_budget_describe_losses(session->budget) : NULL;
	if (!cuts)
		return;
	if (session->command->options & SESSION_RUNNING) {
		vms_log(VMS_LOG_WARNING, "left out, as it costs too much (--budget): %s", cuts);
		return;
	}
	session->status = 1;
	if (!session->loss)
		g_set_error(&session->loss, VMS_ERROR, VMS_ERROR_BUDGET,
			    "left out, as it costs too much (--budget): %s", cuts);
}

bool session_parse(struct session *session, const GOptionEntry *own, int *argc, char ***argv,
		   int min, int max, GError **error)
{
	if (!split_launch(session, argc, *argv, error))
		return false;
	g_autoptr(GOptionContext) context = make_context(session, own);
	if (!g_option_context_parse(context, argc, argv, error))
		return false;
	int given = *argc - 1;
	if (given < min || (max >= 0 && given > max)) {
		usage_error(error, "%s",
			    given < min ? "an argument is missing" : "too many arguments");
		return false;
	}
	session->out = g_string_new(NULL);
	if (session->jailed) { /* all else was done outside of the jail */
		remove_stdout(session);
		return true;
	}
	if (session->quiet)
		vms_log_set_handler(NULL, NULL, VMS_LOG_WARNING);
	else
		vms_log_set_handler(print_log, NULL,
				    session->verbose ? VMS_LOG_DEBUG : VMS_LOG_WARNING);
	return check_running(session, error) && make_budget(session, error) &&
	       check_outputs(session, error) && make_debug_files(session, error);
}

void session_note_loss(struct session *session, GError *loss)
{
	const char *warned = session->quiet || vms_machine_resets(session->machine) > 0
				     ? NULL
				     : vms_guest_why(session->guest);
	session->status = 1;
	if (session->loss || (warned && strstr(warned, loss->message)))
		g_error_free(loss);
	else
		session->loss = loss;
}

void session_table(struct session *session, const struct vms_table *table)
{
	if (session->json)
		vms_table_json(table, session->out);
	else
		vms_table_text(table, session->out);
}

bool session_check_binary(const struct session *session, const struct vms_exporter *exporter,
			  GError **error)
{
	if (!session->prints || !exporter || !exporter->is_binary || !isatty(STDOUT_FILENO))
		return true;
	usage_error(error, "--format %s is not for a terminal: write -o FILE%s", exporter->name,
		    exporter->suffix);
	return false;
}

static bool write_file(const char *path, const GString *text, GError **error)
{
	g_autoptr(vms_outfile) file = vms_outfile_open(path, error);
	return file && vms_outfile_write(file, text->str, text->len, error) &&
	       vms_outfile_commit(file, error);
}

/* Lets the machine go, and ends a QEMU that this session started. */
static void close_machine(struct session *session)
{
	g_clear_pointer(&session->guest, vms_guest_unref);
	g_clear_pointer(&session->machine, vms_machine_unref);
	if (session->launched)
		vms_launch_end(session->launched);
	g_clear_pointer(&session->launched, vms_launch_free);
}

bool session_finish(struct session *session, GError **error)
{
	session_note_cuts(session);
	/* Comes first: a pager may delay the printing for hours, and nothing must be held then. */
	close_machine(session);
	if (session->loss && session->out->len == 0)
		return true;
	if (session->outputs &&
	    !(session->command->options & (SESSION_OUTPUTS | SESSION_DIRECTORY)))
		return write_file(session->outputs[0], session->out, error);
	return !session->prints || streams_print(session->out, error);
}

void session_clear(struct session *session)
{
	close_machine(session);
	g_free(session->pid);
	g_free(session->domain);
	g_free(session->qmp);
	g_free(session->agent);
	g_free(session->gdb);
	g_free(session->core);
	g_strfreev(session->symbols);
	g_free(session->sysroot);
	g_strfreev(session->debug_folders);
	vms_debug_files_unref(session->debug_files);
	vms_budget_unref(session->budget);
	g_free(session->budget_seconds);
	g_strfreev(session->memory);
	g_strfreev(session->outputs);
	g_clear_error(&session->loss);
	if (session->out)
		g_string_free(session->out, TRUE);
	g_strfreev(session->words);
	if (!session->jailed)
		vms_log_set_handler(NULL, NULL, VMS_LOG_WARNING);
}

bool session_vcpu(struct session *session, const char *text, unsigned *ret, GError **error)
{
	unsigned n = vms_machine_vcpus(session->machine);
	guint64 number;
	if (n == 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND, "%s reports no vCPUs",
			    vms_machine_info(session->machine)->name);
		return false;
	}
	if (!text)
		return true;
	if (!g_ascii_string_to_unsigned(text, 10, 0, n - 1, &number, NULL)) {
		usage_error(error, "no vCPU %s: this machine has 0 to %u", text, n - 1);
		return false;
	}
	*ret = (unsigned)number;
	return true;
}

bool session_vcpus(struct session *session, const char *text, unsigned *first, unsigned *last,
		   GError **error)
{
	*first = 0;
	if (!session_vcpu(session, text, first, error))
		return false;
	*last = text ? *first : vms_machine_vcpus(session->machine) - 1;
	return true;
}
