/* SPDX-License-Identifier: MIT */
/*
 * Facts of a machine and its guest. Each item has a name: os, cpus, memory, mappings …
 *
 * Threads: one at a time may use a guest.
 */
#pragma once

#include <vmscope/guest.h>
#include <vmscope/table.h>

VMS_BEGIN_DECLS

struct vms_fact {
	const char *name;  /* as in `vmscope info NAME` */
	const char *title; /* its heading */
	const char *help;  /* what it tells, in a few words */
	bool in_report;	   /* sample reports have it by default */
};

/*
 * Returns all items: first the general ones, then those of the machine's engine. If `guest` is
 * NULL, those of all engines follow. The result is a new array of struct vms_fact. Its strings are
 * constant.
 */
GArray *vms_facts_list(struct vms_guest *guest);
/*
 * Returns one item as a new table. Holds the machine while it reads registers or lists. If the
 * table is incomplete, for example because a list is damaged, *loss says what is missing. `loss`
 * may be NULL. Errors: INVALID_ARGUMENT (there is no such item; the message lists all), and those
 * of the item.
 */
struct vms_table *vms_facts_get(struct vms_guest *guest, const char *name, GError **loss,
				GError **error);

VMS_END_DECLS
