/* SPDX-License-Identifier: MIT */
#include "base/text.h"
#include "commands.h"
#include "jail_services.h"
#include "streams.h"
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_DONE, EXIT_FAILED, EXIT_USAGE };

static const struct command *const commands[] = {
	&command_sample,       &command_calls,	     &command_list,   &command_info,
	&command_stack,	       &command_regs,	     &command_ps,     &command_modules,
	&command_symbol,       &command_mem,	     &command_disas,  &command_cfg,
	&command_flow,	       &command_flow_report, &command_trace,  &command_dmesg,
	&command_run,	       &command_coverage,    &command_core,   &command_core_info,
	&command_core_convert, &command_record,	     &command_report, &command_diff,
	&command_annotate,     &command_top,
};

static GString *make_help(void)
{
	GString *text = g_string_new("Usage: vmscope COMMAND [TARGET] [OPTIONS]\n"
				     "Looks into running virtual machines, with nothing installed "
				     "in them.\n\n"
				     "Commands:\n");
	for (size_t i = 0; i < G_N_ELEMENTS(commands); i++)
		g_string_append_printf(text, "  %-12s  %s\n", commands[i]->name,
				       commands[i]->summary);
	g_string_append(
		text,
		"\n"
		"TARGET is one of: -p PID (a QEMU, or a process that uses KVM), --domain NAME, "
		"--qmp ADDR,\n"
		"--agent PATH, --gdb ADDR, -c FILE (a core file), or, at the end, -- COMMAND "
		"to start a\n"
		"QEMU. With none: the only machine of this host.\n"
		"\"vmscope COMMAND --help\" tells the options of a command.\n");
	return text;
}

/*
 * Prints for g_print, or ends the process. GLib prints a command's help by g_print and then ends
 * with status 0, even if the help could not be written.
 */
static void print_or_end(const char *text)
{
	g_autoptr(GString) whole = g_string_new(text);
	g_autoptr(GError) error = NULL;
	if (streams_print(whole, &error))
		return;
	fprintf(stderr, "vmscope: %s\n", error->message);
	exit(EXIT_FAILED);
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
		if (strcmp(name, commands[i]->name) == 0)
			return commands[i];
	}
	return NULL;
}

/* Returns the command that the first one or two words name, and sets *words to their number. */
static const struct command *parse_command(int argc, char **argv, int *words)
{
	g_autofree char *both = argc > 2 ? g_strjoin(" ", argv[1], argv[2], NULL) : NULL;
	const struct command *command = both ? find_command(both) : NULL;
	*words = command ? 2 : 1;
	return command ? command : find_command(argv[1]);
}

static bool is_usage_error(const GError *error)
{
	return error->domain == G_OPTION_ERROR ||
	       g_error_matches(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT);
}

static int run_command(const struct command *command, int argc, char **argv)
{
	struct session session = { .command = command };
	g_autoptr(GError) error = NULL;
	g_autofree char *program = g_strconcat("vmscope ", command->name, NULL);
	g_set_prgname(program);
	if (command->run(&session, argc, argv, &error) && session_finish(&session, &error))
		error = g_steal_pointer(&session.loss);
	session_clear(&session);
	if (!error)
		return session.status;
	bool usage = is_usage_error(error);
	g_autofree char *help = usage ? g_strdup_printf(" (see \"%s --help\")", program) : NULL;
	g_autofree char *message = vms_text_escape(error->message);
	fprintf(stderr, "vmscope: %s%s\n", message, usage ? help : "");
	return usage ? EXIT_USAGE : EXIT_FAILED;
}

int main(int argc, char **argv)
{
	int status;
	if (serve_as_jail(argc, argv, &status))
		return status;
	if (!streams_prepare())
		return EXIT_FAILED;
	setlocale(LC_CTYPE, "");
	signal(SIGXFSZ, SIG_IGN); /* to write beyond a limit is then an error (EFBIG) */
	const char *name = argc > 1 ? argv[1] : "";
	const bool help = strcmp(name, "help") == 0;
	g_set_print_handler(print_or_end);
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || (help && argc == 2)) {
		g_autoptr(GString) text = make_help();
		g_print("%s", text->str);
		return EXIT_DONE;
	}
	if (strcmp(name, "--version") == 0) {
		g_print("vmscope " VMS_VERSION "\n");
		return EXIT_DONE;
	}
	if (help) { /* "help COMMAND" is "COMMAND --help" */
		argc--;
		argv++;
		name = argv[1];
	}
	int words;
	const struct command *command = argc > 1 ? parse_command(argc, argv, &words) : NULL;
	if (command && help)
		return run_command(command, 2, (char *[]) { argv[0], (char[]) { "--help" }, NULL });
	if (command)
		return run_command(command, argc - words, argv + words);
	if (name[0]) {
		g_autofree char *escaped = vms_text_escape(name);
		fprintf(stderr, "vmscope: no command \"%s\" (see \"vmscope --help\")\n", escaped);
		return EXIT_USAGE;
	}
	g_autoptr(GString) text = make_help();
	fputs(text->str, stderr);
	return EXIT_USAGE;
}
