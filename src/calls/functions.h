/* SPDX-License-Identifier: MIT */
/* Makes the table of the guest's functions for the agent. */
#pragma once

#include "calls/abi.h"
#include "machine/agent/protocol.h"
#include <vmscope/calls.h>

/*
 * Lists the functions of the guest's kernel, of its modules and of symbol files: struct
 * vms_agent_function, sorted by address, each address once. Their flags say what is special about
 * them, and which of the options' filters name them. Errors: NOT_FOUND (a name in a filter is no
 * function).
 */
GArray *vms_calls_list_functions(struct vms_guest *guest, const struct vms_calls_abi *abi,
				 const struct vms_calls_options *options, GError **error);

/* Finds the first function of the kernel with this name. False if there is none. */
bool vms_calls_find_function(struct vms_guest *guest, const char *name, uint64_t *ret);
/* True if the filters of the options name any function. */
bool vms_calls_has_names(const struct vms_calls_options *options);
