/* SPDX-License-Identifier: MIT */
#include "invoking_user.h"
#include "base/text.h"
#include <pwd.h>
#include <unistd.h>
#include <vmscope/error.h>

/* Sets the number of the user who called sudo. False, with an error, if SUDO_UID has none. */
static bool parse_sudo_uid(const char *text, uid_t *ret, GError **error)
{
	guint64 uid;
	/* The largest number means "leave it" in setresuid(2). */
	if (!g_ascii_string_to_unsigned(text, 10, 0, (uid_t)-1 - 1, &uid, NULL)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_INVALID_ARGUMENT,
			    "SUDO_UID is not the number of a user: unset it, or start vmscope by "
			    "sudo");
		return false;
	}
	*ret = (uid_t)uid;
	return true;
}

bool invoking_user_find(struct invoking_user *ret, GError **error)
{
	const char *sudo = getuid() == 0 ? g_getenv("SUDO_UID") : NULL;
	*ret = (struct invoking_user) { .uid = getuid() };
	if (sudo && !parse_sudo_uid(sudo, &ret->uid, error))
		return false;
	ret->is_self = ret->uid == getuid();
	const struct passwd *entry = ret->is_self ? NULL : getpwuid(ret->uid);
	if (entry) {
		ret->gid = entry->pw_gid;
		ret->name = g_strdup(entry->pw_name);
		ret->home = g_strdup(entry->pw_dir);
		ret->shell = g_strdup(entry->pw_shell);
	}
	return true;
}

void invoking_user_clear(struct invoking_user *user)
{
	g_free(user->name);
	g_free(user->home);
	g_free(user->shell);
}

char *invoking_user_describe(uid_t uid)
{
	const struct passwd *entry = getpwuid(uid);
	if (!entry)
		return g_strdup_printf("user %u", (unsigned)uid);
	g_autofree char *name = g_strdup(entry->pw_name);
	vms_text_clean(name);
	return g_strdup_printf("user %u (%s)", (unsigned)uid, name);
}
