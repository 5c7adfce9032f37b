/* SPDX-License-Identifier: MIT */
#include "probe/wide_registers.h"

#include <glib.h>
#include <string.h>

/* Registers whose names are `prefix` and a number, or `prefix` alone if `n` is 0. */
struct family {
	const struct vms_arch *arch;
	const char *prefix;
	unsigned n;
	struct vms_wide_register first;
	bool is_described_only; /* by target descriptions; not for users */
};

static const struct family families[] = {
	{ &vms_arch_x86_64, "xmm", 16, { 0, 16, VMS_WIDE_VECTOR }, false },
	{ &vms_arch_x86_64, "ymm", 16, { 0, 32, VMS_WIDE_VECTOR }, false },
	{ &vms_arch_x86_64, "zmm", 32, { 0, 64, VMS_WIDE_VECTOR }, false },
	{ &vms_arch_x86_64, "st", 8, { VMS_WIDE_ST, VMS_WIDE_80_BITS, VMS_WIDE_FLOAT }, false },
	{ &vms_arch_x86_64, "gdtr", 0, { VMS_WIDE_GDTR, VMS_WIDE_80_BITS, VMS_WIDE_TABLE }, false },
	{ &vms_arch_x86_64, "idtr", 0, { VMS_WIDE_IDTR, VMS_WIDE_80_BITS, VMS_WIDE_TABLE }, false },
	{ &vms_arch_aarch64, "v", 32, { 0, 16, VMS_WIDE_VECTOR }, false },
	{ &vms_arch_aarch64, "q", 32, { 0, 16, VMS_WIDE_VECTOR }, false },
	{ &vms_arch_aarch64, "z", 32, { 0, 16, VMS_WIDE_VECTOR }, true },
};

/* True if `name` is one of a family. */
static bool is_in_family(const struct family *family, const char *name,
			 struct vms_wide_register *ret)
{
	const size_t length = strlen(family->prefix);
	uint64_t number = 0;
	if (g_ascii_strncasecmp(name, family->prefix, length) != 0)
		return false;
	const char *digits = name + length;
	const bool has_zeros = digits[0] == '0' && digits[1];
	if (family->n ? has_zeros || !g_ascii_string_to_unsigned(digits, 10, 0, family->n - 1,
								 &number, NULL)
		      : *digits)
		return false;
	*ret = family->first;
	ret->number += (unsigned)number;
	return true;
}

static bool find_register(const struct vms_arch *arch, const char *name, bool is_described,
			  struct vms_wide_register *ret)
{
	for (size_t i = 0; i < G_N_ELEMENTS(families); i++)
		if (families[i].arch == arch && (is_described || !families[i].is_described_only) &&
		    is_in_family(&families[i], name, ret))
			return true;
	return false;
}

bool vms_wide_find(const struct vms_arch *arch, const char *name, struct vms_wide_register *ret)
{
	return find_register(arch, name, false, ret);
}

bool vms_wide_find_described(const struct vms_arch *arch, const char *name, unsigned *number)
{
	struct vms_wide_register found;
	const bool is_found = find_register(arch, name, true, &found);
	*number = is_found ? found.number : 0;
	return is_found;
}

void vms_wide_each_name(const struct vms_arch *arch, void (*each)(const char *name, void *data),
			void *data)
{
	for (size_t i = 0; i < G_N_ELEMENTS(families); i++) {
		const struct family *family = &families[i];
		if (family->arch != arch || family->is_described_only)
			continue;
		if (!family->n)
			each(family->prefix, data);
		for (unsigned k = 0; k < family->n; k++) {
			g_autofree char *name = g_strdup_printf("%s%u", family->prefix, k);
			each(name, data);
		}
	}
}

bool vms_wide_get(const struct vms_wide_regs *regs, unsigned number, unsigned offset, void *ret,
		  size_t size)
{
	if (number >= VMS_WIDE_MAX || offset > regs->size[number] ||
	    size > regs->size[number] - offset)
		return false;
	memcpy(ret, regs->bytes[number] + offset, size);
	return true;
}
