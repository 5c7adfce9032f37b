/* SPDX-License-Identifier: MIT */
#include "flow/names.h"
#include "base/nearest.h"
#include "guest/symbols.h"
#include "probe/program_writer.h"
#include "probe/wide_registers.h"

struct found {
	uint64_t va;
	bool is_there, is_ambiguous;
};

static void note_symbol(const struct vms_symbol *symbol, const char *module, void *data)
{
	struct found *found = data;
	(void)module;
	found->is_ambiguous |= found->is_there && found->va != symbol->va;
	found->va = symbol->va;
	found->is_there = true;
}

bool vms_flow_find_symbol(struct vms_guest *guest, const char *name, uint64_t *va)
{
	struct found found = { 0 };
	vms_guest_lookup(guest, name, note_symbol, &found);
	*va = found.va;
	return found.is_there && !found.is_ambiguous;
}

char *vms_flow_name_place(struct vms_guest *guest, const struct vms_process *process, uint64_t va)
{
	struct vms_location location;
	if (!vms_guest_locate(guest, process, va, &location) || !location.symbol)
		return NULL;
	if (location.offset)
		return g_strdup_printf("%s+0x%" G_GINT64_MODIFIER "x", location.symbol,
				       location.offset);
	return g_strdup(location.symbol);
}

void vms_flow_push_register(const struct vms_arch *arch, const struct vms_reg_part *part,
			    GArray *ops)
{
	vms_program_register(ops, part->index);
	if (part->shift) {
		vms_program_push(ops, part->shift);
		vms_program_do(ops, VMS_OP_SHIFT_RIGHT);
	}
	if (part->bits < arch->regs[part->index].bits && part->bits < 64) {
		vms_program_push(ops, (UINT64_C(1) << part->bits) - 1);
		vms_program_do(ops, VMS_OP_AND);
	}
}

static void offer_name(const char *name, void *data)
{
	vms_nearest_add(data, name);
}

char *vms_flow_nearest(const struct vms_arch *arch, struct vms_guest *guest,
		       const struct vms_type *function, const char *name)
{
	struct vms_nearest nearest;
	struct vms_type_part argument;
	vms_nearest_begin(&nearest, name);
	for (uint32_t i = 0; function && vms_type_get_part(*function, i, &argument); i++)
		vms_nearest_add(&nearest, argument.name);
	for (unsigned i = 0; i < arch->n_regs; i++)
		vms_nearest_add(&nearest, arch->regs[i].name);
	vms_wide_each_name(arch, offer_name, &nearest);
	if (guest)
		vms_guest_offer_symbols(guest, &nearest);
	return vms_nearest_end(&nearest);
}
