/* SPDX-License-Identifier: MIT */
/* What every command shares: its options, the machine it opens, where its output goes. */
#pragma once

#include "usage.h"
#include <vmscope/vmscope.h>

struct command;

struct session {
	const struct command *command;
	char **words; /* the command's name and arguments, as they were given */
	/* The command runs in a jail (jailed_command.h); NULL: it does not. */
	struct jailed *jailed;
	/* Options. */
	char *pid, *domain, *qmp, *agent, *gdb, *core;
	char **symbols, **memory;
	char *sysroot;
	char **debug_folders;
	char **outputs; /* files of --output without "-", or NULL */
	bool prints;	/* to standard output: there is no --output, or one is "-" */
	gboolean json, quiet, verbose, allow_stop;
	char **launch; /* the command after "--", or NULL */
	/* State. */
	struct vms_machine *machine;
	struct vms_guest *guest;
	const struct vms_process *process;   /* whose programs' addresses are meant; NULL: none */
	struct vms_debug_files *debug_files; /* NULL: the command takes none */
	/* What may be spent on data of the guest, its disks and files, and on files of others. */
	struct vms_budget *budget;
	char *budget_seconds;	     /* an option; NULL: the default */
	struct vms_launch *launched; /* the QEMU that this session started, or NULL */
	GString *out;
	int status;   /* exit status of a command that succeeds */
	GError *loss; /* why `out` is incomplete, or NULL; printed last, and the exit status is 1 */
};

/* Which of the common options a command takes. */
enum session_options {
	SESSION_TARGET = 1 << 0, /* --pid, --domain, --qmp, --agent, --gdb, --core, -- COMMAND */
	SESSION_GUEST = 1 << 1,	 /* --symbols, --sysroot, --debug-dir */
	SESSION_JSON = 1 << 2,	 /* --json */
	SESSION_OUTPUTS =
		1 << 3, /* --output may be repeated; the command writes the files itself */
	SESSION_RUNNING = 1 << 4,   /* the machine must run: no --core */
	SESSION_AGENT = 1 << 6,	    /* the command needs the agent */
	SESSION_DIRECTORY = 1 << 5, /* --output is a directory that the command makes */
	SESSION_NO_OUTPUT = 1 << 7, /* the command prints nothing: no --output */
	/*
	 * --guest, --qmp, --agent, --gdb: it takes a machine or none, and "-- COMMAND" and --pid
	 * are the command's own. "--guest auto" is the only machine here.
	 */
	SESSION_MAY_TARGET = 1 << 8,
	SESSION_PROBES = 1 << 9, /* the command places probes: a QEMU without agent by its stub */
};

struct command {
	const char *name;
	const char *arguments; /* for the usage line */
	const char *summary;
	unsigned options; /* enum session_options */
	/* Returns help that follows the options, newly allocated. May be NULL. */
	char *(*explain)(void);
	bool (*run)(struct session *session, int argc, char **argv, GError **error);
};

/*
 * Parses the command's own options and the common ones. argv keeps the positional arguments from
 * argv[1] on. There must be `min` to `max` of them; a `max` of -1 is no limit. Errors:
 * G_OPTION_ERROR for wrong usage; IO if an output cannot be written; UNSUPPORTED if a core file is
 * given to a command that needs a running machine.
 */
bool session_parse(struct session *session, const GOptionEntry *own, int *argc, char ***argv,
		   int min, int max, GError **error);

/* target.c: true if the options name a machine. */
bool session_names_target(const struct session *session);
/* target.c: the same, without a machine that "-- COMMAND" starts. */
bool session_names_guest(const struct session *session);
/* target.c: opens the machine that the options name, or the only one of this host. */
bool session_open(struct session *session, GError **error);
/* Finds out what runs in the opened machine, and adds the symbols that the options name. */
bool session_detect(struct session *session, GError **error);
/* Opens the machine and detects its guest. */
bool session_open_guest(struct session *session, GError **error);

/*
 * Reads the files of programs whose addresses were noted in `guest`, and waits a few seconds for
 * servers with their symbols. Not while the machine is held.
 */
void session_read_names(struct session *session, struct vms_guest *guest);

/*
 * Notes why the output is incomplete, and sets the exit status. Takes the error. The reason is not
 * printed if a warning has told it already when the guest was detected.
 */
void session_note_loss(struct session *session, GError *loss);
/* Appends a table to the output, as text or as JSON. */
void session_table(struct session *session, const struct vms_table *table);
/*
 * Refuses to print a binary format on a terminal. `exporter` is that of standard output, or NULL
 * for the default. Errors: usage.
 */
bool session_check_binary(const struct session *session, const struct vms_exporter *exporter,
			  GError **error);
/*
 * Notes what was left out, as its data would have cost too much. A command that goes on while the
 * guest runs warns of it; for others the output is incomplete.
 */
void session_note_cuts(struct session *session);
/* Lets the machine go, then prints the output, or writes it to the file of --output. */
bool session_finish(struct session *session, GError **error);
void session_clear(struct session *session);

/*
 * Parses a --cpu option as the number of a vCPU. Leaves `*ret` if `text` is NULL. Errors: usage;
 * NOT_FOUND if the machine has no vCPUs.
 */
bool session_vcpu(struct session *session, const char *text, unsigned *ret, GError **error);
/* The same as a range, which has all vCPUs if `text` is NULL. */
bool session_vcpus(struct session *session, const char *text, unsigned *first, unsigned *last,
		   GError **error);
/*
 * Parses a number in C notation, or a symbol with an optional offset: "0x10", "jiffies",
 * "do_idle+8". Errors: usage; NOT_FOUND if there is no such symbol.
 */
bool session_address(struct session *session, const char *text, uint64_t *ret, GError **error);
/*
 * Finds what lies at `pc`. For a return address it looks up the call before it, which may be the
 * last instruction of its function. False if nothing is known there.
 */
bool session_locate(struct session *session, const struct vms_process *process, uint64_t pc,
		    bool is_return, struct vms_location *ret);
/* Returns "do_idle+0x8 (module) at file.c:1", or "?" without a name. Newly allocated. */
char *session_name(const struct vms_location *location);
/*
 * Reads memory up to the first byte that cannot be read, and returns how many bytes were read.
 * Addresses are guest-physical, or virtual by the page tables of a vCPU. Errors: UNREADABLE if that
 * is less than `size`; those of the machine, then it returns 0.
 */
size_t session_read_first(struct session *session, bool physical, unsigned vcpu, uint64_t address,
			  void *bytes, size_t size, GError **error);
