/* SPDX-License-Identifier: MIT */
#include "commands.h"
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { EXIT_DONE, EXIT_FAILED, EXIT_USAGE };

static const struct command *const commands[] = {
	&command_sample, &command_list,	 &command_info,	   &command_stack,
	&command_regs,	 &command_ps,	 &command_modules, &command_symbol,
	&command_mem,	 &command_disas, &command_dmesg,   &command_run,
};

static void print_help(FILE *to)
{
	fputs("Usage: vmscope COMMAND [TARGET] [OPTIONS]\n"
	      "Looks into running virtual machines, with nothing installed in them.\n\n"
	      "Commands:\n",
	      to);
	for (size_t i = 0; i < G_N_ELEMENTS(commands); i++)
		fprintf(to, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
	fputs("\n"
	      "TARGET is one of: -p PID (a QEMU), --qmp ADDR, --gdb ADDR, or, at the end,\n"
	      "-- COMMAND to start a QEMU. With none: the only machine of this host.\n"
	      "\"vmscope COMMAND --help\" tells the options of a command.\n",
	      to);
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
		if (strcmp(name, commands[i]->name) == 0)
			return commands[i];
	}
	return NULL;
}

static bool is_usage(const GError *error)
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
	bool done = command->run(&session, argc, argv, &error) && session_finish(&session, &error);
	session_clear(&session);
	if (done)
		return EXIT_DONE;
	fprintf(stderr, "vmscope: %s\n", error->message);
	if (!is_usage(error))
		return EXIT_FAILED;
	fprintf(stderr, "Try \"%s --help\".\n", program);
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	setlocale(LC_CTYPE, "");
	signal(SIGPIPE, SIG_IGN);
	const char *name = argc > 1 ? argv[1] : "";
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
		print_help(stdout);
		return EXIT_DONE;
	}
	if (strcmp(name, "--version") == 0) {
		puts("vmscope " VMS_VERSION);
		return EXIT_DONE;
	}
	const struct command *command = find_command(name);
	if (command)
		return run_command(command, argc - 1, argv + 1);
	if (name[0])
		fprintf(stderr, "vmscope: no command \"%s\"\n", name);
	print_help(stderr);
	return EXIT_USAGE;
}
