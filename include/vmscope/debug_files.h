/* SPDX-License-Identifier: MIT */
/*
 * Files of this host that have what a guest's memory lacks of its programs: copies of them, and
 * files with their symbols. A file is used only if it has the build id of the guest's program. A
 * file at the right place with another one is not used, and said once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vmscope/budget.h>
#include <vmscope/error.h>

VMS_BEGIN_DECLS

typedef struct vms_debug_files vms_debug_files;

struct vms_debug_files_options {
	size_t size; /* sizeof(struct vms_debug_files_options) */
	/*
	 * A folder with the guest's files at their paths, or NULL. "/" if this host has the same.
	 */
	const char *sysroot;
	/*
	 * Folders with symbols by build id (FOLDER/.build-id/12/34….debug, or FOLDER/12/34….debug
	 * if its name is ".build-id"), with a NULL at the end. NULL: /usr/lib/debug.
	 */
	const char *const *folders;
	/*
	 * Asks the servers of the environment variable DEBUGINFOD_URLS, if it is set. They learn
	 * which programs the guest has.
	 */
	bool asks_servers;
	/* Where it is noted which files could not be opened. It is referenced, and may be NULL. */
	struct vms_budget *budget;
};

/*
 * Copies the options. NULL means the default for all. Errors: those of options (docs/library.md);
 * NOT_FOUND (the sysroot or one of `folders` is not a folder).
 */
struct vms_debug_files *vms_debug_files_new(const struct vms_debug_files_options *options,
					    GError **error);
struct vms_debug_files *vms_debug_files_ref(struct vms_debug_files *files);
void vms_debug_files_unref(struct vms_debug_files *files);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vms_debug_files, vms_debug_files_unref)

/*
 * Waits for the answers of servers, for `timeout_ns` at most. What has not come by then is given
 * up, with a warning. Returns at once if nothing was asked. Call vms_guest_read_files after it. For
 * any thread.
 */
void vms_debug_files_wait(struct vms_debug_files *files, uint64_t timeout_ns);

VMS_END_DECLS
