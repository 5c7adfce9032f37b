/* SPDX-License-Identifier: MIT */
#include "guest/linux/list.h"
#include "base/keyed_hash.h"

#include "base/budget.h"
#include "base/keyed_hash.h"
#include <inttypes.h>

/* Offsets of the pointers in a struct list_head. */
#define NEXT 0
#define PREV sizeof(uint64_t)

struct walk {
	const struct vms_list *list;
	vms_list_visit *visit;
	void *data;
	GHashTable *seen; /* addresses of the nodes that were visited */
};

/* Returns false. */
static bool report_damage(const struct vms_list *list, int code, const char *what, uint64_t va,
			  GError **error)
{
	g_set_error(error, VMS_ERROR, code, "%s of the guest%s 0x%" PRIx64, list->name, what, va);
	return false;
}

/* A budget that is used up makes everything unreadable. */
static bool report_unreadable(const struct vms_list *list, const char *what, uint64_t va,
			      GError **error)
{
	struct vms_budget *budget = vms_memory_budget(list->memory);
	if (vms_budget_has_left(budget))
		return report_damage(list, VMS_ERROR_UNREADABLE, what, va, error);
	g_autofree char *action = g_strdup_printf("%s of the guest is cut off", list->name);
	vms_budget_set_error(budget, action, error);
	return false;
}

/* Walks by the pointers at offset `pointer`, until the head comes again or the list is damaged. */
static bool walk_one_way(struct walk *walk, uint64_t pointer, GError **error)
{
	const struct vms_list *list = walk->list;
	uint64_t at = list->head, node;
	for (;; at = node) {
		if (!vms_memory_read_u64(list->memory, at + pointer, &node))
			return report_unreadable(list, ": cannot read its node at", at, error);
		if (node == list->head)
			return true;
		void *key = GSIZE_TO_POINTER(node);
		if (g_hash_table_size(walk->seen) == list->limit ||
		    g_hash_table_contains(walk->seen, key)) {
			g_autofree char *what = g_strdup_printf(" does not end: %u nodes, then",
								g_hash_table_size(walk->seen));
			return report_damage(list, VMS_ERROR_MALFORMED, what, node, error);
		}
		if (!walk->visit(node, walk->data))
			return report_unreadable(list, ": cannot read what belongs to its node at",
						 node, error);
		g_hash_table_add(walk->seen, key);
	}
}

bool vms_list_walk(const struct vms_list *list, vms_list_visit *visit, void *data, GError **error)
{
	g_autoptr(GHashTable) seen = g_hash_table_new(vms_hash_direct, NULL);
	struct walk walk = { list, visit, data, seen };
	if (walk_one_way(&walk, NEXT, error))
		return true;
	walk_one_way(&walk, PREV, NULL);
	return false;
}
