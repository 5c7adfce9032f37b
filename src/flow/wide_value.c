/* SPDX-License-Identifier: MIT */
/* Wide registers in expressions. */
#include "flow/expression-private.h"

#include <string.h>

/* How a view shows parts of `size` bytes; 0: as wide as the register. */
struct view {
	const char *name;
	enum vms_wide_view view;
	unsigned size, offset;
	enum vms_wide_kind kind; /* of the registers that have it */
};

static const struct view views[] = {
	{ "u8", VMS_VIEW_UNSIGNED, 1, 0, VMS_WIDE_VECTOR },
	{ "u16", VMS_VIEW_UNSIGNED, 2, 0, VMS_WIDE_VECTOR },
	{ "u32", VMS_VIEW_UNSIGNED, 4, 0, VMS_WIDE_VECTOR },
	{ "u64", VMS_VIEW_UNSIGNED, 8, 0, VMS_WIDE_VECTOR },
	{ "s8", VMS_VIEW_SIGNED, 1, 0, VMS_WIDE_VECTOR },
	{ "s16", VMS_VIEW_SIGNED, 2, 0, VMS_WIDE_VECTOR },
	{ "s32", VMS_VIEW_SIGNED, 4, 0, VMS_WIDE_VECTOR },
	{ "s64", VMS_VIEW_SIGNED, 8, 0, VMS_WIDE_VECTOR },
	{ "f32", VMS_VIEW_FLOAT, 4, 0, VMS_WIDE_VECTOR },
	{ "f64", VMS_VIEW_FLOAT, 8, 0, VMS_WIDE_VECTOR },
	{ "f80", VMS_VIEW_FLOAT, VMS_WIDE_80_BITS, 0, VMS_WIDE_FLOAT },
	{ "limit", VMS_VIEW_UNSIGNED, VMS_WIDE_LIMIT_BYTES, 0, VMS_WIDE_TABLE },
	{ "base", VMS_VIEW_ADDRESS, 8, VMS_WIDE_LIMIT_BYTES, VMS_WIDE_TABLE },
};

static bool fail_view(const struct compiler *compiler, enum vms_wide_kind kind, const char *name,
		      const char *at)
{
	g_autoptr(GString) what = g_string_new(NULL);
	const char *before = "";
	g_string_printf(what, "\"%s\" is no view of this register, which has ", name);
	for (size_t i = 0; i < G_N_ELEMENTS(views); i++) {
		if (views[i].kind != kind)
			continue;
		g_string_append_printf(what, "%s%s", before, views[i].name);
		before = ", ";
	}
	return vms_expression_fail(compiler, at, what->str);
}

/* Takes "[N]", if it comes next. */
static bool take_index(struct compiler *compiler, struct vms_wide_part *part)
{
	if (!vms_expression_take(compiler, "["))
		return true;
	vms_expression_skip_blanks(compiler);
	const char *begin = compiler->at;
	char *end;
	const uint64_t index = g_ascii_strtoull(begin, &end, 10);
	const unsigned n = part->size / part->lane;
	if (end == begin || !g_ascii_isdigit(*begin) || index >= n) {
		g_autofree char *what =
			g_strdup_printf("a number from 0 to %u is needed here", n - 1);
		return vms_expression_fail(compiler, begin, what);
	}
	compiler->at = end;
	part->offset += (unsigned)index * part->lane;
	part->size = part->lane;
	return vms_expression_expect(compiler, "]");
}

bool vms_wide_value_take(struct compiler *compiler, const char *name, const char *at,
			 struct vms_wide_part *ret, bool *is_wide)
{
	struct vms_wide_register reg;
	const char *dot = strchr(name, '.');
	g_autofree char *register_name = dot ? g_strndup(name, (gsize)(dot - name)) : NULL;
	*is_wide = vms_wide_find(compiler->scope->arch, dot ? register_name : name, &reg);
	if (!*is_wide)
		return true;
	*ret = (struct vms_wide_part) {
		.number = reg.number,
		.size = reg.size,
		.lane = reg.size,
		.view = reg.kind == VMS_WIDE_TABLE ? VMS_VIEW_TABLE : VMS_VIEW_WHOLE,
	};
	if (!dot)
		return true;
	for (size_t i = 0; i < G_N_ELEMENTS(views); i++) {
		if (views[i].kind != reg.kind || strcmp(views[i].name, dot + 1) != 0)
			continue;
		ret->view = views[i].view;
		ret->lane = views[i].size;
		ret->offset = views[i].offset;
		if (reg.kind != VMS_WIDE_VECTOR)
			ret->size = ret->lane;
		return take_index(compiler, ret);
	}
	return fail_view(compiler, reg.kind, dot + 1, at);
}

bool vms_wide_value_push(struct compiler *compiler, const struct vms_wide_part *part,
			 const char *at, bool *is_signed)
{
	const bool is_integer = part->view == VMS_VIEW_UNSIGNED || part->view == VMS_VIEW_SIGNED ||
				part->view == VMS_VIEW_ADDRESS;
	if (!is_integer || part->size != part->lane)
		return vms_expression_fail(
			compiler, at,
			part->view == VMS_VIEW_FLOAT
				? "floating-point numbers can be shown, but not computed with: "
				  "their bits can, as in xmm0.u64[0]"
			: part->view == VMS_VIEW_TABLE
				? "this is an address and a limit: write gdtr.base or gdtr.limit"
				: "this is more than one number of 64 bits: write one, as in "
				  "xmm0.u64[0]");
	vms_program_add(compiler->ops, VMS_OP_WIDE, part->size,
			vms_op_wide(part->number, part->offset));
	*is_signed = vms_wide_part_is_signed(part);
	if (*is_signed)
		vms_program_add(compiler->ops, VMS_OP_EXTEND, part->size, 0);
	return true;
}

void vms_wide_value_collect(const struct vms_wide_part *part, GArray *ops)
{
	vms_program_add(ops, VMS_OP_COLLECT_WIDE, part->size,
			vms_op_wide(part->number, part->offset));
}
