/* SPDX-License-Identifier: MIT */
/* Reads the functions of a binary in a jail (base/jail.h), as binary_functions.h does in place. */
#pragma once

#include "base/jail_process.h"
#include "symbol/debug_files.h"
#include <vmscope/symbol.h>

/* The service, in the jail. */
extern const struct vms_jail_service vms_functions_service;

/*
 * Has the functions of a file read. `separate` may be NULL. The jail asks for the bytes of both as
 * it needs them. `budget` pays for all of it. Returns a new table. Errors: those of vms_jail_call;
 * MALFORMED.
 */
struct vms_symbol_table *vms_functions_from_jail(struct vms_jail *jail,
						 const struct vms_file_source *source,
						 const struct vms_file_source *separate,
						 const char *module, struct vms_budget *budget,
						 GError **error);
