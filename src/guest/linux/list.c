/* SPDX-License-Identifier: MIT */
#include "guest/linux/list.h"

#include <inttypes.h>

void vms_list_begin(struct vms_list *list, struct vms_memory *memory, uint64_t head, uint64_t limit,
		    const char *name)
{
	*list = (struct vms_list) {
		.memory = memory,
		.name = name,
		.head = head,
		.at = head,
		.seen = head,
		.limit = limit,
	};
}

bool vms_list_next(struct vms_list *list, uint64_t *ret, GError **error)
{
	uint64_t next;
	if (!vms_memory_read_u64(list->memory, list->at, &next)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNREADABLE,
			    "%s of the guest: cannot read its node at 0x%" PRIx64, list->name,
			    list->at);
		return false;
	}
	if (next == list->head)
		return false;
	if (next == list->seen || list->n == list->limit) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED,
			    "%s of the guest does not end: %" PRIu64 " nodes, then 0x%" PRIx64,
			    list->name, list->n, next);
		return false;
	}
	/* Brent's way to notice a circle: remember a node after 1, 2, 4, 8 … nodes. */
	if (++list->n >= 2 * list->seen_at + 1) {
		list->seen = next;
		list->seen_at = list->n;
	}
	list->at = next;
	*ret = next;
	return true;
}
