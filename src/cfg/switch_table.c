/* SPDX-License-Identifier: MIT */
#include "cfg/switch_table.h"

const cs_insn *vms_path_decode(const struct vms_path *path, unsigned step)
{
	const struct vms_path_step *at = &path->steps[step];
	return vms_decoder_decode(path->decoder, at->va, at->code, at->size);
}

bool vms_path_writes(const struct vms_path *path, const struct vms_path_registers *registers,
		     const cs_insn *insn, int number)
{
	cs_regs read, written;
	uint8_t n_read, n_written;
	if (registers->is_clobbered(path, insn, number) ||
	    cs_regs_access(path->decoder->handle, insn, read, &n_read, written, &n_written))
		return true;
	for (unsigned i = 0; i < n_written; i++)
		if (registers->get_number(written[i]) == number)
			return true;
	return false;
}

const cs_insn *vms_path_find_definition(const struct vms_path *path,
					const struct vms_path_registers *registers, unsigned from,
					int number, unsigned *step)
{
	for (unsigned i = from + 1; number != VMS_NOT_GENERAL && i < path->n; i++) {
		const cs_insn *insn = vms_path_decode(path, i);
		if (!insn)
			return NULL;
		if (vms_path_writes(path, registers, insn, number)) {
			*step = i;
			return insn;
		}
	}
	return NULL;
}

bool vms_switch_table_find(const struct vms_path *path, struct vms_switch_table *ret)
{
	return path->decoder->arch->capstone_arch == CS_ARCH_ARM64
		       ? vms_switch_table_find_aarch64(path, ret)
		       : vms_switch_table_find_x86(path, ret);
}
