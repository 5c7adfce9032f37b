/* SPDX-License-Identifier: MIT */
#include "guest/linux/unwind_info.h"
#include "guest/linux/module.h"

bool vms_linux_is_text(const void *system, uint64_t pc)
{
	const struct vms_linux *guest = system;
	for (size_t i = 0; i < G_N_ELEMENTS(guest->text); i++)
		if (pc >= guest->text[i].begin && pc < guest->text[i].end)
			return true;
	uint64_t part;
	bool is_text;
	return vms_linux_module_part_at(guest, pc, &part, &is_text) && is_text;
}

bool vms_linux_is_entry_text(const void *system, uint64_t pc)
{
	const struct vms_linux *guest = system;
	return pc >= guest->entry_text.begin && pc < guest->entry_text.end;
}

uint64_t vms_linux_pt_regs_record(const void *system)
{
	return ((const struct vms_linux *)system)->pt_regs_record;
}

bool vms_linux_has_orc(const void *system)
{
	return ((const struct vms_linux *)system)->orc != NULL;
}

bool vms_linux_orc_at(const void *system, uint64_t pc, struct vms_orc_entry *ret)
{
	const struct vms_linux *guest = system;
	const struct vms_orc *orc = NULL;
	if (pc >= guest->image && pc < guest->image_end)
		orc = guest->orc;
	else if (!vms_linux_module_at(guest, pc, &orc))
		return false;
	return orc && vms_orc_find(orc, pc, ret);
}
