/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <vmscope/arch.h>

static const struct vms_arch *const architectures[] = { &vms_arch_x86_64, &vms_arch_aarch64 };

const struct vms_arch *vms_arch_by_name(const char *name)
{
	for (size_t i = 0; i < G_N_ELEMENTS(architectures); i++) {
		const struct vms_arch *arch = architectures[i];
		if (strcmp(name, arch->name) == 0 || strcmp(name, arch->gdb_name) == 0 ||
		    (arch->alias && strcmp(name, arch->alias) == 0))
			return arch;
	}
	return NULL;
}

int vms_arch_reg(const struct vms_arch *arch, const char *name)
{
	for (unsigned i = 0; i < arch->n_regs; i++) {
		if (strcmp(name, arch->regs[i].name) == 0)
			return (int)i;
	}
	return -1;
}
