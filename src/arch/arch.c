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

void vms_arch_code_mode(const struct vms_arch *arch, const struct vms_regs *regs,
			struct vms_code_mode *ret)
{
	*ret = (struct vms_code_mode) { .bits = 64, .is_certain = true };
	if (arch->code_mode)
		arch->code_mode(regs, ret);
}

/*
 * Returns the address of `offset` in the segment at `base`. 64-bit code ignores the base. All other
 * code has addresses of 32 bits.
 */
static uint64_t add_segment_base(const struct vms_code_mode *mode, uint64_t base, uint64_t offset)
{
	return mode->bits == 64 ? offset : (uint32_t)(base + offset);
}

uint64_t vms_arch_code_address(const struct vms_arch *arch, const struct vms_regs *regs)
{
	struct vms_code_mode mode;
	vms_arch_code_mode(arch, regs, &mode);
	return add_segment_base(&mode, mode.code_base, regs->value[arch->pc]);
}

void vms_arch_flatten(const struct vms_arch *arch, struct vms_regs *regs)
{
	struct vms_code_mode mode;
	vms_arch_code_mode(arch, regs, &mode);
	regs->value[arch->pc] = add_segment_base(&mode, mode.code_base, regs->value[arch->pc]);
	regs->value[arch->sp] = add_segment_base(&mode, mode.stack_base, regs->value[arch->sp]);
	if (regs->value[arch->fp])
		regs->value[arch->fp] =
			add_segment_base(&mode, mode.stack_base, regs->value[arch->fp]);
}

int vms_arch_reg(const struct vms_arch *arch, const char *name)
{
	for (unsigned i = 0; i < arch->n_regs; i++) {
		if (g_ascii_strcasecmp(name, arch->regs[i].name) == 0)
			return (int)i;
	}
	return -1;
}

bool vms_arch_reg_part(const struct vms_arch *arch, const char *name, struct vms_reg_part *ret)
{
	const int index = vms_arch_reg(arch, name);
	if (index < 0)
		return arch->find_part(name, ret);
	*ret = (struct vms_reg_part) { .index = (unsigned)index, .bits = arch->regs[index].bits };
	return true;
}
