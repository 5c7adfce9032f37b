/* SPDX-License-Identifier: MIT */
/* Files of this host that a recording names: used where they are those that were mapped. */
#pragma once

#include "base/budget.h"

/*
 * Opens the file at `path` of this host for reading, if it is an ELF file with this build id, which
 * is not empty. So whoever chooses both gets no file but a program. `budget`, which may be NULL,
 * pays. Returns a descriptor for the caller to close, or -1.
 */
int vms_mapped_file_open(const char *path, const char *build_id, struct vms_budget *budget);
