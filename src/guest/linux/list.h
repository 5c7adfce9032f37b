/* SPDX-License-Identifier: MIT */
/* Walks circular lists of the kernel (struct list_head, include/linux/types.h). */
#pragma once

#include <vmscope/memory.h>

/* A list in guest memory. It may lead anywhere and never end. */
struct vms_list {
	struct vms_memory *memory;
	const char *name; /* for messages: "list of modules" */
	uint64_t head;	  /* address of the struct list_head that the list begins with */
	uint64_t limit;	  /* largest number of nodes; a longer list is damaged */
};

/*
 * Visits a node, which is the address of its struct list_head. False if the structure around it
 * cannot be read; the node then counts as damage.
 */
typedef bool vms_list_visit(uint64_t node, void *data);

/*
 * Visits every node once. If the list is damaged, it is walked from its other end, too, so that the
 * nodes on both sides of the damage are visited. Then the damage is the error. Errors: UNREADABLE,
 * MALFORMED (a circle without the head, or more nodes than the limit).
 */
bool vms_list_walk(const struct vms_list *list, vms_list_visit *visit, void *data, GError **error);
