/* SPDX-License-Identifier: MIT */
#include "symbol/debug_files.h"
#include "base/clock.h"
#include "base/foreign_file.h"
#include "base/keyed_hash.h"
#include "base/options.h"
#include "symbol/debuginfod.h"
#include <string.h>
#include <vmscope/log.h>

#define DEFAULT_FOLDER "/usr/lib/debug"
#define TOLD_LIMIT     1024 /* files that were told to have another build id */

struct vms_debug_files {
	gatomicrefcount refs;
	char *sysroot;
	char **folders;
	struct vms_foreign_files *foreign;
	GMutex lock;			/* guards all that follows */
	struct vms_debuginfod *servers; /* NULL: nobody is asked */
	GHashTable *told;		/* paths of files with another build id */
};

static bool check_folder(const char *path, const char *what, GError **error)
{
	if (!path || g_file_test(path, G_FILE_TEST_IS_DIR))
		return true;
	g_set_error(error, VMS_ERROR, VMS_ERROR_NOT_FOUND, "%s is no directory with %s", path,
		    what);
	return false;
}

struct vms_debug_files *vms_debug_files_new(const struct vms_debug_files_options *options,
					    GError **error)
{
	static const char *const default_folders[] = { DEFAULT_FOLDER, NULL };
	struct vms_debug_files_options chosen;
	if (!vms_options_copy(options, &chosen, sizeof(chosen), "vms_debug_files_options", error) ||
	    !check_folder(chosen.sysroot, "the guest's files", error))
		return NULL;
	for (size_t i = 0; chosen.folders && chosen.folders[i]; i++)
		if (!check_folder(chosen.folders[i], "symbols", error))
			return NULL;
	struct vms_debug_files *files = g_new0(struct vms_debug_files, 1);
	g_atomic_ref_count_init(&files->refs);
	g_mutex_init(&files->lock);
	files->sysroot = g_strdup(chosen.sysroot);
	files->folders = g_strdupv((char **)(chosen.folders ?: default_folders));
	files->foreign = vms_foreign_files_new(chosen.budget);
	files->servers = chosen.asks_servers ? vms_debuginfod_new() : NULL;
	files->told = g_hash_table_new_full(vms_hash_text, g_str_equal, g_free, NULL);
	return files;
}

struct vms_debug_files *vms_debug_files_ref(struct vms_debug_files *files)
{
	g_atomic_ref_count_inc(&files->refs);
	return files;
}

void vms_debug_files_unref(struct vms_debug_files *files)
{
	if (!files || !g_atomic_ref_count_dec(&files->refs))
		return;
	vms_debuginfod_free(files->servers);
	vms_foreign_files_unref(files->foreign);
	g_hash_table_unref(files->told);
	g_strfreev(files->folders);
	g_free(files->sysroot);
	g_mutex_clear(&files->lock);
	g_free(files);
}

void vms_separate_symbols_clear(struct vms_separate_symbols *symbols)
{
	vms_elf_image_clear(&symbols->elf);
	vms_file_source_clear(&symbols->source);
}

/* ---- one file --------------------------------------------------------- */

/* True the first time for each path. */
static bool is_first_time(struct vms_debug_files *files, const char *path)
{
	g_mutex_lock(&files->lock);
	const bool is_first = g_hash_table_size(files->told) < TOLD_LIMIT &&
			      g_hash_table_add(files->told, g_strdup(path));
	g_mutex_unlock(&files->lock);
	return is_first;
}

/* Opens `path` below `root`, if it has the build id. */
static bool open_file(struct vms_debug_files *files, const char *root, const char *path,
		      const char *build_id, struct vms_budget *budget,
		      struct vms_separate_symbols *ret)
{
	const struct vms_foreign_name name = { .root = root, .path = path };
	g_autoptr(GError) failure = NULL;
	int number;
	struct vms_foreign_file *file =
		vms_foreign_files_open(files->foreign, &name, budget, &number);
	if (!file)
		return false;
	ret->source = vms_file_source_of_foreign(file, budget);
	const bool is_elf = vms_elf_image_read(&ret->source, &ret->elf, &failure);
	if (is_elf && strcmp(ret->elf.build_id, build_id) == 0)
		return true;
	g_autofree char *whole = g_build_filename(root, path, NULL);
	if (is_first_time(files, whole))
		vms_log(VMS_LOG_WARNING,
			"%s is not used for the guest's program: its build id is %s, not %s", whole,
			is_elf && ret->elf.build_id[0] ? ret->elf.build_id : "not known", build_id);
	vms_separate_symbols_clear(ret);
	return false;
}

static bool has_symbols(const struct vms_elf_image *elf)
{
	for (unsigned i = 0; i < elf->n_sections; i++)
		if (elf->sections[i].sh_type == SHT_SYMTAB)
			return true;
	return false;
}

static bool open_symbols(struct vms_debug_files *files, const char *root, const char *path,
			 const char *build_id, struct vms_budget *budget,
			 struct vms_separate_symbols *ret)
{
	if (!open_file(files, root, path, build_id, budget, ret))
		return false;
	if (has_symbols(&ret->elf))
		return true;
	vms_separate_symbols_clear(ret); /* it was stripped, too */
	return false;
}

/* ---- looking at all places -------------------------------------------- */

/* Returns the path of a build id below a folder with symbols, newly allocated. */
static char *name_by_build_id(const char *folder, const char *build_id)
{
	const bool is_inside =
		g_str_has_suffix(folder, ".build-id") || g_str_has_suffix(folder, ".build-id/");
	return g_strdup_printf("%s%.2s/%s.debug", is_inside ? "" : ".build-id/", build_id,
			       build_id + 2);
}

static bool find_in_sysroot(struct vms_debug_files *files, const char *path, const char *build_id,
			    struct vms_budget *budget, struct vms_separate_symbols *ret)
{
	if (!files->sysroot)
		return false;
	g_autofree char *name = name_by_build_id("", build_id);
	g_autofree char *by_id = g_build_filename(DEFAULT_FOLDER, name, NULL);
	g_autofree char *by_path = g_strconcat(DEFAULT_FOLDER, path, ".debug", NULL);
	return open_symbols(files, files->sysroot, path, build_id, budget, ret) ||
	       open_symbols(files, files->sysroot, by_id, build_id, budget, ret) ||
	       open_symbols(files, files->sysroot, by_path, build_id, budget, ret);
}

static bool find_in_folders(struct vms_debug_files *files, const char *build_id,
			    struct vms_budget *budget, struct vms_separate_symbols *ret)
{
	for (char **folder = files->folders; *folder; folder++) {
		g_autofree char *name = name_by_build_id(*folder, build_id);
		if (open_symbols(files, *folder, name, build_id, budget, ret))
			return true;
	}
	return false;
}

static enum vms_debug_answer query_servers(struct vms_debug_files *files, const char *build_id,
					   struct vms_budget *budget,
					   struct vms_separate_symbols *ret)
{
	const char *found;
	g_mutex_lock(&files->lock);
	const enum vms_debuginfod_answer answer =
		files->servers ? vms_debuginfod_find(files->servers, build_id, &found)
			       : VMS_DEBUGINFOD_MISSING;
	g_autofree char *path = answer == VMS_DEBUGINFOD_FOUND ? g_strdup(found) : NULL;
	g_mutex_unlock(&files->lock);
	if (answer == VMS_DEBUGINFOD_PENDING)
		return VMS_DEBUG_PENDING;
	return path && open_symbols(files, "/", path, build_id, budget, ret) ? VMS_DEBUG_FOUND
									     : VMS_DEBUG_MISSING;
}

enum vms_debug_answer vms_debug_files_find_symbols(struct vms_debug_files *files, const char *path,
						   const char *build_id, struct vms_budget *budget,
						   struct vms_separate_symbols *ret)
{
	if (strlen(build_id) < 3)
		return VMS_DEBUG_MISSING;
	if (find_in_sysroot(files, path, build_id, budget, ret) ||
	    find_in_folders(files, build_id, budget, ret))
		return VMS_DEBUG_FOUND;
	return query_servers(files, build_id, budget, ret);
}

bool vms_debug_files_find_copy(struct vms_debug_files *files, const char *path,
			       const char *build_id, uint64_t size, struct vms_budget *budget,
			       struct vms_file_source *ret)
{
	struct vms_separate_symbols copy;
	if (!files->sysroot || !open_file(files, files->sysroot, path, build_id, budget, &copy))
		return false;
	vms_elf_image_clear(&copy.elf);
	*ret = copy.source;
	if (ret->size == size)
		return true;
	vms_file_source_clear(ret); /* it was stripped, or the guest's was: offsets may differ */
	return false;
}

struct vms_foreign_files *vms_debug_files_foreign(struct vms_debug_files *files)
{
	return files->foreign;
}

/* ---- waiting ---------------------------------------------------------- */

bool vms_debug_files_is_pending(struct vms_debug_files *files, const char *build_id)
{
	const char *path;
	g_mutex_lock(&files->lock);
	const bool is_pending =
		files->servers &&
		vms_debuginfod_find(files->servers, build_id, &path) == VMS_DEBUGINFOD_PENDING;
	g_mutex_unlock(&files->lock);
	return is_pending;
}

void vms_debug_files_wait(struct vms_debug_files *files, uint64_t timeout_ns)
{
	g_mutex_lock(&files->lock);
	if (files->servers)
		vms_debuginfod_wait(files->servers, vms_clock_now_ns() + timeout_ns);
	g_mutex_unlock(&files->lock);
}
