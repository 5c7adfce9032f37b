/* SPDX-License-Identifier: MIT */
#include "browser.h"
#include <grp.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vmscope/error.h>

/* What a browser of another user takes of our environment: where the screen is, and the language.
 */
static const char *const kept[] = {
	"BROWSER",
	"DISPLAY",
	"WAYLAND_DISPLAY",
	"XAUTHORITY",
	"PATH",
	"TERM",
	"LANG",
	"LANGUAGE",
	"LC_ALL",
	"LC_CTYPE",
	"LC_TIME",
	"LC_NUMERIC",
	"LC_MESSAGES",
	"XDG_SESSION_TYPE",
	"XDG_CURRENT_DESKTOP",
	"COLORTERM",
	"DESKTOP_SESSION",
};

/* The rights of another user, for the child. All of it is found out before the fork. */
struct rights {
	uid_t uid;
	gid_t gid;
	gid_t *groups;
	int n_groups;
};

const char *find_browser(void)
{
	const char *browser = g_getenv("BROWSER");
	return browser && browser[0] ? browser : "xdg-open";
}

static void find_rights(const struct invoking_user *user, struct rights *ret)
{
	*ret = (struct rights) { .uid = user->uid, .gid = user->gid };
	/* The first call says how many there are. */
	getgrouplist(user->name, user->gid, NULL, &ret->n_groups);
	ret->groups = g_new0(gid_t, (size_t)MAX(ret->n_groups, 1));
	if (getgrouplist(user->name, user->gid, ret->groups, &ret->n_groups) < 0)
		ret->n_groups = 0;
}

/* True if the folder is there and is the user's. */
static bool is_folder_of(const char *path, uid_t uid)
{
	struct stat status;
	return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == uid;
}

/* Returns the environment of another user. None of root's own is in it. */
static char **make_environment(const struct invoking_user *user)
{
	char **environment = g_new0(char *, 1);
	g_autofree char *runtime = g_strdup_printf("/run/user/%u", (unsigned)user->uid);
	g_autofree char *bus = g_strconcat("unix:path=", runtime, "/bus", NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(kept); i++) {
		const char *value = g_getenv(kept[i]);
		if (value)
			environment = g_environ_setenv(environment, kept[i], value, TRUE);
	}
	environment = g_environ_setenv(environment, "HOME", user->home, TRUE);
	environment = g_environ_setenv(environment, "USER", user->name, TRUE);
	environment = g_environ_setenv(environment, "LOGNAME", user->name, TRUE);
	environment = g_environ_setenv(environment, "SHELL", user->shell, TRUE);
	if (is_folder_of(runtime, user->uid)) {
		environment = g_environ_setenv(environment, "XDG_RUNTIME_DIR", runtime, TRUE);
		environment = g_environ_setenv(environment, "DBUS_SESSION_BUS_ADDRESS", bus, TRUE);
	}
	return environment;
}

/* In the child, before it executes the browser: only functions that are safe after a fork. */
static void begin_life(gpointer data)
{
	const struct rights *rights = data;
	setsid();
	if (!rights)
		return;
	if (setgroups((size_t)rights->n_groups, rights->groups) < 0 ||
	    setresgid(rights->gid, rights->gid, rights->gid) < 0 ||
	    setresuid(rights->uid, rights->uid, rights->uid) < 0 || chdir("/") < 0)
		_exit(126);
}

bool start_browser(const struct invoking_user *user, const char *address, GPid *ret, GError **error)
{
	const char *const argv[] = { find_browser(), address, NULL };
	struct rights rights = { 0 };
	g_auto(GStrv) environment = NULL;
	g_autoptr(GError) failure = NULL;
	if (!user->is_self && !user->name) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND,
			    "this system does not know user %u of SUDO_UID", (unsigned)user->uid);
		return false;
	}
	if (!user->is_self) {
		find_rights(user, &rights);
		environment = make_environment(user);
	}
	const bool started =
		g_spawn_async(NULL, (char **)argv, environment,
			      G_SPAWN_SEARCH_PATH | G_SPAWN_DO_NOT_REAP_CHILD |
				      G_SPAWN_STDOUT_TO_DEV_NULL | G_SPAWN_STDERR_TO_DEV_NULL,
			      begin_life, user->is_self ? NULL : &rights, ret, &failure);
	g_free(rights.groups);
	if (!started)
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "%s", failure->message);
	return started;
}
