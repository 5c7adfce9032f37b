/* SPDX-License-Identifier: MIT */
/* Which addresses are functions' first instructions, as the agent has to know them. */
#pragma once

#include "calls/abi.h"
#include "machine/agent/protocol.h"
#include <vmscope/calls.h>

/*
 * The functions of the guest's kernel, its modules and of symbol files, with what is special about
 * them and what the options' filters say: struct vms_agent_function, sorted, each address once.
 * Errors: NOT_FOUND, a filter names none of them.
 */
GArray *vms_calls_functions(struct vms_guest *guest, const struct vms_calls_abi *abi,
			    const struct vms_calls_options *options, GError **error);

/* The first function of the kernel that is called `name`; false when there is none. */
bool vms_calls_function(struct vms_guest *guest, const char *name, uint64_t *ret);
/* Do the options name any function? */
bool vms_calls_has_names(const struct vms_calls_options *options);
