/* SPDX-License-Identifier: MIT */
/* What every command shares: its options, the machine it opens, where its output goes. */
#pragma once

#include <vmscope/vmscope.h>

struct command;

struct session {
	const struct command *command;
	/* Options. */
	char *pid, *qmp, *agent, *gdb, *core;
	char **symbols;
	char **outputs; /* files of --output without "-", or NULL */
	bool prints;	/* to standard output: no --output, or one that is "-" */
	gboolean json, quiet, verbose, allow_stop;
	char **launch; /* what stands after "--", or NULL */
	/* What they led to. */
	struct vms_machine *machine;
	struct vms_guest *guest;
	struct vms_launch *launched; /* the QEMU that this session started, or NULL */
	GString *out;
	int status;   /* to exit with when the command is done */
	GError *loss; /* why `out` lacks something, or NULL; printed last, and the status is 1 */
};

/* Which of the common options a command takes. */
enum session_options {
	SESSION_TARGET = 1 << 0, /* --pid, --qmp, --agent, --gdb, --core, -- COMMAND */
	SESSION_GUEST = 1 << 1,	 /* --symbols */
	SESSION_JSON = 1 << 2,	 /* --json */
	SESSION_OUTPUTS =
		1 << 3, /* --output may be repeated; the command writes the files itself */
	SESSION_RUNNING = 1 << 4,   /* the machine must run: no --core */
	SESSION_AGENT = 1 << 6,	    /* it works through the agent alone */
	SESSION_DIRECTORY = 1 << 5, /* --output is a directory that the command makes */
	SESSION_NO_OUTPUT = 1 << 7, /* it prints nothing: no --output */
};

struct command {
	const char *name;
	const char *arguments; /* for the usage line */
	const char *summary;
	unsigned options; /* enum session_options */
	/* Optional: a part of its help that stands behind the options; newly allocated. */
	char *(*explain)(void);
	bool (*run)(struct session *session, int argc, char **argv, GError **error);
};

/*
 * Parses the command's own options and the common ones; argv keeps the positional arguments, from
 * argv[1] on, of which there must be `min` to `max` (-1: any number). Errors: G_OPTION_ERROR.
 */
bool session_parse(struct session *session, const GOptionEntry *own, int *argc, char ***argv,
		   int min, int max, GError **error);

/* target.c: do the options name a machine? */
bool session_names_target(const struct session *session);
/* target.c: opens the machine that the options name, or the only one of this host. */
bool session_open(struct session *session, GError **error);
/* Finds out what runs in the opened machine, and adds the symbols that the options name. */
bool session_detect(struct session *session, GError **error);
bool session_open_guest(struct session *session, GError **error); /* both */

/*
 * Notes why the output lacks something, of which the status tells. Takes the error. What a warning
 * has said when the guest was detected is not said again.
 */
void session_note_loss(struct session *session, GError *loss);
/* Appends a table to the output, as text or as JSON. */
void session_table(struct session *session, const struct vms_table *table);
/* Lets the machine go, then prints the output, or writes it to the file of --output. */
bool session_finish(struct session *session, GError **error);
void session_clear(struct session *session);

/* A usage error: exit status 2. */
void usage_error(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* The text of a --cpu option: a vCPU of the machine; `*ret` stays where it is NULL. */
bool session_vcpu(struct session *session, const char *text, unsigned *ret, GError **error);
/* The same, all vCPUs where `text` is NULL. */
bool session_vcpus(struct session *session, const char *text, unsigned *first, unsigned *last,
		   GError **error);
/* A number in C notation, or a symbol with an optional offset: "0x10", "jiffies", "do_idle+8". */
bool session_address(struct session *session, const char *text, uint64_t *ret, GError **error);
/*
 * What `pc` is called. Of a return address the call that lies before it decides: it may be the last
 * instruction of its function. False when it has no name.
 */
bool session_locate(struct session *session, const struct vms_process *process, uint64_t pc,
		    bool is_return, struct vms_location *ret);
/* "do_idle+0x8 (module) at file.c:1"; newly allocated; "?" without a name. */
char *session_name(const struct vms_location *location);
/*
 * Reads memory of the held machine, guest-physical, or virtual by the page tables of a vCPU: how
 * many bytes there are, from the first on. Errors: UNREADABLE, they are fewer than `size`; those of
 * the machine, and it is 0.
 */
size_t session_read_first(struct session *session, bool physical, unsigned vcpu, uint64_t address,
			  void *bytes, size_t size, GError **error);
