/* SPDX-License-Identifier: MIT */
/* The user who typed the command: behind sudo that is not root. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <sys/types.h>

struct invoking_user {
	uid_t uid;
	bool is_self; /* this process already has that user's rights */
	/* Of another user; name NULL: the system does not know that user. */
	gid_t gid;
	char *name, *home, *shell;
};

/*
 * Finds out who it is: the real user, or the one of SUDO_UID if that is root. Errors:
 * INVALID_ARGUMENT (SUDO_UID is not the number of a user).
 */
bool invoking_user_find(struct invoking_user *ret, GError **error);
void invoking_user_clear(struct invoking_user *user);
/* Returns "user 1000 (alice)", or "user 1000" if the system does not know the user. */
char *invoking_user_describe(uid_t uid);
