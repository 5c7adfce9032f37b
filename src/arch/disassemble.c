/* SPDX-License-Identifier: MIT */
#include "arch/decoder.h"
#include <vmscope/error.h>

/*
 * Returns the target of a direct jump or call, or 0 for any other instruction. The target is the
 * last operand; on x86 it is the only one.
 */
static uint64_t find_branch_target(const struct vms_decoder *decoder)
{
	const cs_insn *insn = decoder->insn;
	const cs_x86 *x86 = &insn->detail->x86;
	const cs_arm64 *arm64 = &insn->detail->arm64;
	if (!cs_insn_group(decoder->handle, insn, CS_GRP_JUMP) &&
	    !cs_insn_group(decoder->handle, insn, CS_GRP_CALL))
		return 0;
	if (decoder->arch->capstone_arch == CS_ARCH_ARM64) {
		const cs_arm64_op *last = arm64->operands + arm64->op_count - 1;
		return arm64->op_count && last->type == ARM64_OP_IMM ? (uint64_t)last->imm : 0;
	}
	return x86->op_count == 1 && x86->operands[0].type == X86_OP_IMM
		       ? (uint64_t)x86->operands[0].imm
		       : 0;
}

void vms_decoder_describe(const struct vms_decoder *decoder, struct vms_insn *ret)
{
	const cs_insn *insn = decoder->insn;
	*ret = (struct vms_insn) {
		.va = decoder->base + insn->address,
		.size = insn->size,
	};
	ret->is_data = insn->id == X86_INS_INVALID;
	if (!ret->is_data) {
		ret->branch_target = find_branch_target(decoder);
		ret->is_return = cs_insn_group(decoder->handle, insn, CS_GRP_RET);
	}
	memcpy(ret->bytes, insn->bytes, MIN(insn->size, sizeof(ret->bytes)));
	g_snprintf(ret->text, sizeof(ret->text), "%s%s%s", insn->mnemonic,
		   insn->op_str[0] ? " " : "", insn->op_str);
	if (decoder->base && ret->branch_target) {
		ret->branch_target += decoder->base;
		g_snprintf(ret->text, sizeof(ret->text), "%s 0x%" G_GINT64_MODIFIER "x",
			   insn->mnemonic, ret->branch_target);
	}
}

bool vms_decoder_open(struct vms_decoder *decoder, const struct vms_arch *arch, unsigned bits,
		      uint64_t base, GError **error)
{
	int mode = arch->capstone_mode;
	*decoder = (struct vms_decoder) { .arch = arch, .bits = bits, .base = base };
	if (arch->capstone_arch == CS_ARCH_X86)
		mode = bits == 16 ? CS_MODE_16 : bits == 32 ? CS_MODE_32 : CS_MODE_64;
	if (cs_open((cs_arch)arch->capstone_arch, (cs_mode)mode, &decoder->handle)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "cannot disassemble %s: this libcapstone does not know it", arch->name);
		return false;
	}
	cs_option(decoder->handle, CS_OPT_DETAIL, CS_OPT_ON);
	decoder->insn = cs_malloc(decoder->handle);
	return true;
}

void vms_decoder_close(struct vms_decoder *decoder)
{
	cs_free(decoder->insn, 1);
	cs_close(&decoder->handle);
}

const cs_insn *vms_decoder_decode(struct vms_decoder *decoder, uint64_t va, const uint8_t *code,
				  size_t size)
{
	uint64_t offset = va - decoder->base;
	return cs_disasm_iter(decoder->handle, &code, &size, &offset, decoder->insn) ? decoder->insn
										     : NULL;
}

bool vms_disassemble(const struct vms_arch *arch, unsigned bits, uint64_t base, uint64_t va,
		     const uint8_t *code, size_t size,
		     bool (*each)(const struct vms_insn *insn, void *data), void *data,
		     GError **error)
{
	struct vms_decoder decoder;
	uint64_t offset = va - base;
	if (!vms_decoder_open(&decoder, arch, bits, base, error))
		return false;
	cs_option(decoder.handle, CS_OPT_SKIPDATA, CS_OPT_ON);
	bool go_on = true;
	while (go_on && size > 0 &&
	       cs_disasm_iter(decoder.handle, &code, &size, &offset, decoder.insn)) {
		struct vms_insn described;
		vms_decoder_describe(&decoder, &described);
		go_on = each(&described, data);
	}
	vms_decoder_close(&decoder);
	return true;
}
