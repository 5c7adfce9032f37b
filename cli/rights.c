/* SPDX-License-Identifier: MIT */
#include "rights.h"
#include <cap-ng.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <vmscope/error.h>

/* What a command does with other processes and files. */
enum {
	FILES = 1 << 0,	  /* reads files that its user names, and writes results */
	MACHINE = 1 << 1, /* looks into the process of a machine */
	HOST = 1 << 2,	  /* samples processes of this host */
	BROWSER = 1 << 3, /* starts a browser as another user */
};

static const struct {
	const char *command;
	unsigned does;
} commands[] = {
	{ "annotate", FILES | MACHINE }, { "calls", FILES | MACHINE },
	{ "cfg", FILES | MACHINE },	 { "core", FILES | MACHINE },
	{ "core convert", FILES },	 { "core info", FILES },
	{ "coverage", FILES | MACHINE }, { "diff", FILES },
	{ "disas", FILES | MACHINE },	 { "dmesg", FILES | MACHINE },
	{ "flow", FILES | MACHINE },	 { "flow report", FILES },
	{ "info", FILES | MACHINE },	 { "list", MACHINE },
	{ "mem", FILES | MACHINE },	 { "modules", FILES | MACHINE },
	{ "ps", FILES | MACHINE },	 { "record", FILES | MACHINE | HOST },
	{ "regs", FILES | MACHINE },	 { "report", FILES | BROWSER },
	{ "run", FILES | MACHINE },	 { "sample", FILES | MACHINE },
	{ "stack", FILES | MACHINE },	 { "symbol", FILES | MACHINE },
	{ "top", FILES | MACHINE },	 { "trace", FILES | MACHINE },
};

static const struct {
	int capability;
	unsigned needed_by;
} needs[] = {
	/* Files of other users are read, and results written into their folders. */
	{ CAP_DAC_READ_SEARCH, FILES | MACHINE | HOST },
	/* The sockets of a QEMU that runs as its own user take a connection, which is a write. */
	{ CAP_DAC_OVERRIDE, FILES | MACHINE },
	{ CAP_FOWNER, FILES },
	/* The memory of a QEMU is read, vCPUs of a KVM process are held, /proc is read. */
	{ CAP_SYS_PTRACE, MACHINE | HOST },
	/* Mapped files are opened by /proc/PID/map_files. */
	{ CAP_CHECKPOINT_RESTORE, MACHINE | HOST },
	/* A thread that holds a guest runs before others. */
	{ CAP_SYS_NICE, MACHINE | HOST },
	/* The kernel and processes of other users are sampled; its addresses have names. */
	{ CAP_PERFMON, HOST },
	{ CAP_SYSLOG, HOST },
	/* The rings of samples are larger than what a user may lock in memory. */
	{ CAP_IPC_LOCK, HOST },
	/* The browser runs as the user who has called sudo. */
	{ CAP_SETUID, BROWSER },
	{ CAP_SETGID, BROWSER },
};

static unsigned find_deeds(const char *command)
{
	for (size_t i = 0; i < G_N_ELEMENTS(commands); i++)
		if (strcmp(commands[i].command, command) == 0)
			return commands[i].does;
	return 0;
}

/*
 * Returns the capability, or what stood for it before Linux 5.8 (CAP_PERFMON) and 5.9
 * (CAP_CHECKPOINT_RESTORE).
 */
static unsigned translate(int capability)
{
	const bool is_known = prctl(PR_CAPBSET_READ, capability) >= 0;
	return (unsigned)(is_known ? capability : CAP_SYS_ADMIN);
}

static bool names_program(char *const *argv)
{
	while (*argv && strcmp(*argv, "--") != 0)
		argv++;
	return *argv;
}

bool rights_drop_for(const char *command, char *const *argv, GError **error)
{
	const unsigned does = find_deeds(command);
	unsigned kept[G_N_ELEMENTS(needs)], n = 0;
	if (names_program(argv) || capng_get_caps_process() != 0 ||
	    capng_have_capabilities(CAPNG_SELECT_CAPS) == CAPNG_NONE)
		return true;
	for (size_t i = 0; i < G_N_ELEMENTS(needs); i++) {
		const unsigned capability = translate(needs[i].capability);
		if ((needs[i].needed_by & does) &&
		    capng_have_capability(CAPNG_PERMITTED, capability))
			kept[n++] = capability;
	}
	capng_clear(CAPNG_SELECT_CAPS);
	for (unsigned i = 0; i < n; i++)
		capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, kept[i]);
	if (capng_apply(CAPNG_SELECT_CAPS) == 0)
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_IO,
		    "cannot drop the rights that \"%s\" does not need", command);
	return false;
}
