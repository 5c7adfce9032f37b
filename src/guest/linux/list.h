/* SPDX-License-Identifier: MIT */
/* The kernel's circular lists (struct list_head, include/linux/types.h), walked with care. */
#pragma once

#include <vmscope/memory.h>

/* A walk. A list in guest memory may lead anywhere and never end. */
struct vms_list {
	struct vms_memory *memory;
	const char *name; /* for messages: "list of modules" */
	uint64_t head;	  /* address of the struct list_head that the list begins with */
	uint64_t at;
	uint64_t seen, seen_at; /* a node passed, and after how many nodes: tells circles */
	uint64_t n, limit;
};

/* `limit` is the largest number of nodes believed. */
void vms_list_begin(struct vms_list *list, struct vms_memory *memory, uint64_t head, uint64_t limit,
		    const char *name);
/*
 * The next node's struct list_head. False at the end of the list, and with an error: UNREADABLE,
 * MALFORMED (a circle that leaves out the head, or more nodes than the limit).
 */
bool vms_list_next(struct vms_list *list, uint64_t *ret, GError **error);
