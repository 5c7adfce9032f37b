/* SPDX-License-Identifier: MIT */
#include "base/private_folder.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vmscope/error.h>

/* True for a folder, not a link, that is this user's and that nobody else can enter. */
static bool is_private(const struct stat *status)
{
	return S_ISDIR(status->st_mode) && status->st_uid == geteuid() && !(status->st_mode & 0077);
}

bool vms_private_folder_make(const char *path, GError **error)
{
	struct stat status;
	if (g_mkdir_with_parents(path, 0700) != 0 || lstat(path, &status) != 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot make the folder %s: %s", path,
			    g_strerror(errno));
		return false;
	}
	if (is_private(&status))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_PERMISSION,
		    "cannot use %s: it must be a folder, not a link, that belongs to user %u and "
		    "that nobody else can enter (mode 0700)",
		    path, (unsigned)geteuid());
	return false;
}

/* Returns the folder in which that of vmscope is, newly allocated; NULL: there is none. */
static char *find_runtime_parent(void)
{
	const char *told = g_getenv("XDG_RUNTIME_DIR");
	struct stat status;
	if (geteuid() == 0)
		return g_strdup("/run");
	if (told && told[0])
		return g_strdup(told);
	/* Where logind has made it, though the environment has lost it, as behind su. */
	g_autofree char *usual = g_strdup_printf("/run/user/%u", (unsigned)geteuid());
	return lstat(usual, &status) == 0 && is_private(&status) ? g_steal_pointer(&usual) : NULL;
}

char *vms_private_folder_runtime(GError **error)
{
	g_autofree char *parent = find_runtime_parent();
	g_autofree char *path = parent ? g_build_filename(parent, "vmscope", NULL) : NULL;
	return path && vms_private_folder_make(path, error) ? g_steal_pointer(&path) : NULL;
}

char *vms_private_folder_temporary(GError **error)
{
	g_autofree char *prefix = g_strdup_printf("vmscope-%u-", (unsigned)geteuid());
	g_autoptr(GDir) temporary = g_dir_open(g_get_tmp_dir(), 0, NULL);
	const char *name;
	struct stat status;
	while (temporary && (name = g_dir_read_name(temporary))) {
		g_autofree char *path = g_build_filename(g_get_tmp_dir(), name, NULL);
		if (g_str_has_prefix(name, prefix) && lstat(path, &status) == 0 &&
		    is_private(&status))
			return g_steal_pointer(&path);
	}
	g_autofree char *template = g_strconcat(g_get_tmp_dir(), "/", prefix, "XXXXXX", NULL);
	if (mkdtemp(template))
		return g_steal_pointer(&template);
	g_set_error(error, VMS_ERROR, VMS_ERROR_IO, "cannot make a folder in %s: %s",
		    g_get_tmp_dir(), g_strerror(errno));
	return NULL;
}
