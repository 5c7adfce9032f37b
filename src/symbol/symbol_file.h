/* SPDX-License-Identifier: MIT */
/* Symbol files that somebody else has named. */
#pragma once

#include "base/foreign_file.h"
#include <vmscope/symbol.h>

/*
 * Makes a symbol file of an open file, which it takes, also if it fails. `path` is for messages.
 * `budget`, errors: as below.
 */
struct vms_symbol_file *vms_symbol_file_open_fd(int fd, const char *path, struct vms_budget *budget,
						GError **error);
/*
 * Opens a file as vms_symbol_file_open does. `budget`, which is referenced and may be NULL, pays
 * for it: for steps, for what the libraries take, and for the bytes that are kept. Errors: those of
 * vms_symbol_file_open, BUDGET, CANCELLED.
 */
struct vms_symbol_file *vms_symbol_file_open_foreign(struct vms_foreign_files *files,
						     const struct vms_foreign_name *name,
						     struct vms_budget *budget, GError **error);
