/* SPDX-License-Identifier: MIT */
#include <capstone/capstone.h>
#include <vmscope/arch.h>
#include <vmscope/error.h>

/* Capstone gives direct branch targets as the only immediate operand, in every architecture. */
static uint64_t branch_target(csh handle, const cs_insn *insn)
{
	if (!cs_insn_group(handle, insn, CS_GRP_JUMP) && !cs_insn_group(handle, insn, CS_GRP_CALL))
		return 0;
	const cs_x86 *x86 = &insn->detail->x86;
	return x86->op_count == 1 && x86->operands[0].type == X86_OP_IMM
		       ? (uint64_t)x86->operands[0].imm
		       : 0;
}

static void describe(csh handle, const cs_insn *insn, struct vms_insn *ret)
{
	*ret = (struct vms_insn) {
		.va = insn->address,
		.size = insn->size,
		.branch_target = branch_target(handle, insn),
		.is_return = cs_insn_group(handle, insn, CS_GRP_RET),
	};
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
	cs_insn *insn = cs_malloc(handle);
	bool go_on = true;
	while (go_on && size > 0 && cs_disasm_iter(handle, &code, &size, &va, insn)) {
		struct vms_insn described;
		describe(handle, insn, &described);
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
