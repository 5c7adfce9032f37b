/* SPDX-License-Identifier: MIT */
#include <capstone/capstone.h>
#include <vmscope/arch.h>
#include <vmscope/error.h>

/* Direct branch targets are the last operand, on x86 the only one. */
static uint64_t branch_target(csh handle, const struct vms_arch *arch, const cs_insn *insn)
{
	const cs_x86 *x86 = &insn->detail->x86;
	const cs_arm64 *arm64 = &insn->detail->arm64;
	if (!cs_insn_group(handle, insn, CS_GRP_JUMP) && !cs_insn_group(handle, insn, CS_GRP_CALL))
		return 0;
	if (arch->capstone_arch == CS_ARCH_ARM64) {
		const cs_arm64_op *last = arm64->operands + arm64->op_count - 1;
		return arm64->op_count && last->type == ARM64_OP_IMM ? (uint64_t)last->imm : 0;
	}
	return x86->op_count == 1 && x86->operands[0].type == X86_OP_IMM
		       ? (uint64_t)x86->operands[0].imm
		       : 0;
}

static void describe(csh handle, const struct vms_arch *arch, const cs_insn *insn,
		     struct vms_insn *ret)
{
	*ret = (struct vms_insn) {
		.va = insn->address,
		.size = insn->size,
	};
	/* Data between instructions of a fixed size is shown and passed over. */
	if (insn->id != 0) {
		ret->branch_target = branch_target(handle, arch, insn);
		ret->is_return = cs_insn_group(handle, insn, CS_GRP_RET);
	}
	memcpy(ret->bytes, insn->bytes, MIN(insn->size, sizeof(ret->bytes)));
	g_snprintf(ret->text, sizeof(ret->text), "%s%s%s", insn->mnemonic,
		   insn->op_str[0] ? " " : "", insn->op_str);
}

bool vms_disassemble(const struct vms_arch *arch, uint64_t va, const uint8_t *code, size_t size,
		     bool (*each)(const struct vms_insn *insn, void *data), void *data,
		     GError **error)
{
	csh handle;
	if (cs_open((cs_arch)arch->capstone_arch, (cs_mode)arch->capstone_mode, &handle)) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_UNSUPPORTED,
			    "cannot disassemble %s: this libcapstone does not know it", arch->name);
		return false;
	}
	cs_option(handle, CS_OPT_DETAIL, CS_OPT_ON);
	if (arch->capstone_arch == CS_ARCH_ARM64)
		cs_option(handle, CS_OPT_SKIPDATA, CS_OPT_ON);
	cs_insn *insn = cs_malloc(handle);
	bool go_on = true;
	while (go_on && size > 0 && cs_disasm_iter(handle, &code, &size, &va, insn)) {
		struct vms_insn described;
		describe(handle, arch, insn, &described);
		go_on = each(&described, data);
	}
	cs_free(insn, 1);
	cs_close(&handle);
	if (go_on && size > 0) {
		g_set_error(error, VMS_ERROR, VMS_ERROR_MALFORMED,
			    "no instruction at 0x%" G_GINT64_MODIFIER
			    "x: these bytes are not %s code",
			    va, arch->name);
		return false;
	}
	return true;
}
