/* SPDX-License-Identifier: MIT */
/* The kernel's circular lists (struct list_head, include/linux/types.h), walked with care. */
#pragma once

#include <vmscope/memory.h>

/* A list in guest memory: it may lead anywhere and never end. */
struct vms_list {
	struct vms_memory *memory;
	const char *name; /* for messages: "list of modules" */
	uint64_t head;	  /* address of the struct list_head that the list begins with */
	uint64_t limit;	  /* the largest number of nodes believed */
};

/*
 * Takes a node by the address of its struct list_head. False: what it belongs to cannot be read, so
 * that it is none.
 */
typedef bool vms_list_visit(uint64_t node, void *data);

/*
 * Visits every node, each once. Where the list is damaged, it is walked from its other end, too:
 * all nodes on both sides of the damage are visited, and the damage is the error: UNREADABLE,
 * MALFORMED (a circle that leaves out the head, or more nodes than the limit).
 */
bool vms_list_walk(const struct vms_list *list, vms_list_visit *visit, void *data, GError **error);
