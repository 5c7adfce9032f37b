/* SPDX-License-Identifier: MIT */
/*
 * Commands that read recordings run twice. The command that the user has started checks its
 * options, opens the files and has the same command run in a jail (base/jail.h), where they are
 * parsed. The second one has no rights: what it has to show or to write, it gives back.
 */
#pragma once

#include "base/jail_process.h"
#include "session.h"

/* The service of the jail. */
extern const struct vms_jail_service jailed_command_service;

/* True if the command is to be run in a jail: it is not in one yet. */
bool jailed_command_is_due(const struct session *session);
/*
 * Runs the session's command in a jail, with files that it may read. Opens these, writes its
 * outputs, and keeps what it prints. `*served` gets what is to be served, for the
 * caller to free; `served` may be NULL. Errors: IO if a file cannot be opened or written; those of
 * the command; CLOSED if the jail has died.
 */
bool jailed_command_run(struct session *session, const char *const *files, size_t n,
			GString **served, GError **error);

/*
 * The functions below do the same in a jail and elsewhere.
 *
 * Opens a file to read it, in a jail one of those that were given. -1 sets the error.
 */
int jailed_command_open(const struct session *session, const char *path, GError **error);
/* Returns what a command in a jail gives back to be served, which is appended to it. */
GString *jailed_command_served(const struct session *session);
/* Writes an output of the command (session.outputs). */
bool jailed_command_write(struct session *session, const char *path, const GString *text,
			  GError **error);
