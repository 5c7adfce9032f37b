/* SPDX-License-Identifier: MIT */
/*
 * Facts of a machine and its guest, one item each: os, cpus, memory, mappings …
 *
 * Threads: one at a time for a guest.
 */
#pragma once

#include <vmscope/guest.h>
#include <vmscope/table.h>

VMS_BEGIN_DECLS

struct vms_fact {
	const char *name;  /* as `vmscope info NAME` takes it */
	const char *title; /* as a heading */
	const char *help;
	bool in_report; /* written into sample reports unless asked otherwise */
};

/*
 * All items: the general ones, then those of the machine's engine; where `guest` is NULL, those of
 * any engine. An array of struct vms_fact for the caller; the strings are constant.
 */
GArray *vms_facts_list(struct vms_guest *guest);
/*
 * One item as a table for the caller; holds the machine where it reads registers or lists. Where
 * the table lacks something, as of a damaged list, *loss says what (unless `loss` is NULL). Errors:
 * INVALID_ARGUMENT (no such item; the message lists them), and what the item needs.
 */
struct vms_table *vms_facts_get(struct vms_guest *guest, const char *name, GError **loss,
				GError **error);

VMS_END_DECLS
