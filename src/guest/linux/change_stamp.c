/* SPDX-License-Identifier: MIT */
#include "guest/linux/change_stamp.h"

bool vms_stamp_find(const struct vms_btf *btf, uint64_t va, const char *type, const char *path,
		    struct vms_stamp *ret)
{
	struct vms_btf_member counter;
	if (!vms_btf_member(btf, type, path, &counter))
		return false;
	*ret = (struct vms_stamp) { .va = va + counter.offset, .size = sizeof(uint32_t) };
	return true;
}

void vms_stamp_take(struct vms_stamp *stamp, struct vms_memory *memory)
{
	if (stamp->va && !vms_memory_read(memory, stamp->va, stamp->seen, stamp->size))
		memset(stamp->seen, 0, sizeof(stamp->seen));
}

bool vms_stamp_is_old(const struct vms_stamp *stamp, struct vms_memory *memory)
{
	uint8_t now[VMS_STAMP_SIZE];
	return stamp->va && vms_memory_read(memory, stamp->va, now, stamp->size) &&
	       memcmp(now, stamp->seen, stamp->size) != 0;
}
